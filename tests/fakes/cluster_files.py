# SPDX-License-Identifier: BSD-2-Clause
"""A drawn cluster as the files the placement tools read: the text format, measured loads, messages for allocators."""

import math
from typing import Any

from tests.fakes.cluster_drawing import Dice, Drawing

from ganeti.model.templates import traits_of
from ganeti.placement.cluster.picture import Group, Instance, Node, Status
from ganeti.placement.cluster.policy import Policy, Spec

REQUESTS = ("allocate", "allocate", "relocate", "node-evacuate", "multi-allocate", "change-group", "allocate-secondary")
_SPECIFICATION = ("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use")
_ADMIN_STATE = {Status.ADMIN_DOWN: "down", Status.USER_DOWN: "down", Status.ADMIN_OFFLINE: "offline"}


def to_text(drawing: Drawing) -> str:
    """Every column of the text format (spec: htools, 1)."""
    cluster = drawing.cluster
    sections = [
        [f"{g.name}|{g.uuid}|{g.alloc_policy}|{','.join(g.tags)}|{','.join(g.networks)}" for g in cluster.groups],
        [_node_line(node, node.name == drawing.master) for node in cluster.nodes],
        [_instance_line(instance) for instance in cluster.instances],
        list(cluster.tags),
        [f"|{_policy_line(cluster.policy)}", *(f"{g.name}|{_policy_line(g.policy)}" for g in cluster.groups)],
    ]
    return "\n".join("".join(f"{line}\n" for line in section) for section in sections)


def _line(*fields: object) -> str:
    return "|".join(str(item) for item in fields)


def _node_line(node: Node, master: bool) -> str:
    return _line(
        node.name,
        math.trunc(node.total_memory_mib),
        node.node_memory_mib,
        node.free_memory_mib,
        math.trunc(node.total_disk_mib),
        node.free_disk_mib,
        math.trunc(node.total_cpus),
        "Y" if node.unavailable else "M" if master else "N",
        node.group,
        node.spindles,
        ",".join(node.tags),
        "Y" if node.exclusive_storage else "N",
        node.free_spindles,
        node.node_cpus,
        node.cpu_speed,
    )


def _instance_line(instance: Instance) -> str:
    spindles = instance.total_spindles if instance.disks else None
    return _line(
        instance.name,
        instance.memory_mib,
        instance.disk_mib,
        instance.vcpus,
        instance.status,
        "Y" if instance.auto_balance else "N",
        instance.primary,
        instance.secondary,
        instance.template,
        ",".join(instance.tags),
        instance.spindle_use,
        "-" if spindles is None else spindles,
        "Y" if instance.forthcoming else "N",
    )


def _numbers(spec: Spec) -> tuple[int, ...]:
    return (spec.memory_mib, spec.cpus, spec.disk_mib, spec.disks, spec.nics, spec.spindle_use)


def _policy_line(policy: Policy) -> str:
    specs = [policy.standard, *(spec for pair in policy.ranges for spec in pair)]
    words = [",".join(map(str, _numbers(spec))) for spec in specs]
    return _line(
        words[0], ";".join(words[1:]), ",".join(policy.templates), float(policy.vcpu_ratio), float(policy.spindle_ratio)
    )


def to_utilization(drawing: Drawing) -> str:
    """The file of measured loads."""
    lines = [f"{name} {' '.join(str(value) for value in load)}\n" for name, load in drawing.load.items()]
    return "".join(lines)


def to_message(drawing: Drawing, request: dict[str, Any], hypervisor: str = "kvm") -> dict[str, Any]:
    """The allocator's message, version 2, with *request* in it (spec: protocols, 7).

    What the message has no room for (speeds of CPUs, run states of errors) is left out.
    """
    cluster = drawing.cluster
    return {
        "version": 2,
        "cluster_name": "drawn.example.com",
        "cluster_tags": list(cluster.tags),
        "enabled_hypervisors": [hypervisor],
        "ipolicy": _policy_object(cluster.policy),
        "nodegroups": {group.uuid: _group_object(group) for group in cluster.groups},
        "nodes": {node.name: _node_object(number, node, drawing) for number, node in enumerate(cluster.nodes)},
        "instances": {one.name: _instance_object(one) for one in cluster.instances if not one.forthcoming},
        "request": request,
    }


def _policy_object(policy: Policy) -> dict[str, Any]:
    def spec(found: Spec) -> dict[str, int]:
        return dict(zip(_SPECIFICATION, _numbers(found), strict=True))

    return {
        "std": spec(policy.standard),
        "minmax": [{"min": spec(low), "max": spec(high)} for low, high in policy.ranges],
        "disk-templates": list(policy.templates),
        "vcpu-ratio": policy.vcpu_ratio,
        "spindle-ratio": policy.spindle_ratio,
    }


def _group_object(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "alloc_policy": str(group.alloc_policy),
        "networks": list(group.networks),
        "tags": list(group.tags),
        "ipolicy": _policy_object(group.policy),
    }


def _node_object(number: int, node: Node, drawing: Drawing) -> dict[str, Any]:
    primaries = [one for one in drawing.cluster.instances if one.primary == node.name]
    return {
        "tags": list(node.tags),
        "primary_ip": f"192.0.2.{number + 1}",
        "secondary_ip": f"198.51.100.{number + 1}",
        "offline": node.unavailable == "offline",
        "drained": node.unavailable == "drained",
        "master_candidate": True,
        "master_capable": True,
        "vm_capable": True,
        "group": node.group,
        "ndparams": {"spindle_count": node.spindles, "exclusive_storage": node.exclusive_storage},
        "total_memory": math.trunc(node.total_memory_mib),
        "reserved_memory": node.node_memory_mib,
        "free_memory": node.free_memory_mib,
        "total_disk": math.trunc(node.total_disk_mib),
        "free_disk": node.free_disk_mib,
        "total_cpus": math.trunc(node.total_cpus),
        "reserved_cpus": node.node_cpus,
        "i_pri_memory": sum(one.memory_mib for one in primaries),
        "i_pri_up_memory": sum(one.memory_mib for one in primaries if one.uses_memory),
        "total_spindles": node.spindles if node.exclusive_storage else 0,
        "free_spindles": node.free_spindles,
    }


def _instance_object(instance: Instance) -> dict[str, Any]:
    return {
        "tags": list(instance.tags),
        "admin_state": _ADMIN_STATE.get(instance.status, "up"),
        "admin_state_source": "user" if instance.status == Status.USER_DOWN else "admin",
        "vcpus": instance.vcpus,
        "memory": instance.memory_mib,
        "spindle_use": instance.spindle_use,
        "os": "noop",
        "nodes": [name for name in (instance.primary, instance.secondary) if name],
        "disks": _disk_objects(instance),
        "disk_space_total": instance.disk_mib,
        "disk_template": instance.template,
        "hypervisor": "kvm",
        "nics": [],
    }


def _disk_objects(instance: Instance) -> list[dict[str, Any]]:
    return [
        {"mode": "rw", "size": disk.size_mib} | ({} if disk.spindles is None else {"spindles": disk.spindles})
        for disk in instance.disks
    ]


def draw_request(drawing: Drawing, kind: str, number: int = 0) -> dict[str, Any]:
    """Draw a request of *kind*, the same for the same seed and *number*; sometimes one that cannot be met."""
    dice, cluster = Dice(drawing.seed * 100 + number + 7), drawing.cluster
    real = [one for one in cluster.instances if not one.forthcoming]
    if kind == "multi-allocate":
        asked = [_allocation(dice, cluster.groups, f"new{index}{drawing.suffix}") for index in range(dice.among(1, 4))]
        return {"type": kind, "instances": asked}
    if kind in ("allocate", "allocate-secondary") or not real:
        return {"type": "allocate", **_allocation(dice, cluster.groups, f"new{drawing.suffix}")}
    if kind == "relocate":
        return _relocation(dice, dice.pick(real))
    if kind == "node-evacuate":
        node = dice.pick(cluster.nodes).name
        there = [one.name for one in real if node in (one.primary, one.secondary)]
        modes = ("primary-only", "secondary-only", "all")
        return {"type": kind, "instances": there or [dice.pick(real).name], "evac_mode": dice.pick(modes)}
    groups = [group.uuid for group in cluster.groups if dice.chance(0.5)]
    names = [one.name for one in real if dice.chance(0.2)] or [real[0].name]
    return {"type": "change-group", "instances": names, "target_groups": groups}


def _relocation(dice: Dice, instance: Instance) -> dict[str, Any]:
    return {
        "type": "relocate",
        "name": instance.name,
        "required_nodes": 1,
        "disk_space_total": instance.disk_mib,
        "relocate_from": [instance.secondary or instance.primary],
    }


def _allocation(dice: Dice, groups: Any, name: str) -> dict[str, Any]:
    template = dice.pick(("drbd", "drbd", "drbd", "plain", "rbd", "ext", "sharedfile", "diskless", "blockdev"))
    traits = traits_of(template)
    size = dice.pick((1024, 10240, 20480, 51200))
    disks = [{"mode": "rw", "size": size}] if traits is not None and traits.has_disks else []
    request: dict[str, Any] = {
        "name": name,
        "required_nodes": 2 if template == "drbd" else 1,
        "disk_space_total": (size + 128 if template == "drbd" else size) if disks else 0,
        "disks": disks,
        "nics": [],
        "vcpus": dice.pick((1, 2, 4)),
        "disk_template": template,
        "memory": dice.pick((128, 512, 1024, 4096, 20000)),
        "os": "noop",
        "tags": [f"service:{dice.pick(('dns', 'web', 'new'))}"] if dice.chance(0.3) else [],
        "hypervisor": "kvm",
        "spindle_use": dice.pick((1, 1, 2)),
    }
    if len(groups) > 1 and dice.chance(0.3):
        request["group_name"] = dice.pick(groups).name
    return request
