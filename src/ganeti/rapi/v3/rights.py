# SPDX-License-Identifier: BSD-2-Clause
"""Whether a caller may do what is asked: by kinds of objects, and by their tags where a scope names one."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operation import Operation
from ganeti.master.parameter import declared
from ganeti.rapi.answers import RequestRefused
from ganeti.rapi.caller import ANYBODY, Caller, login_needed
from ganeti.rapi.reading import Luxi, ask

_KIND_OF_ROOM: Final = {
    "backup": "instance",
    "group": "group",
    "instance": "instance",
    "network": "network",
    "node": "node",
    "query": "cluster",
}
"""By the package an operation is declared in; what is not here belongs to the cluster."""
_KIND_OF_OPERATION: Final = {"OP_BACKUP_KEY": "cluster", "OP_BACKUP_SCHEDULE": "cluster"}
"""What stands beside operations of one kind of object, and is about all of them."""
_READS: Final = re.compile(r"_(QUERY|DIAGNOSE|GET|SEARCH)(_|$)|^OP_QUERY")
_TAG_CALL: Final = {"group": "nodegroup"}
_TAGGED_KINDS: Final = {"nodegroup": "group"}
_TAGGED: Final = ("group", "instance", "network", "node")
_FROM_ELSEWHERE: Final = ("import", "remote-import")
_SOURCES: Final = ("src_node", "src_node_uuid", "src_path", "source_instance_name")
_CREATES: Final = ("OP_INSTANCE_CREATE", "OP_NETWORK_ADD")


def kind_of(operation: type[Operation[Any]]) -> str:
    kind = _KIND_OF_OPERATION.get(operation.op_id)
    return kind or _KIND_OF_ROOM.get(operation.__module__.split(".")[3], "cluster")


def access_of(operation: type[Operation[Any]]) -> str:
    return "read" if _READS.search(operation.op_id) else "write"


def scopes_of(operation: type[Operation[Any]]) -> list[str]:
    """Give the scope that an operation needs; none where its parameters choose the kind of object."""
    return [] if _is_about_any_kind(operation) else [f"{kind_of(operation)}:{access_of(operation)}"]


def _is_about_any_kind(operation: type[Operation[Any]]) -> bool:
    return operation.__module__.split(".")[3] == "tags"


async def require_operation(luxi: Luxi, caller: Caller, operation: Operation[Any]) -> None:
    """Raises `RequestRefused` for a caller that may not submit it."""
    kind, access = kind_of(type(operation)), access_of(type(operation))
    if _is_about_any_kind(type(operation)):
        told = str(getattr(operation, "kind", "cluster"))
        kind = _TAGGED_KINDS.get(told, told)
    names = named(operation, kind)
    tags = frozenset(getattr(operation, "tags", [])) if operation.op_id in _CREATES else None
    await require(luxi, caller, kind, access, names, tags)
    if not caller.may(kind, access):
        await _require_the_rest(luxi, caller, operation, kind)


async def _require_the_rest(luxi: Luxi, caller: Caller, operation: Operation[Any], kind: str) -> None:
    """What the tags of its objects do not tell: an operation may take data of others, or name objects of other kinds.

    An instance uses those others, anything else changes them.
    """
    if source := _data_of_others(operation):
        raise RequestRefused(403, f"'{source}' may be somebody else's data: this needs {kind}:write without a tag")
    if operation.op_id.startswith("OP_TAGS"):
        return
    for other in _TAGGED:
        if other != kind and (names := named(operation, other)):
            await require(luxi, caller, other, "read" if kind == "instance" else "write", names)


def _data_of_others(operation: Operation[Any]) -> str | None:
    """Give the parameter that names exports or volumes, which have no tags."""
    if getattr(operation, "mode", None) in _FROM_ELSEWHERE and operation.op_id == "OP_INSTANCE_CREATE":
        return "mode"
    source = next((name for name in _SOURCES if getattr(operation, name, None)), None)
    if source is not None:
        return source
    return "disks" if any(_takes_a_volume(each) for each in getattr(operation, "disks", None) or ()) else None


def _takes_a_volume(disk: Any) -> bool:
    """Whether a disk, or a change ``[action, which, values]`` of one, is a volume that is there already."""
    if isinstance(disk, list | tuple):
        return any(each == "attach" or _takes_a_volume(each) for each in disk)
    return isinstance(disk, Mapping) and disk.get("adopt") is not None


async def require(
    luxi: Luxi, caller: Caller, kind: str, access: str, names: Iterable[str] = (), tags: Iterable[str] | None = None
) -> None:
    """Raises `RequestRefused` unless the caller may do this to objects of the kind with these names.

    *tags* are those of an object that is to be made.
    """
    if caller is ANYBODY:
        raise login_needed()
    if caller.may(kind, access):
        return
    wanted, asked = caller.tags_for(kind, access), list(names)
    if not wanted or not (asked or tags is not None):
        raise _not_allowed(caller, kind, access)
    if tags is not None:
        if not wanted.intersection(tags):
            raise _not_allowed(caller, kind, access, f" without a tag of {', '.join(sorted(wanted))}")
        return
    for name in asked:
        try:
            has = await ask(luxi, "QueryTags", _TAG_CALL.get(kind, kind), name)
        except PrerequisiteError:
            has = []
        if not wanted.intersection(has):
            raise _not_allowed(caller, kind, access, f" to '{name}', which has none of its tags")


def named(operation: Operation[Any], kind: str) -> list[str]:
    """Give the names of all objects of *kind* that the operation's parameters hold."""
    found: list[str] = []
    for name, each in declared(type(operation)).items():
        about = each.given.subject == kind or (each.given.subject == "object" and operation.op_id.startswith("OP_TAGS"))
        value = getattr(operation, name)
        if about or name in (f"{kind}_name", f"{kind}s"):
            found += [value] if isinstance(value, str) else [str(one) for one in value or () if isinstance(one, str)]
    return found


def _not_allowed(caller: Caller, kind: str, access: str, more: str = "") -> RequestRefused:
    return RequestRefused(403, f"This needs the scope {kind}:{access}, and {caller.name} has none{more}")
