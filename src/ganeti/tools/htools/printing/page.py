# SPDX-License-Identifier: BSD-2-Clause
"""``--html FILE``: one page with the nodes as bars and the moves to step through, whole in itself.

The page holds its data as JSON, which the script of ``page.html`` draws; names reach the document as text only. What a
node looks like is recorded at first and then only where a step changes it.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING

from ganeti.tools.htools.haskell.figures import fixed

if TYPE_CHECKING:
    from ganeti.placement.balance.steps import Step
    from ganeti.placement.cluster.picture import Instance
    from ganeti.placement.kernel.state import ClusterState

Look = tuple[int, float, float, float, int, int, int]
"""A node's number on the page; used shares of memory, disk, vcpus; primaries, secondaries; 1 if it fails N+1."""

_DATA, _TITLE = "@DATA@", "@TITLE@"
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@dataclass
class Act:
    """One step of a run: what it is, what it costs, the score after it, and how it changes nodes."""

    words: str
    price: str
    score: str
    changes: list[Look]


@dataclass
class Run:
    """One way from the first picture to a last one."""

    name: str
    acts: list[Act] = field(default_factory=list)


@dataclass
class Page:
    """What is on a page: *facts* are sentences at its head, *looks* the nodes at first."""

    title: str
    facts: list[str]
    nodes: list[str]
    looks: list[Look]
    runs: list[Run]


class Camera:
    """Takes pictures of the nodes *members* of a state."""

    def __init__(self, state: "ClusterState", members: Sequence[int]) -> None:
        self._state, self._members = state, list(members)
        self._place = {node: place for place, node in enumerate(members)}

    def look(self, nodes: Iterable[int]) -> list[Look]:
        """How those of *nodes* look now that are on the page."""
        return [self._look(node) for node in dict.fromkeys(nodes) if node in self._place]

    def everyone(self) -> list[Look]:
        return self.look(self._members)

    def _look(self, node: int) -> Look:
        view = self._state.view(node)
        own = view.node
        if own.exclusive_storage:
            disk = _used(view.free_spindles, own.spindles)
        else:
            disk = _used(view.free_disk_mib, own.total_disk_mib)
        room = own.total_cpus * view.vcpu_ratio
        return (
            *(self._place[node], _used(view.free_memory_mib, own.total_memory_mib), disk),
            *(_used(room - view.used_cpus(), room), len(view.primaries), len(view.secondaries)),
            int(view.fails_n1 and not own.unavailable),
        )


def _used(free: float, whole: float) -> float:
    return round(1 - free / whole, 4) if whole > 0 else 0.0


def record_moves(
    state: "ClusterState",
    members: Sequence[int],
    steps: "Sequence[Step]",
    describe: "Callable[[Step], tuple[str, str]]",
) -> tuple[list[Look], Run]:
    """The nodes at first, and *steps* carried out in *state*; *describe* gives the words and the price of a step."""
    camera, run = Camera(state, members), Run("moves")
    first = camera.everyone()
    for step in steps:
        state.move(step.instance, *step.after)
        words, price = describe(step)
        run.acts.append(Act(words, price, fixed(step.score, 8), camera.look((*step.before, *step.after))))
    return first, run


def record_placements(
    name: str, state: "ClusterState", placed: "Iterable[tuple[Instance, int, int]]", alias: Callable[[str], str]
) -> Run:
    """New instances, each with the numbers of its nodes, added to *state* one after the other."""
    camera, run = Camera(state, state.everyone()), Run(name)
    for instance, primary, secondary in placed:
        state.add_instance(instance, primary, secondary)
        nodes = ":".join(alias(state.name_of(node)) for node in (primary, secondary) if node >= 0)
        size = f"{instance.memory_mib} MiB, {instance.vcpus} vcpus, {instance.disk_mib} MiB disk"
        run.acts.append(Act(f"{instance.name} on {nodes}", size, "", camera.look((primary, secondary))))
    return run


def write(path: str, page: Page) -> None:
    """Write *page* to the file *path*; raises `OSError`."""
    text = render(page)
    with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def render(page: Page) -> str:
    """The whole page."""
    data = {
        "title": page.title,
        "facts": page.facts,
        "nodes": page.nodes,
        "looks": page.looks,
        "runs": [
            {"name": run.name, "acts": [[act.words, act.price, act.score, act.changes] for act in run.acts]}
            for run in page.runs
        ],
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    frame = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    head, _, tail = frame.partition(_DATA)
    title = page.title.replace("&", "&amp;").replace("<", "&lt;")
    return f"{head.replace(_TITLE, title)}{text}{tail}"
