# SPDX-License-Identifier: BSD-2-Clause
"""What happens to a simulated cluster, as text: one line a step, with the second at which it happens.

    nodes 3
    seed 17
    for 90
    12.5 user adds one on node2
    14 node2 loses power after 7 calls
    30 node2 gets power

A scenario is such a text with the story it must give below. A failing seed becomes one by dropping lines for as long as
it fails.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

_STEP = re.compile(r"(?P<at>[0-9]+(?:\.[0-9]+)?) (?P<what>\S.*)")
_HEADS: Final = {"nodes": (1, 20), "seed": (0, 10**18), "for": (1, 86400), "candidates": (1, 20)}
"""What may stand before the steps, from and to."""


class PlanError(ValueError):
    """A line that cannot be read; the sentence says which and how it should look."""


@dataclass(frozen=True)
class Step:
    at_s: float
    what: str

    def __str__(self) -> str:
        return f"{self.at_s:g} {self.what}"


@dataclass(frozen=True)
class Plan:
    nodes: int
    seed: int
    duration_s: float
    steps: tuple[Step, ...]
    candidates: int | None = None

    def __str__(self) -> str:
        heads = [f"nodes {self.nodes}", f"seed {self.seed}", f"for {self.duration_s:g}"]
        if self.candidates is not None:
            heads.append(f"candidates {self.candidates}")
        return "\n".join([*heads, *map(str, self.steps)]) + "\n"

    def without(self, left_out: range) -> "Plan":
        kept = tuple(step for index, step in enumerate(self.steps) if index not in left_out)
        return replace(self, steps=kept)


def parse(text: str) -> Plan:
    """Read a plan; empty lines and lines with ``#`` say nothing. Raises `PlanError`."""
    heads: dict[str, float] = {"nodes": 3, "seed": 1, "for": 60}
    steps = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        word, _, rest = line.partition(" ")
        if word in _HEADS:
            least, most = _HEADS[word]
            if not re.fullmatch(r"[0-9]{1,18}(\.[0-9]+)?", rest) or not least <= float(rest) <= most:
                raise PlanError(f"line {number}: '{line}': {word} needs a number from {least} to {most}")
            heads[word] = float(rest)
            continue
        match = _STEP.fullmatch(line)
        if match is None:
            raise PlanError(f"line {number}: '{line}': write a second and what happens then")
        steps.append(Step(float(match["at"]), match["what"]))
    candidates = int(heads["candidates"]) if "candidates" in heads else None
    if candidates is not None and candidates > heads["nodes"]:
        raise PlanError(f"{candidates} candidates are more than {heads['nodes']:g} nodes")
    return Plan(int(heads["nodes"]), int(heads["seed"]), heads["for"], tuple(steps), candidates)
