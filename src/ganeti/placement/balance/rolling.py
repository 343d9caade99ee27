# SPDX-License-Identifier: BSD-2-Clause
"""In which order nodes may be rebooted: batches that no instance is on twice (spec: htools, 13).

Nodes that must not go down together are joined by an edge; a colouring of that graph gives batches. Three greedy
colourings are tried, and the one with the fewest colours taken.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ganeti.base.errors import GanetiError
from ganeti.model.templates import traits_of
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.definition.score import NodeView
from ganeti.placement.kernel.state import NOWHERE, ClusterState

Graph = dict[int, list[int]]
"""Per vertex its neighbours, one entry an edge: edges that repeat count more than once where degrees are compared."""
Colours = dict[int, int]


class NoCapacityError(GanetiError):
    """The instances of not a single node of a batch fit elsewhere; the message names what does not."""


@dataclass(frozen=True)
class Colouring:
    """What one of the algorithms found: vertices by colour, each class in ascending order."""

    name: str
    classes: tuple[tuple[int, ...], ...]


def is_mirrored(state: ClusterState, number: int) -> bool:
    """Whether an instance has its disks on two nodes."""
    traits = traits_of(state.instances[number].template)
    return traits is not None and traits.has_secondary


def reboot_graph(state: ClusterState, chosen: Sequence[int], *, offline_maintenance: bool = False) -> Graph:
    """Which of the *chosen* nodes exclude each other.

    The two nodes of a mirrored instance do. Unless all instances are down meanwhile (*offline_maintenance*), so do two
    primaries whose instances share a secondary: it could not take over from both. Vertices are all numbers from the
    lowest to the highest chosen; those not chosen have no edges.
    """
    inside = set(chosen)
    graph: Graph = {vertex: [] for vertex in range(min(chosen), max(chosen) + 1)} if chosen else {}
    sharing: dict[int, list[int]] = {}
    for number, (primary, secondary) in enumerate(zip(state.primary_of, state.secondary_of, strict=True)):
        if secondary == NOWHERE:
            continue
        if not state.instances[number].forthcoming:
            sharing.setdefault(secondary, []).append(primary)
        if is_mirrored(state, number) and primary in inside and secondary in inside:
            graph[primary].append(secondary)
            graph[secondary].append(primary)
    if not offline_maintenance:
        linked = {vertex: set(others) for vertex, others in graph.items()}
        for one, other in _pairs((sharing[secondary][::-1] for secondary in sorted(sharing)), inside):
            if other not in linked[one]:
                graph[one].append(other)
    return graph


def _pairs(groups: Iterable[Iterable[int]], inside: set[int]) -> Iterator[tuple[int, int]]:
    """Each pair of a group once, in the order they are met."""
    told: dict[tuple[int, int], None] = {}
    for group in groups:
        primaries = [one for one in dict.fromkeys(group) if one in inside]
        told.update(dict.fromkeys((one, other) for one in primaries for other in primaries))
    return iter(told)


def _free_colour(graph: Graph, colours: Colours, vertex: int) -> int:
    taken = {colours[other] for other in graph[vertex] if other in colours}
    colour = 0
    while colour in taken:
        colour += 1
    return colour


def colour_by_degree(graph: Graph) -> Colours:
    """Largest degree first (LF)."""
    colours: Colours = {}
    for vertex in sorted(graph, key=lambda v: (-len(graph[v]), -v)):
        colours[vertex] = _free_colour(graph, colours, vertex)
    return colours


def colour_by_saturation(graph: Graph) -> Colours:
    """Next is the vertex whose neighbours have the most different colours (Dsatur)."""
    seen: dict[int, set[int]] = {vertex: set() for vertex in graph}

    def note(other: int, colour: int) -> None:
        seen[other].add(colour)

    return _colour_next(graph, lambda vertex: len(seen[vertex]), note)


def colour_by_neighbours(graph: Graph) -> Colours:
    """Next is the vertex with the most coloured neighbours, counted per edge (Dcolor)."""
    count = dict.fromkeys(graph, 0)

    def note(other: int, colour: int) -> None:
        count[other] += 1

    return _colour_next(graph, lambda vertex: count[vertex], note)


def _colour_next(graph: Graph, urgency: Callable[[int], int], note: Callable[[int, int], None]) -> Colours:
    colours: Colours = {}
    left = set(graph)
    while left:
        vertex = max(left, key=lambda v: (urgency(v), len(graph[v]), v))
        left.remove(vertex)
        colours[vertex] = _free_colour(graph, colours, vertex)
        for other in graph[vertex]:
            note(other, colours[vertex])
    return colours


ALGORITHMS: dict[str, Callable[[Graph], Colours]] = {
    "LF": colour_by_degree,
    "Dsatur": colour_by_saturation,
    "Dcolor": colour_by_neighbours,
}
"""Of equals the first wins."""


def colourings(graph: Graph) -> list[Colouring]:
    """What each algorithm finds, in the order of `ALGORITHMS`."""
    return [Colouring(name, _classes(algorithm(graph))) for name, algorithm in ALGORITHMS.items()]


def _classes(colours: Colours) -> tuple[tuple[int, ...], ...]:
    count = max(colours.values(), default=-1) + 1
    classes: list[list[int]] = [[] for _ in range(count)]
    for vertex in sorted(colours):
        classes[colours[vertex]].append(vertex)
    return tuple(tuple(members) for members in classes)


def fewest(found: Sequence[Colouring]) -> Colouring:
    """The colouring with the fewest classes, of equals the first."""
    return min(found, key=lambda colouring: len(colouring.classes))


@dataclass(frozen=True)
class Batch:
    """Nodes that go down together, and where the instances are meanwhile: (instance, primary, secondary)."""

    nodes: tuple[int, ...]
    moves: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class Evacuation:
    """What must leave the nodes of a batch besides mirrored primaries, which their mirrors take over.

    *unmirrored*: instances without a mirror. *everything*: mirrored ones as well, primaries and secondaries.
    """

    unmirrored: bool = True
    everything: bool = False


def split_by_capacity(state: ClusterState, classes: Iterable[Sequence[int]], evacuation: Evacuation) -> list[Batch]:
    """Split each class so that what must leave its nodes fits elsewhere at the same time.

    All classes get rid of one kind of instances before the next kind is looked at: unmirrored ones, then mirrored
    primaries, then secondaries. Raises `NoCapacityError` when the instances of not even one node fit, or when mirrored
    primaries have no room beside what came before. *state* is the same afterwards.
    """
    emptied = [_Emptied(tuple(members)) for members in classes]
    if evacuation.unmirrored:
        emptied = _split_all(state, emptied, _UNMIRRORED)
    if evacuation.everything:
        emptied = [_failed_over(state, before) for before in emptied]
        emptied = _split_all(state, emptied, _SECONDARIES)
    return [Batch(part.nodes, tuple(_changes(state, part.moves))) for part in emptied]


Move = tuple[int, int, int]
"""Instance, primary, secondary."""


@dataclass(frozen=True, slots=True)
class _Emptied:
    """Nodes that go down together, and what was moved off them so far, in order."""

    nodes: tuple[int, ...]
    moves: tuple[Move, ...] = ()


def _failed_over(state: ClusterState, before: _Emptied) -> _Emptied:
    mark, moves = _moved(state, before.moves), list(before.moves)
    try:
        going = [(node, number) for node in before.nodes for number in state.listed(node)]
        for node, number in going:
            if is_mirrored(state, number) and not state.instances[number].forthcoming:
                secondary = state.secondary_of[number]
                state.move(number, NOWHERE)
                if state.refuse_primary(number, secondary, forced=True) or state.refuse_secondary(
                    number, node, secondary, forced=True
                ):
                    raise NoCapacityError("Failed to migrate instances off nodes")
                state.move(number, secondary, node)
                moves.append((number, secondary, node))
    finally:
        state.rollback(mark)
    return _Emptied(before.nodes, tuple(moves))


def _moved(state: ClusterState, moves: Iterable[Move]) -> tuple[int, int, int]:
    """Carry out *moves*; gives the mark before them."""
    mark = state.mark()
    for move in moves:
        state.move(*move)
    return mark


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of instances that leave: which of a node, where one may go, and the room that takes there.

    A node with less *room* than an instance *needs* refuses it anyway; that is what makes the search quick.
    """

    leaving: Callable[[ClusterState, int], list[int]]
    refuses: Callable[[ClusterState, int, int], bool]
    places: Callable[[ClusterState, int, int], tuple[int, int]]
    needs: Callable[[Instance], int]
    room: Callable[[NodeView], int]
    sentence: str


def _split_all(state: ClusterState, parts: Iterable[_Emptied], kind: _Kind) -> list[_Emptied]:
    """Split each part into those whose leaving instances find room at the same time."""
    found = []
    for part in parts:
        mark = _moved(state, part.moves)
        try:
            left = part.nodes
            while left:
                clearance = _Clearance(state, kind)
                batch = clearance.empty(left)
                if not batch:
                    raise NoCapacityError(kind.sentence)
                found.append(_Emptied(batch, (*part.moves, *clearance.moves)))
                left = tuple(node for node in left if node not in set(batch))
        finally:
            state.rollback(mark)
    return found


class _Clearance:
    """Empties nodes one after the other, each instance going to the first node that takes it and is not among them.

    As in 3.1 what went to a node that is emptied later goes on from there.
    """

    def __init__(self, state: ClusterState, kind: _Kind) -> None:
        self.moves: list[Move] = []
        self._state, self._kind = state, kind
        self._room = [kind.room(state.view(node)) for node in state.everyone()]
        self._online = [
            [node for node in state.group_members(group) if state.online[node]] for group in range(len(state.groups))
        ]

    def empty(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """Those of *wanted* that can be empty together; the state is the same afterwards, `moves` are how."""
        mark = self._state.mark()
        batch: list[int] = []
        for node in wanted:
            if self._clear(node, {*batch, node}):
                batch.append(node)
        self._state.rollback(mark)
        return tuple(batch)

    def _clear(self, node: int, going: set[int]) -> bool:
        """Empty *node* if there is room; if not, all is as it was."""
        state, kind = self._state, self._kind
        mark, room, done = state.mark(), self._room[:], len(self.moves)
        targets = [target for target in self._online[state.group_of[node]] if target not in going]
        for number in kind.leaving(state, node):
            need = kind.needs(state.instances[number])
            for target in targets:
                if (self._room[target] < need and need > 0) or kind.refuses(state, number, target):
                    continue
                places = kind.places(state, number, target)
                state.move(number, *places)
                self.moves.append((number, *places))
                self._room[target] -= need
                break
            else:
                state.rollback(mark)
                self._room = room
                del self.moves[done:]
                return False
        state.settle(mark)
        return True


def unmirrored_primaries(state: ClusterState, node: int) -> list[int]:
    """Instances that run on *node* and have no second copy, newest first; forthcoming ones do not count."""
    return [n for n in state.listed(node) if not is_mirrored(state, n) and not state.instances[n].forthcoming]


def _secondaries(state: ClusterState, node: int) -> list[int]:
    return [n for n in state.listed(node, secondary=True) if not state.instances[n].forthcoming]


def _refuses_secondary(state: ClusterState, number: int, target: int) -> bool:
    primary = state.primary_of[number]
    return target == primary or bool(state.refuse_secondary(number, target, primary, forced=True))


_UNMIRRORED = _Kind(
    leaving=unmirrored_primaries,
    refuses=lambda state, number, target: bool(state.refuse_primary(number, target, forced=True)),
    places=lambda state, number, target: (target, NOWHERE),
    needs=lambda instance: instance.memory_mib if instance.uses_memory else 0,
    room=lambda view: view.free_memory_mib,
    sentence="Not enough capacity to move non-redundant instances",
)
_SECONDARIES = _Kind(
    leaving=_secondaries,
    refuses=_refuses_secondary,
    places=lambda state, number, target: (state.primary_of[number], target),
    needs=lambda instance: instance.disk_mib,
    room=lambda view: view.free_disk_mib,
    sentence="Not enough capacity to move secondaries",
)


def _changes(state: ClusterState, moves: Iterable[Move]) -> Iterator[Move]:
    """Where instances end whose nodes change other than by exchanging the two, in their order."""
    ends = {number: (primary, secondary) for number, primary, secondary in moves}
    for number, end in sorted(ends.items()):
        if {state.primary_of[number], state.secondary_of[number]} != set(end):
            yield number, *end
