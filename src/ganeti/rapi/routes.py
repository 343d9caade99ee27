# SPDX-License-Identifier: BSD-2-Clause
"""Which request is which opcode: declared with the operations; what is irregular in `/2` stands here (rapi, section 3).

A name in brackets in a route is the parameter that this part of the path fills.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ganeti.master.declaring_modules import ROUTES
from ganeti.master.operation import Operation, find

_INSTANCE: Final = "/2/instances/[instance_name]"
_NODE: Final = "/2/nodes/[node_name]"


@dataclass(frozen=True)
class Shape:
    """What a request has that its opcode's parameters do not say."""

    body: bool = True
    """Whether the body holds parameters; another one is ignored."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of keys of the body, and of query arguments."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Values that no request may give."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of parameters that the opcode needs and a request may leave out."""
    legacy: tuple[str, ...] = ()
    """Query arguments of an older form of the request: where one is given, the body is ignored."""
    comma_lists: tuple[str, ...] = ()
    """Keys of the body whose list of numbers may be text with commas."""


_NO_BODY: Final = Shape(body=False)
_CUSTOM: Final = {f"custom_{name}": name for name in ("ndparams", "diskparams", "ipolicy", "hvparams", "beparams")}
_SHAPES: Final = {
    "POST /2/instances": Shape(aliases={"name": "instance_name", "os": "os_type"}),
    "POST /2/networks": Shape(aliases={"name": "network_name"}),
    "POST /2/groups": Shape(aliases={"name": "group_name"}),
    "PUT /2/groups/[group_name]/modify": Shape(aliases=_CUSTOM),
    f"PUT {_INSTANCE}/modify": Shape(aliases=_CUSTOM),
    f"DELETE {_INSTANCE}": Shape(fixed={"ignore_failures": False}),
    f"POST {_INSTANCE}/reboot": Shape(aliases={"type": "reboot_type"}, defaults={"reboot_type": "hard"}),
    f"PUT {_INSTANCE}/startup": _NO_BODY,
    f"PUT {_INSTANCE}/activate-disks": _NO_BODY,
    f"PUT {_INSTANCE}/deactivate-disks": _NO_BODY,
    f"GET {_INSTANCE}/info": Shape(body=False, aliases={}),
    f"PUT {_INSTANCE}/export": Shape(aliases={"destination": "target_node"}),
    f"POST {_INSTANCE}/reinstall": Shape(aliases={"os": "os_type"}),
    f"POST {_INSTANCE}/replace-disks": Shape(
        legacy=("remote_node", "mode", "disks", "iallocator"), comma_lists=("disks",)
    ),
    f"POST {_NODE}/migrate": Shape(legacy=("live", "mode")),
    f"PUT {_NODE}/role": Shape(body=False),
    "DELETE /2/groups/[group_name]": _NO_BODY,
    f"PUT {_NODE}/storage/modify": _NO_BODY,
    f"PUT {_NODE}/storage/repair": _NO_BODY,
}
_TAGGED: Final = {"instances": "instance", "nodes": "node", "groups": "nodegroup", "networks": "network"}


@dataclass(frozen=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    op_id: str
    shape: Shape = Shape()

    @property
    def operation(self) -> type[Operation[Any]]:
        """Imported when it is first asked for."""
        found = find(self.op_id)
        assert found is not None
        return found

    @property
    def library_name(self) -> str:
        """As the reason trail names it: the class and method of 3.1's library."""
        words = re.sub(r"\[[^]]+\]", "name", self.path).strip("/").replace("/", "_").replace("-", "_")
        return f"gnt:library:rlib2:R_{words}_{self.method}"


def routes(declared: Mapping[str, str] = ROUTES) -> list[Route]:
    """All requests that submit a job, with the `OP_ID` that operations declare them for."""
    return [_route(said, op_id) for said, op_id in declared.items()]


class PathTable:
    """Finds what belongs to a path; a part in brackets stands for any one part."""

    def __init__(self) -> None:
        self._methods: dict[tuple[str, ...], dict[str, tuple[str, Any]]] = {}
        self._by_length: dict[int, list[tuple[tuple[str, ...], dict[str, tuple[str, Any]]]]] = {}

    def add(self, method: str, path: str, target: Any) -> None:
        """The first that is added for a method of a path is it."""
        key = _key(path)
        if key not in self._methods:
            self._methods[key] = {}
            self._by_length.setdefault(len(key), []).append((key, self._methods[key]))
        self._methods[key].setdefault(method, (path, target))

    def find(self, path: str) -> Mapping[str, tuple[str, Any]] | None:
        """Give the methods of a path: with each the path as it was added, and its target."""
        parts = tuple(path.strip("/").split("/"))
        exact = self._methods.get(parts)
        if exact is not None:
            return exact
        for key, methods in self._by_length.get(len(parts), ()):
            if all(mine == "*" or mine == other for mine, other in zip(key, parts, strict=True)):
                return methods
        return None

    def all(self) -> list[tuple[str, str]]:
        """Give each method and path."""
        return [(method, path) for methods in self._methods.values() for method, (path, _) in methods.items()]


def filled(template: str, path: str) -> dict[str, str]:
    """Give the parts of *path* that stand where *template* has brackets."""
    pairs = zip(template.strip("/").split("/"), path.strip("/").split("/"), strict=True)
    return {mine[1:-1]: part for mine, part in pairs if mine.startswith("[")}


def _route(said: str, op_id: str) -> Route:
    method, _, path = said.partition(" ")
    shape = _SHAPES.get(said, Shape())
    if path.endswith("/tags"):
        kind = _TAGGED.get(path.split("/")[2], "cluster")
        none: dict[str, Any] = {"tags": []} if method == "PUT" else {}
        shape = Shape(body=False, aliases={"tag": "tags"}, fixed={"kind": kind}, defaults=none)
    return Route(method, path, op_id, shape)


def _key(path: str) -> tuple[str, ...]:
    return tuple("*" if part.startswith("[") else part for part in path.strip("/").split("/"))
