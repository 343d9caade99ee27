# SPDX-License-Identifier: BSD-2-Clause
"""Balancing a group: the best move, again and again, until moves gain too little (spec: htools, 4 and 5).

``definition.moves`` says what is a move, what forbids it and which one is chosen; the kernel finds it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ganeti.base.errors import ExecutionError
from ganeti.placement.kernel import calls as kernel
from ganeti.placement.kernel.state import NOWHERE, ClusterState

KINDS = ("f", "fa", "r", "rf", "frf", "fr")
_WORDS = {"f": "f", "fa": "fa:{}", "r": "r:{}", "rf": "r:{} f", "frf": "f r:{} f", "fr": "f r:{}"}
_NO_DISK_MOVES, _NO_INSTANCE_MOVES, _EVACUATION, _RESTRICTED, _IGNORE_SOFT, _EXHAUSTIVE = 1, 2, 4, 8, 16, 32
_GOAL_WEIGHT = 0.25
_NO_MEMORY = "There is no memory left for a search among so many nodes: give the machine more, or ask again"


@dataclass(frozen=True, slots=True)
class BalanceOptions:
    """What the command line says about balancing.

    A gain below *min_gain* is taken only while the score is above *min_gain_limit*; *max_length* below 0 is no limit.
    *exhaustive* scores every candidate exactly, which is slow and finds the same.
    """

    disk_moves: bool = True
    instance_moves: bool = True
    evacuation: bool = False
    restricted_migration: bool = False
    ignore_soft_errors: bool = False
    min_gain: float = 0.01
    min_gain_limit: float = 0.1
    min_score: float = 1e-9
    max_length: int = -1
    exhaustive: bool = False

    @property
    def flags(self) -> int:
        chosen = 0 if self.disk_moves else _NO_DISK_MOVES
        chosen |= 0 if self.instance_moves else _NO_INSTANCE_MOVES
        chosen |= _EVACUATION if self.evacuation else 0
        chosen |= _RESTRICTED if self.restricted_migration else 0
        chosen |= _IGNORE_SOFT if self.ignore_soft_errors else 0
        return chosen | (_EXHAUSTIVE if self.exhaustive else 0)


@dataclass(frozen=True, slots=True)
class Step:
    """One move: *before* and *after* are (primary, secondary) as node numbers, *score* is that after it."""

    instance: int
    kind: str
    target: int
    before: tuple[int, int]
    after: tuple[int, int]
    score: float

    def text(self, target: str) -> str:
        """The move as 3.1 writes it, *target* being the name of the target node, such as ``r:node3 f``."""
        return _WORDS[self.kind].format(target)


def best_step(
    state: ClusterState, members: Sequence[int], movable: Sequence[bool] | bytes, options: BalanceOptions
) -> Step | None:
    """The move of the group *members* after which its score is lowest, or None if no move lowers it.

    Raises `ExecutionError` without memory; the state is as it was.
    """
    found = kernel.StepResult()
    nodes, marks = kernel.wholes(members), kernel.flags(movable)
    result = kernel.library().kernel_best_step(state.handle, nodes, len(members), marks, options.flags, found)
    return _told(state, found, result)


def _told(state: ClusterState, found: kernel.StepResult, result: int) -> Step | None:
    if result < 0:
        raise ExecutionError(_NO_MEMORY)
    return _step(state, found) if result else None


def _step(state: ClusterState, found: kernel.StepResult) -> Step:
    number = int(found.instance)
    return Step(
        instance=number,
        kind=KINDS[found.kind],
        target=int(found.target),
        before=(state.primary_of[number], state.secondary_of[number]),
        after=(int(found.primary), int(found.secondary)),
        score=float(found.score),
    )


class _Balancing:
    """The best step again and again, what one search found being kept for the next.

    From the first question on nothing may change in *state* but the places of instances.
    """

    def __init__(
        self, state: ClusterState, members: Sequence[int], movable: Sequence[bool] | bytes, options: BalanceOptions
    ) -> None:
        self._state, self._library = state, kernel.library()
        nodes, marks = kernel.wholes(members), kernel.flags(movable)
        self._handle = self._library.kernel_balancing(state.handle, nodes, len(members), marks, options.flags)
        if not self._handle:
            raise ExecutionError(_NO_MEMORY)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle:
            self._library.kernel_balancing_free(handle)

    def best_step(self) -> Step | None:
        """As `best_step`."""
        found = kernel.StepResult()
        return _told(self._state, found, self._library.kernel_balancing_step(self._handle, found))


def balance(
    state: ClusterState, members: Sequence[int], movable: Sequence[bool], options: BalanceOptions
) -> Iterator[Step]:
    """Carry out one best step after the other in *state*, each yielded after it was made.

    Until the last one nothing may change in *state* but the places of instances.
    """
    before, done, balancing = state.score(members), 0, _Balancing(state, members, movable, options)
    enough = optimal_score(state, members) + options.min_score  # no step changes it: instances stay in the group
    while done != options.max_length and not before <= enough:
        step = balancing.best_step()
        if step is None:
            return
        if not (before > options.min_gain_limit or before - step.score >= options.min_gain):
            return
        state.move(step.instance, *step.after)
        yield step
        before, done = step.score, done + 1


def optimal_score(state: ClusterState, members: Sequence[int]) -> float:
    """A score that no plan gets below: memory must be kept free for the failure of any node (spec: htools, 3)."""
    if len(members) <= 1:
        return 0.0
    inside = set(members)
    reserved = sum(
        instance.reserved_memory_mib
        for number, instance in enumerate(state.instances)
        if state.secondary_of[number] in inside and state.primary_of[number] != NOWHERE
    )
    totals = [state.nodes[node].total_memory_mib for node in members]
    total, biggest = sum(totals), max(totals)
    if total - biggest <= 0:
        return 0.0
    return _GOAL_WEIGHT * (reserved / (total - biggest) - reserved / total)


def nodes_of(step: Step) -> frozenset[int]:
    """The nodes a step is about: those of its instance before and after."""
    return frozenset((*step.before, *step.after)) - {NOWHERE}


def job_sets(steps: Sequence[Step]) -> list[list[Step]]:
    """Group *steps* into sets that run one after the other.

    As in 3.1 grouping runs from the last step backwards: a step joins the set in front of it unless it shares a node.
    """
    sets: list[list[Step]] = []
    busy: set[int] = set()
    for step in reversed(steps):
        own = nodes_of(step)
        if not sets or busy & own:
            sets.insert(0, [])
            busy = set()
        sets[0].insert(0, step)
        busy |= own
    return sets
