# SPDX-License-Identifier: BSD-2-Clause
"""From a request to the opcode of its job: parameters by their declarations. Pure (rapi, sections 1 and 3)."""

from typing import Any, Final

import msgspec

from ganeti.base.errors import GanetiError
from ganeti.master.operation import Operation, decode
from ganeti.rapi.answers import RequestRefused
from ganeti.rapi.asked import Asked, flag
from ganeti.rapi.routes import Route

_ROLES: Final = {
    "regular": {"master_candidate": False, "offline": False, "drained": False},
    "master-candidate": {"master_candidate": True},
    "drained": {"drained": True},
    "offline": {"offline": True},
}
_OF_THE_API: Final = frozenset(("dry_run", "reason", "debug_level", "priority", "comment"))
"""Parameters of all opcodes that a body does not give."""


def opcode(route: Route, asked: Asked, now_ns: int) -> dict[str, Any]:
    """Give the serialised opcode; raises `RequestRefused`."""
    operation = route.operation
    if operation is None:
        raise RequestRefused(501, f"{route.method} {route.path} is not possible yet: use the commands on the master")
    plain = _body(route, operation, asked)
    plain |= _arguments(route, operation, asked, plain)
    plain |= route.shape.fixed
    plain |= _parts(operation, asked)
    plain |= {"OP_ID": operation.op_id, "reason": _reason(route, asked, now_ns)}
    try:
        return decode(plain).to_plain()
    except GanetiError as err:
        raise RequestRefused(400, str(err)) from err


def _body(route: Route, operation: type[Operation[Any]], asked: Asked) -> dict[str, Any]:
    if route.path.endswith("/role"):
        role = asked.body
        if not isinstance(role, str) or role not in _ROLES:
            raise RequestRefused(400, f"The body must be a role: one of {', '.join(_ROLES)}")
        return dict(_ROLES[role])
    if not route.shape.body:
        return {}
    given = asked.object()
    if route.path == "/2/instances":
        _check_version(given)
    for alias, name in route.shape.aliases.items():
        if alias in given and name in _fields(operation):
            if name in given:
                raise RequestRefused(400, f"'{alias}' and '{name}' are the same parameter: give one of them")
            given[name] = given.pop(alias)
    for name in given:
        if name in route.shape.forbidden:
            raise RequestRefused(403, f"The parameter '{name}' cannot be given over the remote API")
        if name in route.shape.fixed or name in asked.parts or name in _OF_THE_API or name == "OP_ID":
            raise RequestRefused(400, f"The body may not give '{name}'")
    return given


def _check_version(given: dict[str, Any]) -> None:
    version = given.pop("__version__", None)
    if isinstance(version, bool) or version != 1:
        raise RequestRefused(400, "The body must have the key '__version__' with the value 1")


def _arguments(route: Route, operation: type[Operation[Any]], asked: Asked, given: dict[str, Any]) -> dict[str, Any]:
    """Read those arguments of the query that are parameters; others are none of ours."""
    found: dict[str, Any] = {}
    fields = _fields(operation)
    for word, values in asked.arguments.items():
        name = route.shape.aliases.get(word, word.replace("-", "_"))
        if name in fields and name not in ("reason", *given, *asked.parts, *route.shape.fixed):
            found[name] = _value(word, values, fields[name])
    if route.path.endswith("/storage/modify"):
        words = asked.arguments.get("allocatable")
        found["changes"] = {"allocatable": flag("allocatable", words[0])} if words else {}
    return found


def _value(word: str, values: list[str], type_: Any) -> Any:
    """Turn words into what a parameter of this type takes; the decoder says what is wrong with it."""
    kinds = {type(each).__name__ for each in _plain_types(msgspec.inspect.type_info(type_))}
    if "BoolType" in kinds:
        return flag(word, values[0])
    if "ListType" in kinds:
        return values
    if "IntType" in kinds and values[0].lstrip("-").isdigit():
        return int(values[0])
    return values[0]


def _plain_types(info: Any) -> list[Any]:
    while isinstance(info, msgspec.inspect.Metadata):
        info = info.type
    if isinstance(info, msgspec.inspect.UnionType):
        return [plain for each in info.types for plain in _plain_types(each)]
    return [info]


def _parts(operation: type[Operation[Any]], asked: Asked) -> dict[str, Any]:
    """Give what the path names; an opcode for several instances gets a list of one."""
    if "instance_name" in asked.parts and "instance_name" not in _fields(operation):
        return {"instances": [asked.parts["instance_name"]]}
    return dict(asked.parts)


def _reason(route: Route, asked: Asked, now_ns: int) -> list[Any]:
    words = asked.word("reason")
    told = [["gnt:user", words, now_ns]] if words else []
    return [*told, [route.library_name, "", now_ns]]


def _fields(operation: type[Operation[Any]]) -> dict[str, Any]:
    return {each.name: each.type for each in msgspec.structs.fields(operation)}
