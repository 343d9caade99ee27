# SPDX-License-Identifier: BSD-2-Clause
"""`config.data` of other versions of Ganeti, brought to this one's layout and back (compat, "Files"). Pure.

Conversion goes by what the file looks like, not by the version it names: each step finds its old form and replaces it,
or does nothing. So one that was converted by half is completed by the same conversion once more.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ganeti.base.errors import ConfigurationError
from ganeti.model import data_collectors, hypervisors, ipolicy
from ganeti.model.objects import CONFIG_VERSION, OF_BACKUP, Cluster, Instance, Node, NodeGroup, Plain
from ganeti.model.templates import NO_DISKS, OLD_NAMES, TEMPLATES
from ganeti.model.traits import Catalogue

OLDEST = (2, 7)
NEWEST = (CONFIG_VERSION // 1000000, CONFIG_VERSION // 10000 % 100)
DOWNGRADED = (3, 0)
"""What `--downgrade` makes of 3.1."""
_FIELDS_NOT_IN_3_1 = {
    "cluster": ("capacity_params", "diagnose_data_collector_filename"),
    "nodegroups": ("capacity_params",),
    "disks": ("generation", "snapshots"),
}
"""Fields that no version of Ganeti before this program knows: their classes refuse an object that has one."""
_ENTRIES_NOT_IN_3_0 = ("maintenance", "backups")
"""Whole entries: 3.1 has the first, the second is this program's."""
_VALUES_NOT_IN_3_1 = {"disk_discard": {"default": "ignore"}}
_VALUES_NOT_IN_3_0 = {"disk_aio": {"io_uring": "threads"}}
"""Parameters of hypervisors: values that one version has and the other has not, with what stands for them."""
_DEFAULT_LIMITS: Plain = {"min": ipolicy.DEFAULT_MINIMUM, "max": ipolicy.DEFAULT_MAXIMUM}


def version_of(plain: Plain) -> tuple[int, int]:
    """(major, minor) that a configuration names; raises `ConfigurationError` where it names none."""
    number = plain.get("version")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1000000:
        raise ConfigurationError("The configuration names no version: it is not a config.data file")
    return number // 1000000, number // 10000 % 100


def check_upgradable(plain: Plain) -> tuple[int, int]:
    """Give the version; raises `ConfigurationError` for one that cannot be converted."""
    found = version_of(plain)
    if not OLDEST <= found <= NEWEST:
        raise ConfigurationError(
            f"config.data is of version {_shown(found)}, and versions {_shown(OLDEST)} to {_shown(NEWEST)} can be "
            f"converted: {'upgrade it with a later Ganeti first' if found < OLDEST else 'use a newer release'}"
        )
    return found


def upgrade(plain: Plain, new_uuid: Callable[[], str]) -> list[str]:
    """Bring *plain* to this version, in place; gives a sentence for each thing changed.

    Raises `ConfigurationError` when it cannot be converted. *new_uuid* names what had no identity of its own.
    """
    found = check_upgradable(plain)
    remarks = []
    if "cluster" not in plain:
        raise ConfigurationError("The configuration has no 'cluster' entry: it is not a config.data file")
    steps = (
        *(_key_by_uuid, _networks_by_uuid, _lift_disks, _rename_templates),
        *(_active_disks, _limits, _memory, _cluster_defaults, _drop_old),
    )
    for step in steps:
        remarks += step(plain, new_uuid)
    only_before = {name: tuple(only) for name, only in hypervisors.ONLY_IN_3_0.items()}
    remarks += _drop_parameters(plain, only_before, NEWEST)
    remarks += _replace_values(plain, _VALUES_NOT_IN_3_1)
    if found != NEWEST:
        plain["version"] = CONFIG_VERSION
        remarks.append(f"version {_shown(found)} is {_shown(NEWEST)} now")
    return remarks


def downgrade(plain: Plain, catalogue: Catalogue) -> list[str]:
    """Bring a configuration of this version to 3.0, in place; gives a sentence for each thing changed.

    Raises `ConfigurationError` for what 3.0 could not understand.
    """
    if version_of(plain) != NEWEST:
        raise ConfigurationError(
            f"config.data is of version {_shown(version_of(plain))}: only {_shown(NEWEST)} can be downgraded"
        )
    for instance in plain["instances"].values():
        if instance.get("reverting") is not None:
            raise ConfigurationError(between_two_states(instance["name"], instance["reverting"]))
    remarks = [
        f"{name} is not known to {_shown(DOWNGRADED)} and was left out"
        for name in _ENTRIES_NOT_IN_3_0
        if plain.pop(name, None) is not None
    ]
    for kind, fields in _FIELDS_NOT_IN_3_1.items():
        for obj in [plain["cluster"]] if kind == "cluster" else plain.get(kind, {}).values():
            for field in fields:
                if obj.pop(field, None) is not None:
                    remarks.append(
                        f"{_named(kind, obj)}: {field} is not known to {_shown(DOWNGRADED)} and was left out"
                    )
    for disk in plain.get("disks", {}).values():
        if disk["dev_type"] in TEMPLATES and TEMPLATES[disk["dev_type"]].shared:
            disk["nodes"] = []  # 3.0 leaves them as they are in a failover, and would find a secondary node there
    remarks += _replace_values(plain, _VALUES_NOT_IN_3_0)
    remarks += _drop_parameters(plain, catalogue.parameters_not_in_3_1(), DOWNGRADED)
    for hypervisor, values in (plain["cluster"].get("hvparams") or {}).items():
        values |= hypervisors.ONLY_IN_3_0.get(hypervisor, {})
    plain["version"] = DOWNGRADED[0] * 1000000 + DOWNGRADED[1] * 10000
    remarks.append(f"version {_shown(NEWEST)} is {_shown(DOWNGRADED)} now")
    return remarks


def between_two_states(name: str, reverting: str) -> str:
    """Say why an instance with this `Instance.reverting` does not go to another version, and what to do."""
    backup = reverting.removeprefix(OF_BACKUP)
    state, again = f"the snapshot {reverting}", f"gnt-instance snapshot revert {name} {reverting}"
    if backup != reverting:
        state, again = f"the backup {backup}", f"gnt-backup restore --in-place --backup {backup} {name}"
    return (
        f"instance {name} is being taken back to {state}, which Ganeti 3.0 does not know: complete it first ({again})"
    )


def _shown(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


_NOUNS = {"cluster": "cluster", "nodes": "node", "nodegroups": "group", "instances": "instance", "disks": "disk"}


def _named(kind: str, obj: Plain) -> str:
    return f"{_NOUNS.get(kind, kind)} {obj.get('cluster_name') or obj.get('name') or obj.get('uuid')}"


def _key_by_uuid(plain: Plain, new_uuid: Callable[[], str]) -> list[str]:
    """Until 2.8, nodes and instances stood under their names, and were meant by them."""
    uuids: dict[str, dict[str, str]] = {}
    for kind in ("nodes", "instances"):
        entries = plain.get(kind) or {}
        renamed = {}
        for key, obj in entries.items():
            obj.setdefault("name", key)
            obj["uuid"] = obj.get("uuid") or new_uuid()
            renamed[obj["uuid"]] = obj
        uuids[kind] = {obj["name"]: uuid for uuid, obj in renamed.items()}
        if list(renamed) == list(entries):
            uuids[kind] = {}
        plain[kind] = renamed
    nodes = uuids["nodes"]
    if not nodes and not uuids["instances"]:
        return []
    cluster = plain["cluster"]
    cluster["master_node"] = nodes.get(cluster["master_node"], cluster["master_node"])
    for instance in plain["instances"].values():
        instance["primary_node"] = nodes.get(instance["primary_node"], instance["primary_node"])
        for disk in _nested_disks(instance.get("disks") or []):
            disk["logical_id"] = [
                nodes.get(part, part) if isinstance(part, str) else part for part in disk["logical_id"]
            ]
    return ["nodes and instances are meant by their UUIDs"]


def _networks_by_uuid(plain: Plain, new_uuid: Callable[[], str]) -> list[str]:
    """Until 2.8, NICs named their network."""
    networks = plain.get("networks") or {}
    uuids = {network["name"]: uuid for uuid, network in networks.items()}
    found = 0
    for instance in plain["instances"].values():
        for nic in instance.get("nics") or []:
            named = nic.get("network")
            if named not in networks and named in uuids:
                nic["network"] = uuids[named]
                found += 1
    return [f"{found} NICs mean their network by its UUID"] if found else []


def _nested_disks(disks: list[Any]) -> Iterator[Plain]:
    for disk in disks:
        if isinstance(disk, dict):
            yield disk
            yield from _nested_disks(disk.get("children") or [])


def _lift_disks(plain: Plain, new_uuid: Callable[[], str]) -> list[str]:
    """Until 2.14, disks lay in their instance."""
    disks: Plain = plain.setdefault("disks", {})
    lifted = 0
    for instance in plain["instances"].values():
        for nic in instance.get("nics") or []:
            nic["uuid"] = nic.get("uuid") or new_uuid()
        own = instance.get("disks") or []
        for disk in _nested_disks(own):
            disk.setdefault("uuid", new_uuid())
            disk.setdefault("children", [])
        names = []
        for disk in own:
            if isinstance(disk, dict):
                lifted += 1
                disk.setdefault("nodes", _nodes_of(disk, instance))
                for key in ("ctime", "mtime"):
                    disk.setdefault(key, instance.get(key, 0))
                disks[disk["uuid"]] = disk
            names.append(disk["uuid"] if isinstance(disk, dict) else disk)
        instance["disks"] = names
    return [f"{lifted} disks are objects of their own"] if lifted else []


def _nodes_of(disk: Plain, instance: Plain) -> list[str]:
    """A replicated disk names its two nodes first; others are on the primary node, or on none in particular."""
    logical = disk.get("logical_id") or []
    if len(logical) == 6:
        return [str(node) for node in logical[:2]]
    return [instance["primary_node"]]


def _rename_templates(plain: Plain, new_uuid: Callable[[], str]) -> list[str]:
    found = 0
    for disk in _nested_disks(list(plain["disks"].values())):
        if disk.get("dev_type") in OLD_NAMES:
            disk["dev_type"] = OLD_NAMES[disk["dev_type"]]
            found += 1
        disk.pop("physical_id", None)
    return [f"{found} disks have the present name of their type"] if found else []


def _active_disks(plain: Plain, new_uuid: Callable[[], str]) -> list[str]:
    """Until 2.8, the disks of an instance that should run were open, and no others."""
    found = [instance for instance in plain["instances"].values() if instance.get("disks_active") is None]
    for instance in found:
        instance["disks_active"] = instance.get("admin_state") == "up"
    return [f"it is noted of {len(found)} instances whether their disks are open"] if found else []


def _limits(plain: Plain, new_uuid: Callable[[], str]) -> list[str]:
    """Instance policies had one minimum and one maximum, those of groups with the sizes alone that differed."""
    cluster = plain["cluster"]
    remarks = _with_pairs(cluster.get("ipolicy") or {}, _named("cluster", cluster), [_DEFAULT_LIMITS])
    above = (cluster.get("ipolicy") or {}).get("minmax") or [_DEFAULT_LIMITS]
    for group in (plain.get("nodegroups") or {}).values():
        policy = group.get("ipolicy") or {}
        if "min" in policy or "max" in policy:
            policy.pop("std", None)  # that of the cluster counts
        remarks += _with_pairs(policy, _named("nodegroups", group), above)
    return remarks


def _with_pairs(policy: Plain, whose: str, above: list[Plain]) -> list[str]:
    """Give a policy one pair of limits in place of two sides; sizes that it does not name are those of *above*."""
    if "min" not in policy and "max" not in policy:
        return []
    sides = {side: policy.pop(side, None) or {} for side in ("min", "max")}
    if any(sides.values()):
        policy["minmax"] = [{side: above[0][side] | given for side, given in sides.items()}]
    return [f"{whose}: the instance policy has pairs of limits"]


def _memory(plain: Plain, new_uuid: Callable[[], str]) -> list[str]:
    found = 0
    sets = [*(plain["cluster"].get("beparams") or {}).values()]
    sets += [instance.get("beparams") or {} for instance in plain["instances"].values()]
    for values in sets:
        if "memory" in values:
            memory = values.pop("memory")
            values.setdefault("maxmem", memory)
            values.setdefault("minmem", memory)
            found += 1
    return [f"memory is maxmem and minmem in {found} places"] if found else []


def _cluster_defaults(plain: Plain, new_uuid: Callable[[], str]) -> list[str]:
    """What has come later gets the value it has in a new cluster."""
    cluster = plain["cluster"]
    added = []
    if not cluster.get("data_collectors"):
        cluster["data_collectors"] = data_collectors.settings_of_a_new_cluster()
        added.append("data_collectors")
    if not cluster.get("enabled_disk_templates"):
        cluster["enabled_disk_templates"] = _usable_templates(plain)
        added.append("enabled_disk_templates")
    for values in (cluster.get("nicparams") or {}).values():
        values.setdefault("vlan", "")
    for kind in ("networks", "filters"):
        if plain.get(kind) is None:
            plain[kind] = {}
            added.append(kind)
    return [f"the cluster has got {', '.join(added)}"] if added else []


def _usable_templates(plain: Plain) -> list[str]:
    """What instances have, and what the volume group allows: before 2.8, nobody had to enable a disk template."""
    cluster = plain["cluster"]
    found = {disk["dev_type"] for disk in plain["disks"].values()}
    found |= {str(instance.get("disk_template") or NO_DISKS) for instance in plain["instances"].values()}
    if cluster.get("volume_group_name"):
        has_helper = bool(cluster.get("drbd_usermode_helper"))
        found |= {
            each.name for each in TEMPLATES.values() if each.uses_node_disk and (has_helper or not each.has_secondary)
        }
    return sorted({OLD_NAMES.get(name, name) for name in found}) or [NO_DISKS]


def _drop_old(plain: Plain, new_uuid: Callable[[], str]) -> list[str]:
    """Fields that are no longer kept; what this program does not know at all stays as it came."""
    dropped = []
    gone = {"instances": ("disk_template", "status"), "networks": ("network_type", "family", "size")}
    for kind, fields in gone.items():
        for obj in (plain.get(kind) or {}).values():
            dropped += [f"{_named(kind, obj)}: {field}" for field in fields if obj.pop(field, None) is not None]
    return [f"left out what is no longer kept: {', '.join(dropped)}"] if dropped else []


def _drop_parameters(plain: Plain, unknown: Mapping[str, Sequence[str]], version: tuple[int, int]) -> list[str]:
    """Leave out parameters that are *unknown* to a version, by hypervisor: it would start no guest that has one."""
    cluster = plain["cluster"]
    holders = [("cluster", *each) for each in (cluster.get("hvparams") or {}).items()]
    for system, inner in (cluster.get("os_hvp") or {}).items():
        holders += [(f"OS {system}", *each) for each in inner.items()]
    holders += [
        (_named("instances", obj), obj.get("hypervisor"), obj.get("hvparams") or {})
        for obj in plain["instances"].values()
    ]
    remarks = [
        f"{where}: {name} is not known to {_shown(version)} and was left out"
        for where, hypervisor, values in holders
        for name in unknown.get(hypervisor, ())
        if values.pop(name, None) is not None
    ]
    return list(dict.fromkeys(remarks))


def _replace_values(plain: Plain, table: dict[str, dict[str, str]]) -> list[str]:
    cluster = plain["cluster"]
    holders = [("cluster", values) for values in (cluster.get("hvparams") or {}).values()]
    for system, inner in (cluster.get("os_hvp") or {}).items():
        holders += [(f"OS {system}", values) for values in inner.values()]
    holders += [(f"instance {obj.get('name')}", obj.get("hvparams") or {}) for obj in plain["instances"].values()]
    remarks = []
    for where, values in holders:
        for name, replaced in table.items():
            if values.get(name) in replaced:
                new = replaced[values[name]]
                remarks.append(f"{where}: {name}={values[name]} is {name}={new} now")
                values[name] = new
    return remarks


def unknown_fields(plain: Plain) -> list[str]:
    """Say what of *plain* this program keeps without understanding it."""
    found = []
    for kind, cls in (("nodes", Node), ("nodegroups", NodeGroup), ("instances", Instance)):
        known = set(cls.__struct_fields__)
        for obj in (plain.get(kind) or {}).values():
            found += [f"{_named(kind, obj)}: {field}" for field in obj if field not in known]
    return [f"cluster: {field}" for field in plain["cluster"] if field not in Cluster.__struct_fields__] + found
