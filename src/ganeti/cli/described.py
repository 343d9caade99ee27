# SPDX-License-Identifier: BSD-2-Clause
"""What a description of a cluster asks for that is not so yet, as steps in the order they must be done. Pure.

A description names objects by kind; what it does not say of an object stays as it is. ``state: absent`` removes one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ganeti.cli.described_devices import DISK_FIELDS, NIC_FIELDS, Devices, disk_changes, in_mebibytes, nic_changes
from ganeti.cli.failures import Failure
from ganeti.cli.values import read_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Plain = dict[str, Any]

_GROUP = ("alloc_policy", "ndparams", "ipolicy", "diskparams")
_NETWORK = ("gateway", "network6", "gateway6", "mac_prefix")
_PARAMETERS = ("beparams", "hvparams", "osparams")
_SIZES = ("memory", "maxmem", "minmem")
_NEW_INSTANCE = ("disk_template", "hypervisor", "iallocator", "file_storage_dir", "file_driver", "group")
KEYS = {
    "cluster": ("tags",),
    "groups": ("state", "tags", *_GROUP),
    "networks": ("state", "tags", "network", "groups", *_NETWORK),
    "instances": ("state", "tags", "os", "node", "secondary", "disks", "nics", "up", *_NEW_INSTANCE, *_PARAMETERS),
}
"""What may be said of an object of each kind."""
_TAG_KINDS = {"groups": "nodegroup", "networks": "network", "instances": "instance"}
CLUSTER, GROUPS, NETWORKS, LINKS, INSTANCES, CHANGES, REMOVED_INSTANCES, UNLINKED, REMOVED = range(9)
"""Stages: what stands in one may be done at once."""


@dataclass(frozen=True)
class Step:
    stage: int
    sentence: str
    opcode: Plain


@dataclass(frozen=True)
class Current:
    """The cluster as it is: objects by name, with the fields of `FIELDS`."""

    tags: list[str] = field(default_factory=list)
    groups: Mapping[str, Plain] = field(default_factory=dict)
    networks: Mapping[str, Plain] = field(default_factory=dict)
    instances: Mapping[str, Plain] = field(default_factory=dict)


FIELDS = {
    "groups": ["name", "tags", "alloc_policy", "custom_ndparams", "custom_ipolicy", "custom_diskparams"],
    "networks": ["name", "tags", "network", "group_list", *_NETWORK],
    "instances": [
        *("name", "tags", "os", "disk_template", "hypervisor", "admin_state", "pnode"),
        *(f"custom_{name}" for name in _PARAMETERS),
        *DISK_FIELDS.values(),
        *NIC_FIELDS.values(),
    ],
}


def steps(wanted: Any, current: Current) -> list[Step]:
    """Give what has to be done, in order; raises `Failure` for what is not understood, or cannot be changed."""
    if not isinstance(wanted, dict):
        raise Failure(f"A description has the keys {', '.join(KEYS)}")
    _check(wanted)
    found: list[Step] = []
    if "tags" in (wanted.get("cluster") or {}):
        found += _tags("cluster", "", "the cluster", wanted["cluster"]["tags"], current.tags, CLUSTER)
    for said in (wanted.get("instances") or {}).values():
        if "beparams" in (said or {}):
            said["beparams"] = _backend(said["beparams"])
    for kind, make in (("groups", _group), ("networks", _network), ("instances", _instance)):
        now: Mapping[str, Plain] = getattr(current, kind)
        for name, said in (wanted.get(kind) or {}).items():
            found += make(name, said or {}, now.get(name))
    return sorted(found, key=lambda step: step.stage)


def _check(wanted: Plain) -> None:
    for kind, objects in wanted.items():
        if kind not in KEYS:
            raise Failure(f"A description has no '{kind}': there are {', '.join(KEYS)}")
        if not isinstance(objects, dict | None):
            raise Failure(f"{kind}: write each as NAME: and what it should be")
        for name, said in {"": objects}.items() if kind == "cluster" else (objects or {}).items():
            where = f"{kind}: {name}".removesuffix(": ")
            if not isinstance(said, dict | None):
                raise Failure(f"{where}: write KEY: VALUE with the keys {', '.join(KEYS[kind])}")
            if unknown := sorted(set(said or {}) - set(KEYS[kind])):
                raise Failure(f"{where}: there is no '{unknown[0]}': there are {', '.join(KEYS[kind])}")
            _check_values(where, said or {})


def _check_values(where: str, said: Plain) -> None:
    if said.get("state", "present") not in ("present", "absent"):
        raise Failure(f"{where}: state is 'present' or 'absent', not '{said['state']}'")
    for key, type_, what in (
        ("tags", list, "a list"),
        ("disks", list, "a list"),
        ("nics", list, "a list"),
        ("groups", dict, "a map of groups"),
        ("up", bool, "true or false"),
        *((name, dict, "a map") for name in (*_PARAMETERS, "ndparams", "ipolicy", "diskparams")),
    ):
        if key in said and not isinstance(said[key], type_):
            raise Failure(f"{where}: {key} is {what}")
    for key in ("disks", "nics"):
        if any(not isinstance(each, dict) for each in said.get(key, ())):
            raise Failure(f"{where}: each of {key} is a map, such as {{size: 1G}}")


def _tags(kind: str, name: str, what: str, wanted: list[str], now: list[str], stage: int) -> Iterator[Step]:
    words = [str(tag) for tag in wanted]
    for op_id, verb, tags in (
        ("OP_TAGS_SET", "add", sorted(set(words) - set(now))),
        ("OP_TAGS_DEL", "remove", sorted(set(now) - set(words))),
    ):
        if tags:
            named = {"name": name} if name else {}
            yield Step(
                stage, f"~ {what}: {verb} tags {', '.join(tags)}", {"OP_ID": op_id, "kind": kind, "tags": tags, **named}
            )


def _backend(given: Plain) -> Plain:
    """Sizes in MiB, and ``memory`` as the two values that it stands for."""
    found = {
        name: read_size(name, value) if name in _SIZES and _is_size(value) else value for name, value in given.items()
    }
    memory = found.pop("memory", None)
    return found if memory is None else {"maxmem": memory, "minmem": memory, **found}


def _is_size(value: Any) -> bool:
    return isinstance(value, str) and value != "default"


def _differing(said: Plain, now: Plain, keys: tuple[str, ...]) -> Plain:
    """What is said otherwise than it is; of a map only the entries that are said count.

    An entry that is ``default`` or empty is to be inherited.
    """
    found: Plain = {}
    for key in keys:
        if key not in said:
            continue
        have = now.get(f"custom_{key}", now.get(key))
        if isinstance(said[key], dict):
            inherited = {name for name, value in said[key].items() if value in (None, "default")}
            entries = {name: "default" for name in inherited if name in (have or {})}
            entries |= {
                name: value
                for name, value in said[key].items()
                if name not in inherited and not _holds((have or {}).get(name), value)
            }
            if entries:
                found[key] = {name: entries[name] for name in said[key] if name in entries}
        elif (said[key] or None) != (have or None):
            found[key] = "none" if said[key] is None else said[key]
    return found


def _holds(have: Any, wanted: Any) -> bool:
    """Whether everything that is wanted is so; what nobody speaks of may be there too."""
    if isinstance(wanted, dict) and isinstance(have, dict):
        return all(_holds(have.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(have, list):
        return len(wanted) == len(have) and all(map(_holds, have, wanted))
    return bool(have == wanted) and isinstance(have, bool) == isinstance(wanted, bool)


def _told(changes: Plain) -> str:
    return ", ".join(f"{key}={value}" for key, value in changes.items())


def _group(name: str, said: Plain, now: Plain | None) -> Iterator[Step]:
    what = f"group {name}"
    if said.get("state") == "absent":
        if now is not None:
            yield Step(REMOVED, f"- {what}", {"OP_ID": "OP_GROUP_REMOVE", "group_name": name})
        return
    if now is None:
        given = {key: said[key] for key in _GROUP if key in said}
        yield Step(GROUPS, f"+ {what}", {"OP_ID": "OP_GROUP_ADD", "group_name": name, **given})
    elif changes := _differing(said, now, _GROUP):
        opcode = {"OP_ID": "OP_GROUP_SET_PARAMS", "group_name": name, **changes}
        yield Step(GROUPS, f"~ {what}: {_told(changes)}", opcode)
    if "tags" in said:
        yield from _tags(_TAG_KINDS["groups"], name, what, said["tags"], (now or {}).get("tags", []), CHANGES)


def _network(name: str, said: Plain, now: Plain | None) -> Iterator[Step]:
    what = f"network {name}"
    links = {each[0]: each[1:] for each in (now or {}).get("group_list") or ()}
    if said.get("state") == "absent":
        if now is not None:
            yield from (_unlink(name, group) for group in links)
            yield Step(REMOVED, f"- {what}", {"OP_ID": "OP_NETWORK_REMOVE", "network_name": name})
        return
    if now is None:
        if "network" not in said:
            raise Failure(f"networks: {name}: say its addresses, such as network: 192.0.2.0/24")
        given = {key: said[key] for key in ("network", "tags", *_NETWORK) if key in said}
        yield Step(NETWORKS, f"+ {what}", {"OP_ID": "OP_NETWORK_ADD", "network_name": name, **given})
    else:
        if said.get("network", now["network"]) != now["network"]:
            raise Failure(f"networks: {name}: its addresses are {now['network']}; they cannot be changed")
        if changes := _differing(said, now, _NETWORK):
            opcode = {"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": name, **changes}
            yield Step(CHANGES, f"~ {what}: {_told(changes)}", opcode)
        if "tags" in said:
            yield from _tags(_TAG_KINDS["networks"], name, what, said["tags"], now["tags"], CHANGES)
    if "groups" in said:
        yield from _links(name, said["groups"], links)


def _links(name: str, wanted: Plain, now: Mapping[str, list[Any]]) -> Iterator[Step]:
    for group, given in wanted.items():
        link = {"mode": "bridged", "link": "", "vlan": "", **(given or {})}
        if set(link) != {"mode", "link", "vlan"}:
            raise Failure(f"networks: {name}: groups: {group}: write mode, link and vlan")
        values = {f"network_{key}": str(link[key] or "") for key in ("mode", "link", "vlan")}
        if [str(each or "") for each in now.get(group, [])] == list(values.values()):
            continue
        if group in now:
            yield Step(NETWORKS, f"~ network {name}: leave group {group}", _unlink(name, group).opcode)
        opcode = {"OP_ID": "OP_NETWORK_CONNECT", "network_name": name, "group_name": group}
        yield Step(LINKS, f"~ network {name}: join group {group}, {_told(link)}", {**opcode, **values})
    yield from (_unlink(name, group) for group in now if group not in wanted)


def _unlink(name: str, group: str) -> Step:
    opcode = {"OP_ID": "OP_NETWORK_DISCONNECT", "network_name": name, "group_name": group}
    return Step(UNLINKED, f"~ network {name}: leave group {group}", opcode)


def _instance(name: str, said: Plain, now: Plain | None) -> Iterator[Step]:
    what = f"instance {name}"
    if said.get("state") == "absent":
        if now is not None:
            yield Step(REMOVED_INSTANCES, f"- {what}", {"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": name})
        return
    if now is None:
        yield Step(INSTANCES, f"+ {what}", _creation(name, said))
        return
    _refuse_unchangeable(name, said, now)
    where = f"instances: {name}"
    changes = _differing(said, now, _PARAMETERS)
    words = [_told(each) for each in changes.values()]
    disks = disk_changes(f"{where}: disks", _disks(said), now) if "disks" in said else Devices()
    nics = nic_changes(f"{where}: nics", said["nics"], now) if "nics" in said else Devices()
    for key, devices in (("disks", disks), ("nics", nics)):
        if devices.changes:
            changes[key] = devices.changes
            words += devices.sentences
    if changes:
        opcode = {"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": name, **changes}
        yield Step(INSTANCES, f"~ {what}: {', '.join(words)}", opcode)
    for index, size_mib in disks.grown:
        grow = {"OP_ID": "OP_INSTANCE_GROW_DISK", "instance_name": name, "disk": index, "absolute": True}
        yield Step(CHANGES, f"~ {what}: disk {index} grows to {size_mib} MiB", {**grow, "amount": size_mib})
    if "tags" in said:
        yield from _tags(_TAG_KINDS["instances"], name, what, said["tags"], now["tags"], CHANGES)
    if "up" in said and said["up"] != (now["admin_state"] == "up"):
        op_id, verb = ("OP_INSTANCE_STARTUP", "start") if said["up"] else ("OP_INSTANCE_SHUTDOWN", "stop")
        yield Step(CHANGES, f"~ {what}: {verb}", {"OP_ID": op_id, "instance_name": name})


def _creation(name: str, said: Plain) -> Plain:
    names = {"group": "group_name"}
    given = {names.get(key, key): said[key] for key in (*_NEW_INSTANCE, *_PARAMETERS, "tags") if key in said}
    if "disk_template" not in said or "os" not in said:
        raise Failure(f"instances: {name}: it is new: say os and disk_template")
    for key, parameter in (("node", "pnode"), ("secondary", "snode")):
        if key in said:
            given[parameter] = said[key]
    nics = [
        {key: value for key, value in nic.items() if value is not None and key != "state"}
        for nic in said.get("nics", [{}])
        if nic.get("state") != "absent"
    ]
    new = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": name, "mode": "create", "os_type": said["os"]}
    return {**new, "disks": _new_disks(said), "nics": nics, "start": said.get("up", True), **given}


def _disks(said: Plain) -> list[Plain]:
    return [in_mebibytes(disk) for disk in said.get("disks", [])]


def _new_disks(said: Plain) -> list[Plain]:
    wanted = [disk for disk in _disks(said) if disk.get("state") != "absent"]
    return [{key: value for key, value in disk.items() if key != "state"} for disk in wanted]


def _refuse_unchangeable(name: str, said: Plain, now: Plain) -> None:
    for key in ("os", "disk_template", "hypervisor"):
        if said.get(key, now[key]) != now[key]:
            raise Failure(f"instances: {name}: its {key} is {now[key]}; this changes nothing of that kind by itself")
