# SPDX-License-Identifier: BSD-2-Clause
"""What the definition says of a printed plan of hbal, and the plan it would make itself.

`faults` carries a plan out: each step must be legal and lead to the printed places and score. `planned` makes the plan
the slow way, to compare it with the peer's: that is what proves the definition.
"""

import re

from tests.differential.cases import Case

from ganeti.placement.cluster.failure import Refusal
from ganeti.placement.definition.moves import NOWHERE, Move, PlainCluster, after_move, plan
from ganeti.tools.htools.haskell.figures import fixed

_STEP = re.compile(r"^ +\d+\. (\S+) +(\S+) +=> (\S+) +(\S+) a=(.+)$", re.MULTILINE)
_TEXTS = {"f": "f", "fa": "fa:T", "r": "r:T", "frf": "f r:T f", "rf": "r:T f", "fr": "f r:T"}


def faults(case: Case, stdout: str) -> list[str]:
    """What is wrong with the plan in *stdout*."""
    cluster, found = case.plain(), []
    members = [n for n, node in enumerate(case.cluster.nodes) if node.group == case.group]
    suffix = _suffix(case)
    nodes = {_cut(node.name, suffix): number for number, node in enumerate(case.cluster.nodes)}
    instances = {_cut(one.name, suffix): number for number, one in enumerate(case.cluster.instances)}
    for name, before, after, score, text in _STEP.findall(stdout):
        number, move = instances[name], _move(text, nodes)
        if before != _places(cluster, number, suffix):
            found.append(f"{name} is said to be on {before}, but is on {_places(cluster, number, suffix)}")
        changed = after_move(cluster, number, move, forced=case.wishes.ignore_soft_errors)
        if isinstance(changed, Refusal):
            return [*found, f"{name}: {text} is illegal: {changed.mode.name}, {changed.sentence}"]
        cluster = changed
        if after != _places(cluster, number, suffix):
            found.append(f"{name}: {text} leads to {_places(cluster, number, suffix)}, not {after}")
        reached = fixed(cluster.score(members), 8)
        if score != reached:
            found.append(f"{name}: {text} leads to score {reached}, not {score}")
    return found


def printed(stdout: str) -> list[tuple[str, str, str]]:
    """Of each printed step the instance, the score and the move."""
    return [(name, score, text) for name, _, _, score, text in _STEP.findall(stdout)]


def planned(case: Case) -> list[tuple[str, str, str]]:
    """The same as `printed`, made by the definition."""
    cluster, suffix = case.plain(), _suffix(case)
    members = [n for n, node in enumerate(case.cluster.nodes) if node.group == case.group]
    movable = [
        (not case.select or one.name in case.select) and one.name not in case.exclude for one in case.cluster.instances
    ]
    found = []
    for step in plan(cluster, members, movable, case.wishes):
        target = step.move.target
        letter = _cut(case.cluster.nodes[target].name, suffix) if target != NOWHERE else ""
        text = _TEXTS[step.move.kind].replace("T", letter)
        found.append((_cut(case.cluster.instances[step.instance].name, suffix), fixed(step.score, 8), text))
    return found


def final_score(stdout: str) -> float | None:
    """The score after the last printed step."""
    steps = _STEP.findall(stdout)
    return float(steps[-1][3]) if steps else None


def _move(text: str, nodes: dict[str, int]) -> Move:
    target = re.search(r":(\S+)", text)
    pattern = re.sub(r":\S+", ":T", text)
    kind = next(kind for kind, form in _TEXTS.items() if form == pattern)
    return Move(kind, nodes[target.group(1)] if target else NOWHERE)


def _places(cluster: PlainCluster, number: int, suffix: str) -> str:
    return ":".join(_cut(cluster.views[n].node.name, suffix) for n in cluster.places[number] if n != NOWHERE)


def _suffix(case: Case) -> str:
    names = [one.name for one in (*case.cluster.nodes, *case.cluster.instances)]
    first = names[0]
    ends = [first[at:] for at in range(len(first)) if first[at] == "."]
    return next((end for end in ends if all(name.endswith(end) for name in names)), "")


def _cut(name: str, suffix: str) -> str:
    return name.removesuffix(suffix) if suffix else name
