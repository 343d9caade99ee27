# SPDX-License-Identifier: BSD-2-Clause
"""From a request to the opcode of its job: parameters by their declarations. Pure (rapi, sections 1 and 3)."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from ganeti.base.errors import GanetiError
from ganeti.master.operation import Operation, decode
from ganeti.master.parameter import local
from ganeti.master.queue.dependencies import resolve
from ganeti.master.queue.submission import require_submittable
from ganeti.model.parameters import NODE_PARAMETERS
from ganeti.rapi.answers import RequestRefused
from ganeti.rapi.api_request import ApiRequest, flag
from ganeti.rapi.routes import Route

_ROLES: Final = {
    "regular": {"master_candidate": False, "offline": False, "drained": False},
    "master-candidate": {"master_candidate": True},
    "drained": {"drained": True},
    "offline": {"offline": True},
}
_OF_A_CREATION: Final = {"name": "instance_name", "os": "os_type"}
_OF_THE_API: Final = frozenset(("dry_run", "reason"))
"""Parameters of all opcodes that a body does not give."""
_LOCAL_OF_NODES: Final = frozenset(parameter.name for parameter in NODE_PARAMETERS if not parameter.remote)


def job(route: Route, request: ApiRequest, now_ns: int) -> list[dict[str, Any]]:
    """Give the serialised opcodes of one job; raises `RequestRefused`."""
    operation = route.operation
    if route.path.endswith("/reinstall"):
        return _reinstallation(route, operation, request, now_ns)
    return [_opcode(route, operation, request, now_ns)]


def _reinstallation(
    route: Route, operation: type[Operation[Any]], request: ApiRequest, now_ns: int
) -> list[dict[str, Any]]:
    """As in 3.1 the instance is stopped before, and started afterwards unless the request says otherwise."""
    body = request.object()
    start = not request.flag("nostartup")
    if request.has_body:
        start = body.pop("start", True)
        if not isinstance(start, bool):
            raise RequestRefused(400, "The parameter 'start' must be true or false")
    words = {name: values for name, values in request.arguments.items() if name != "os" or not request.has_body}
    install = _opcode(route, operation, replace(request, body=body, has_body=bool(body), arguments=words), now_ns)
    instance = {"instance_name": request.parts["instance_name"]} | {
        name: install[name] for name in ("reason", "priority", "dry_run")
    }
    before = decode({"OP_ID": "OP_INSTANCE_SHUTDOWN", "depends": install["depends"], **instance}).to_plain()
    after = decode({"OP_ID": "OP_INSTANCE_STARTUP", **instance}).to_plain()
    return [before, install, *([after] if start else [])]


def _opcode(route: Route, operation: type[Operation[Any]], request: ApiRequest, now_ns: int) -> dict[str, Any]:
    plain = _body(route, operation, request)
    plain |= _arguments(route, operation, request, plain)
    plain |= route.shape.fixed
    plain |= _parts(operation, request)
    refuse_local(operation, plain)
    plain |= {"OP_ID": operation.op_id, "reason": _reason(route, request, now_ns)}
    try:
        resolve(plain.get("depends"), None)
        found = decode({**route.shape.defaults, **plain})
        require_submittable(found.priority)
        return found.to_plain()
    except GanetiError as err:
        raise RequestRefused(400, str(err)) from err


def refuse_local(operation: type[Operation[Any]], given: Mapping[str, Any]) -> None:
    """Raises `RequestRefused` where *given* names a parameter that is for root on the master alone."""
    of_node = given.get("ndparams")
    inner = _LOCAL_OF_NODES.intersection(of_node) if isinstance(of_node, dict) else ()
    for name in sorted([*local(operation).intersection(given), *inner]):
        raise RequestRefused(403, f"The parameter '{name}' cannot be given over the remote API: use the command line")


def _body(route: Route, operation: type[Operation[Any]], request: ApiRequest) -> dict[str, Any]:
    if route.path.endswith("/role"):
        role = request.body
        if not isinstance(role, str) or role not in _ROLES:
            raise RequestRefused(400, f"The body must be a role: one of {', '.join(_ROLES)}")
        return dict(_ROLES[role])
    if not route.shape.body:
        return {}
    if any(word in request.arguments for word in route.shape.legacy):
        return {}
    given = request.object()
    if route.path == "/2/instances":
        _check_version(given)
    for alias, name in route.shape.aliases.items():
        if alias in given and name in _fields(operation):
            if name in given:
                raise RequestRefused(400, f"'{alias}' and '{name}' are the same parameter: give one of them")
            given[name] = given.pop(alias)
    for name in given:
        if name in route.shape.fixed or name in request.parts or name in _OF_THE_API or name == "OP_ID":
            raise RequestRefused(400, f"The body may not give '{name}'")
    if isinstance(given.get("instances"), list) and route.path == "/2/instances-multi-alloc":
        given["instances"] = [_named(each, _OF_A_CREATION) for each in given["instances"]]
    return given | {name: _as_list(given[name]) for name in route.shape.comma_lists if name in given}


def _named(given: Any, aliases: Mapping[str, str]) -> Any:
    """Put the names of parameters in the place of their aliases."""
    if not isinstance(given, dict):
        return given
    return {aliases.get(name, name): value for name, value in given.items() if name != "__version__"}


def _as_list(value: Any) -> Any:
    """Read a list of numbers that is told as text with commas; without any it is empty, as in 3.1."""
    if value == "":
        return []
    if isinstance(value, str) and all(word.strip().isdecimal() and len(word) < 20 for word in value.split(",")):
        return [int(word) for word in value.split(",")]
    return value


def _check_version(given: dict[str, Any]) -> None:
    version = given.pop("__version__", None)
    if isinstance(version, bool) or version != 1:
        raise RequestRefused(400, "The body must have the key '__version__' with the value 1")


def _arguments(
    route: Route, operation: type[Operation[Any]], request: ApiRequest, given: dict[str, Any]
) -> dict[str, Any]:
    """Read those arguments of the query that are parameters; others are ignored."""
    found: dict[str, Any] = {}
    fields = _fields(operation)
    for word, values in request.arguments.items():
        name = route.shape.aliases.get(word, word.replace("-", "_"))
        if name in fields and name not in ("reason", *given, *request.parts, *route.shape.fixed):
            found[name] = _value(word, values, fields[name])
    if route.path.endswith("/storage/modify"):
        words = request.arguments.get("allocatable")
        found["changes"] = {"allocatable": flag("allocatable", words[0])} if words else {}
    return found


def _value(word: str, values: list[str], type_: Any) -> Any:
    """Turn words into what a parameter of this type takes; the decoder says what is wrong with it."""
    types = {type(each).__name__: each for each in _plain_types(msgspec.inspect.type_info(type_))}
    if "BoolType" in types:
        return flag(word, values[0])
    if "ListType" in types:
        divided = [part for value in values for part in value.split(",") if part]
        return [_number(part, types["ListType"].item_type) for part in divided]
    return _number(values[0], type_) if "IntType" in types else values[0]


def _number(word: str, type_: Any) -> int | str:
    """Give a number where one is wanted and *word* is one."""
    info = type_ if isinstance(type_, msgspec.inspect.Type) else msgspec.inspect.type_info(type_)
    wanted = any(isinstance(each, msgspec.inspect.IntType) for each in _plain_types(info))
    return int(word) if wanted and word.removeprefix("-").isdecimal() and len(word) < 20 else word


def _plain_types(info: Any) -> list[Any]:
    while isinstance(info, msgspec.inspect.Metadata):
        info = info.type
    if isinstance(info, msgspec.inspect.UnionType):
        return [plain for each in info.types for plain in _plain_types(each)]
    return [info]


def _parts(operation: type[Operation[Any]], request: ApiRequest) -> dict[str, Any]:
    """Give what the path names; an opcode for several instances gets a list of one."""
    fields = _fields(operation)
    found: dict[str, Any] = {}
    for name, part in request.parts.items():
        if name in fields:
            found[name] = _value(name, [part], fields[name])
        else:
            found["instances" if name == "instance_name" else "nodes"] = [part]
    return found


def _reason(route: Route, request: ApiRequest, now_ns: int) -> list[Any]:
    words = request.word("reason")
    told = [["gnt:user", words, now_ns]] if words else []
    return [*told, [route.library_name, "", now_ns]]


@functools.cache
def _fields(operation: type[Operation[Any]]) -> Mapping[str, Any]:
    """Types by the names of parameters: annotations are read once, for that takes longer than the whole request."""
    return {each.name: each.type for each in msgspec.structs.fields(operation)}
