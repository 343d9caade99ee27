# SPDX-License-Identifier: BSD-2-Clause
"""Which opcodes take a commit back: values of parameters and tags, by the operations that set them. Pure.

What an operation did outside the configuration (disks, guests, names in use) is not undone by writing old values back,
so a commit that changed anything else is refused with the fields that stand in the way.
"""

from collections.abc import Mapping
from typing import Any

from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.model.parameters import DEFAULT_MARK
from ganeti.tools.config_past import EVER, Event, Key, Past, label, name_of

Opcode = dict[str, Any]
_OPERATIONS = {
    "instances": "OP_INSTANCE_SET_PARAMS",
    "nodes": "OP_NODE_SET_PARAMS",
    "nodegroups": "OP_GROUP_SET_PARAMS",
    "cluster": "OP_CLUSTER_SET_PARAMS",
}
_NAMED_BY = {"instances": "instance_name", "nodes": "node_name", "nodegroups": "group_name"}
_TAG_KINDS = {"instances": "instance", "nodes": "node", "nodegroups": "nodegroup", "networks": "network"}
_DICTS = {
    "instances": ("beparams", "hvparams", "osparams"),
    "nodes": ("ndparams",),
    "nodegroups": ("ndparams",),
    "cluster": ("ndparams",),
}
_NESTED = {"cluster": ("hvparams", "osparams")}
_PROFILES = {"cluster": ("beparams", "nicparams")}
"""Of which the one profile there is, ``default``, is set without its name."""
_PLAIN = {
    "nodegroups": ("alloc_policy",),
    "cluster": ("candidate_pool_size", "max_running_jobs", "maintain_node_health", "mac_prefix"),
}
_PROFILE = "default"


def opcodes(past: Past, position: tuple[int, int]) -> list[Opcode]:
    """What takes the commit at *position* back; raises `PrerequisiteError` where it cannot be."""
    found: list[Opcode] = []
    event = next((event for _, event in past.events if event.position == position), None)
    shown = f"{position[0]}.{position[1]}"
    if event is None:
        raise PrerequisiteError(f"Commit {shown} is not kept: see gnt-cluster history --limit 0", WRONG_INPUT)
    if event.remove:
        raise PrerequisiteError(
            f"Commit {shown} removed {label(event.remove[0], _before(past, event, event.remove[0]))}: what was removed "
            "is not made again",
            WRONG_STATE,
        )
    for kind, uuid, after in event.put:
        found += _of_object(past, event, (kind, uuid), after)
    if not found:
        raise PrerequisiteError(f"Commit {shown} changed no value that an operation sets", WRONG_STATE)
    return found


def _of_object(past: Past, event: Event, key: Key, after: dict[str, Any]) -> list[Opcode]:
    what = label(key, after)
    before = _before(past, event, key)
    if before is None:
        reason = "made it: remove it instead" if after.get("serial_no") == 1 else "is the first of it that is kept"
        raise PrerequisiteError(f"{what}: the commit {reason}", WRONG_STATE)
    now = past.present.get(key)
    fields = [name for name in {**before, **after} if name not in EVER and before.get(name) != after.get(name)]
    if now is None:
        raise PrerequisiteError(f"{what} is not there any more", WRONG_STATE)
    changed = [name for name in fields if now.get(name) != after.get(name)]
    if changed:
        raise PrerequisiteError(f"{what}: {', '.join(changed)} has changed again since: undo that first", WRONG_STATE)
    return _inverse(key, what, fields, before, after)


def _before(past: Past, event: Event, key: Key) -> dict[str, Any] | None:
    """The object before a commit, as an earlier one that is kept has left it."""
    state = None
    for _, earlier in past.events:
        if earlier.position >= event.position:
            break
        for kind, uuid, plain in earlier.put:
            if (kind, uuid) == key:
                state = plain
    return state


def _inverse(key: Key, what: str, fields: list[str], before: dict[str, Any], after: dict[str, Any]) -> list[Opcode]:
    kind, values, found = key[0], {}, []
    for name in fields:
        old, new = before.get(name), after.get(name)
        if name == "tags":
            found += _tags(kind, after, old or [], new or [])
        elif name in _DICTS.get(kind, ()):
            values[name] = _back(old or {}, new or {})
        elif name in _NESTED.get(kind, ()):
            values[name] = _each_back(old or {}, new or {})
        elif name in _PROFILES.get(kind, ()):
            values[name] = _back((old or {}).get(_PROFILE, {}), (new or {}).get(_PROFILE, {}))
        elif name in _PLAIN.get(kind, ()) and old is not None:
            values[name] = old
        else:
            raise PrerequisiteError(f"{what}: a change of {name} cannot be undone this way", WRONG_STATE)
    if values:
        named = {_NAMED_BY[kind]: name_of(after)} if kind in _NAMED_BY else {}
        found.append({"OP_ID": _OPERATIONS[kind], **named, **values})
    return found


def _back(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Values to be set; one that was inherited is inherited again."""
    return {name: old.get(name, DEFAULT_MARK) for name in {**old, **new} if old.get(name) != new.get(name)}


def _each_back(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    both = {name: _back(old.get(name, {}), new.get(name, {})) for name in {**old, **new}}
    return {name: values for name, values in both.items() if values}


def _tags(kind: str, after: dict[str, Any], old: list[str], new: list[str]) -> list[Opcode]:
    where = {"kind": _TAG_KINDS.get(kind, "cluster"), "name": name_of(after) if kind in _TAG_KINDS else None}
    gone, added = sorted(set(old) - set(new)), sorted(set(new) - set(old))
    found = [{"OP_ID": "OP_TAGS_DEL", **where, "tags": added}] if added else []
    return found + ([{"OP_ID": "OP_TAGS_SET", **where, "tags": gone}] if gone else [])
