# SPDX-License-Identifier: BSD-2-Clause
"""In which order nodes may be rebooted: batches that no instance is on twice (spec: htools, 13).

Nodes that must not go down together are joined by an edge; a colouring of that graph gives batches. Three greedy
colourings are tried, and the one with the fewest colours taken.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ganeti.base.errors import GanetiError
from ganeti.placement.state import NOWHERE, ClusterState
from ganeti.placement.templates import traits_of

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
    sharing: dict[int, set[int]] = {}
    for number, (primary, secondary) in enumerate(zip(state.primary_of, state.secondary_of, strict=True)):
        if not is_mirrored(state, number) or secondary == NOWHERE:
            continue
        if not state.instances[number].forthcoming:
            sharing.setdefault(secondary, set()).add(primary)
        if primary in inside and secondary in inside:
            graph[primary].append(secondary)
            graph[secondary].append(primary)
    if not offline_maintenance:
        linked = {vertex: set(others) for vertex, others in graph.items()}
        for one, other in sorted(_pairs(sharing.values(), inside)):
            if other not in linked[one]:
                graph[one].append(other)
    return graph


def _pairs(groups: Iterable[set[int]], inside: set[int]) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    for group in groups:
        primaries = group & inside
        found |= {(one, other) for one in primaries for other in primaries}
    return found


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


def split_by_capacity(state: ClusterState, classes: Iterable[Sequence[int]], evacuation: Evacuation) -> Iterator[Batch]:
    """Split each class so that what must leave its nodes fits elsewhere at the same time.

    Raises `NoCapacityError` when the instances of not even one node fit. *state* is the same afterwards.
    """
    for members in classes:
        before = state.primary_of[:], state.secondary_of[:]
        mark = state.mark()
        if evacuation.everything:
            for node in members:
                _fail_over_all(state, node)
        for batch in _split(state, members, evacuation.unmirrored, _unmirrored_primaries, _move_primary):
            for part in _split(state, batch, evacuation.everything, _secondaries, _move_secondary):
                yield Batch(tuple(part), tuple(_changes(state, *before)))
        state.rollback(mark)


def _fail_over_all(state: ClusterState, node: int) -> None:
    for number in state.listed(node):
        if not is_mirrored(state, number) or state.instances[number].forthcoming:
            continue
        secondary = state.secondary_of[number]
        state.move(number, NOWHERE)
        if state.refuse_primary(number, secondary, forced=True) or state.refuse_secondary(
            number, node, secondary, forced=True
        ):
            raise NoCapacityError("Failed to migrate instances off nodes")
        state.move(number, secondary, node)


Leaving = Callable[[ClusterState, int], list[int]]
Mover = Callable[[ClusterState, int, int], bool]


def _split(
    state: ClusterState, members: Sequence[int], wanted: bool, leaving: Leaving, move: Mover
) -> Iterator[list[int]]:
    """Parts of *members* that can be emptied together; while one is looked at, *state* has its instances elsewhere."""
    left = list(members)
    while left:
        mark = state.mark()
        batch = _leading(state, left, leaving, move, mark) if wanted else left
        if not batch:
            raise NoCapacityError(_SHORT[leaving])
        yield batch
        state.rollback(mark)
        taken = set(batch)
        left = [node for node in left if node not in taken]


def _leading(
    state: ClusterState, wanted: Sequence[int], leaving: Leaving, move: Mover, mark: tuple[int, int, int]
) -> list[int]:
    """The first nodes of *wanted* that can be empty together, each where the ones before it leave it room."""
    batch: list[int] = []
    for node in wanted:
        if not leaving(state, node) or _clear(state, [*batch, node], leaving, move, mark):
            batch.append(node)
        else:
            _clear(state, batch, leaving, move, mark)
    return batch


def _clear(
    state: ClusterState, batch: Sequence[int], leaving: Leaving, move: Mover, mark: tuple[int, int, int]
) -> bool:
    """From the state at *mark*, find nodes outside *batch* for all that leaves it; false if there is no room."""
    state.undo(mark)
    going = set(batch)
    return all(
        any(move(state, number, target) for target in _targets(state, node, going))
        for node in batch
        for number in leaving(state, node)
    )


def _targets(state: ClusterState, node: int, going: set[int]) -> Iterator[int]:
    return (n for n in state.group_members(state.group_of[node]) if n not in going and state.online[n])


def _unmirrored_primaries(state: ClusterState, node: int) -> list[int]:
    return [n for n in state.listed(node) if not is_mirrored(state, n) and not state.instances[n].forthcoming]


def _move_primary(state: ClusterState, number: int, target: int) -> bool:
    if state.refuse_primary(number, target, forced=True):
        return False
    state.move(number, target, state.secondary_of[number])
    return True


def _secondaries(state: ClusterState, node: int) -> list[int]:
    return [n for n in state.listed(node, secondary=True) if not state.instances[n].forthcoming]


def _move_secondary(state: ClusterState, number: int, target: int) -> bool:
    primary = state.primary_of[number]
    if target == primary or state.refuse_secondary(number, target, primary, forced=True):
        return False
    state.move(number, primary, target)
    return True


_SHORT: dict[Leaving, str] = {
    _unmirrored_primaries: "Not enough capacity to move non-redundant instances",
    _secondaries: "Not enough capacity to move secondaries",
}


def _changes(
    state: ClusterState, primaries: Sequence[int], secondaries: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """(instance, primary, secondary) of those whose nodes changed other than by exchanging the two."""
    for number, before in enumerate(zip(primaries, secondaries, strict=True)):
        now = state.primary_of[number], state.secondary_of[number]
        if set(before) != set(now):
            yield number, *now
