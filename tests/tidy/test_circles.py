# SPDX-License-Identifier: BSD-2-Clause
"""No circle of imports, of modules or of rooms: made at the start, in a function, or for types alone."""

from collections.abc import Iterable, Mapping

from parsed_tree import Module, told

Graph = Mapping[str, set[str]]


def test_modules_import_in_no_circle(modules, exemptions):
    places = {module.name: module.place for module in modules}
    faults = {
        (places[circle[0]],): f"{', '.join(places[name] for name in circle)} import each other; cut it by a protocol"
        for circle in circles(imports_of(modules))
    }
    left = exemptions.sift("circle", faults)
    assert not left, told(left)


def test_rooms_import_in_no_circle(modules):
    graph: dict[str, set[str]] = {}
    for name, targets in imports_of(modules).items():
        room = room_of(name)
        graph.setdefault(room, set()).update(other for target in targets if (other := room_of(target)) != room)
    found = [" and ".join(circle) for circle in circles(graph)]
    assert not found, told(found)


def room_of(name: str) -> str:
    """The package below ``ganeti``; of placement, of the placement tools and of the simulator their own rooms."""
    parts = name.split(".")
    if parts[1:3] == ["tools", "htools"]:
        return ".".join(parts[:4])
    return ".".join(parts[: 3 if parts[1:2] == ["placement"] else 2])


def imports_of(modules: Iterable[Module]) -> dict[str, set[str]]:
    """Which modules of the tree each one imports; the face of a package that it lies in does not count."""
    modules = list(modules)
    names = {module.name for module in modules}
    graph = {}
    for module in modules:
        targets = {found for _, name in module.imports() if (found := _known(name, names))}
        graph[module.name] = {target for target in targets if not module.name.startswith(f"{target}.")} - {module.name}
    return graph


def _known(name: str, names: set[str]) -> str:
    """The module that an imported name is, or is of."""
    return name if name in names else next((part for part in [name.rpartition(".")[0]] if part in names), "")


def circles(graph: Graph) -> list[list[str]]:
    """The sets of nodes that reach each other, each sorted."""
    reached = {node: _reach(graph, node) for node in graph}
    found = {tuple(sorted(other for other in reached[node] if node in reached.get(other, ()))) for node in graph}
    return [list(circle) for circle in sorted(found) if len(circle) > 1]


def _reach(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        for target in graph.get(left.pop(), ()):
            if target not in seen:
                seen.add(target)
                left.append(target)
    return seen


def test_a_circle_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []
