# SPDX-License-Identifier: BSD-2-Clause
"""A plan in plain values: what changes, which nodes are asked for what, which jobs follow. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ganeti.master.operation import SubmitJobs
from ganeti.master.planning.recording import RecordingContext
from ganeti.model.configuration import Draft, name_of
from ganeti.model.locks import LockPlan
from ganeti.model.view import ConfigView

_NOUNS: Final = {
    "nodes": "node",
    "nodegroups": "group",
    "instances": "instance",
    "networks": "network",
    "disks": "disk",
    "filters": "filter",
}
_NOT_TOLD: Final = ("serial_no", "mtime", "ctime", "unknown")
_SECRET: Final = ("private", "secret", "password", "key")
HIDDEN: Final = "(not shown)"


def changes(draft: Draft) -> list[dict[str, Any]]:
    """Give what the draft does to each object: its fields with the value before and after."""
    found = []
    names = _names(draft.base, draft)
    for (kind, uuid), after in draft.touched.items():
        before = draft.base.get(kind, uuid)
        action = "remove" if after is None else "add" if before is None else "change"
        named = after if after is not None else before
        name = "" if kind == "cluster" or named is None else name_of(named) or uuid
        found.append(
            {
                "kind": _NOUNS.get(kind, kind),
                "name": name,
                "action": action,
                "fields": {} if after is None else _fields(_plain(before), _plain(after), names),
            }
        )
    return [each for each in found if each["action"] != "change" or each["fields"]]


def _plain(obj: Any) -> dict[str, Any]:
    return {} if obj is None else dict(msgspec.to_builtins(obj))


def _fields(before: dict[str, Any], after: dict[str, Any], names: Mapping[str, str]) -> dict[str, list[Any]]:
    """Fields that differ; uuids of nodes, groups and networks are told by name."""
    differ = [name for name in after if name not in _NOT_TOLD and before.get(name) != after[name]]
    return {name: [_shown(name, before.get(name), names), _shown(name, after[name], names)] for name in differ}


def _shown(name: str, value: Any, names: Mapping[str, str]) -> Any:
    if value and any(word in name for word in _SECRET):
        return HIDDEN
    if isinstance(value, dict):
        return {str(key): _shown(str(key), one, names) for key, one in value.items() if key not in _NOT_TOLD}
    if isinstance(value, list):
        return [_shown(name, one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) and name != "uuid" else value


def _names(*views: ConfigView) -> dict[str, str]:
    named: list[Any] = [obj for view in views for obj in [*view.nodes(), *view.groups(), *view.networks()]]
    return {obj.uuid: str(obj.name) for obj in named}


def node_calls(ctx: RecordingContext) -> list[list[str]]:
    """Give ``[node, call]`` in their order."""
    names = _names(ctx.config.base, ctx.config.draft)
    return [[names.get(uuid, uuid), call] for uuid, call in ctx.nodes.calls]


def jobs(result: Any) -> list[list[str]]:
    """Give the operations of each job that the operation submits, in short."""
    return [[each.summary() for each in job] for job in result.jobs] if isinstance(result, SubmitJobs) else []


def locks(plan: LockPlan, view: ConfigView) -> list[list[str]]:
    """Give ``[lock, mode]``, with names in the place of uuids."""
    names = _names(view)
    return [[_named(lock, names), mode] for lock, mode in plan.request()]


def _named(lock: str, names: dict[str, str]) -> str:
    level, _, uuid = lock.partition("/")
    return f"{level}/{names.get(uuid, uuid)}"


def once_each(lines: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(lines))
