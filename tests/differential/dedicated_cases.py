# SPDX-License-Identifier: BSD-2-Clause
"""Clusters that are sold by the quarter, the half and the whole machine, and what is asked of their allocator.

Every node has exclusive storage, and each size is a range of the policy. A small instance should leave the room where a
large one still fits: hail counts what is lost instead of the score (spec: htools, 10).
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.differential.cases import REQUEST, Case
from tests.fakes.cluster_drawing import Dice, Drawing
from tests.fakes.cluster_files import to_message

from ganeti.placement.cluster.picture import AllocPolicy, Cluster, Disk, Group, Instance, Node, Status
from ganeti.placement.cluster.policy import Policy, Spec

TOOLS = ("hail", "hail-multi")
_DIVISIONS = ((4, 2, 1), (4, 2, 1), (4, 2, 1), (2, 1), (4, 1), (8, 4, 2, 1), (3, 2, 1), (1,))
_MEMORY_MIB, _DISK_MIB, _CPUS, _SPINDLES = 65536, 819200, 16, 24
_SUFFIX = ".example.com"


def cases(seed: int, tools: list[str]) -> list[Case]:
    """What is asked of the cluster of *seed*: a single instance (``hail``), several (``hail-multi``)."""
    return [_case(_Vendor(seed, tool == "hail-multi")) for tool in tools]


def _case(vendor: "_Vendor") -> Case:
    dice, drawing = vendor.dice, vendor.drawing()
    case = Case(drawing.seed, "hail", cluster=drawing.cluster)
    message = to_message(drawing, vendor.request(), dice.pick(("kvm", "fake", "xen-pvm")))
    case.files[REQUEST] = json.dumps(message, indent=1)
    for words, share in (
        (["--no-capacity-checks"], 0.15),
        (["--ignore-soft-errors"], 0.1),
        (["--static-kvm-node-memory", "0"], 0.4),
        (["-S", "saved"], 0.1),
    ):
        case.arguments += words if dice.chance(share) else []
    case.arguments.append(REQUEST)
    return case


class _Vendor:
    """One way to cut up machines, and the machines."""

    def __init__(self, seed: int, several: bool) -> None:
        self.seed, self.several, self.dice = seed, several, Dice(seed * 1000 + 77)
        self.parts = self.dice.pick(_DIVISIONS)
        self.disks = self.dice.pick((1, 1, 1, 2))
        """How many disks an instance has."""
        self.reserve = self.dice.pick((0, 0, 1024, 1))
        """MiB of memory kept off the sizes on sale, so that a node's own use leaves room for all of its parts."""
        self.slack = self.dice.pick((1.0, 1.0, 0.95, 0.8, 0.52, 0.1))
        """A range's lower end as a share of its upper one."""
        self.scarce = self.dice.pick(("all", "all", "memory", "disk", "cpus"))
        """What the sizes on sale differ in."""
        self.named_spindles = self.dice.chance(0.85)
        self.groups = [self._group(number) for number in range(1 if several else self.dice.pick((1, 1, 1, 2, 3)))]
        self.nodes = [self._node(number) for number in range(self.dice.among(2, 4 + 3 * len(self.groups)))]
        self.free = {node.name: list(self._room(node)) for node in self.nodes}
        self.instances = [one for number in range(len(self.nodes) * 2) if (one := self._placed(number))]

    def drawing(self) -> Drawing:
        """The cluster; the nodes report what their instances leave."""
        nodes = [self._filled(node) for node in self.nodes]
        policy = self.groups[0].policy
        cluster = Cluster(nodes=nodes, instances=self.instances, groups=self.groups, policy=policy)
        return Drawing(self.seed, "dedicated", cluster, nodes[0].name, _SUFFIX)

    def request(self) -> dict[str, Any]:
        """Ask for one or several instances of the sizes on sale.

        Several are asked for in the only group, without its name. Of several groups the peer forgets, after the first
        instance, all but the one it took; in a named group it forgets the instance, and gives the same room away again.
        """
        dice = self.dice
        if self.several:
            wanted = [self._wanted(f"new{number}") for number in range(dice.among(1, 6))]
            return {"type": "multi-allocate", "instances": wanted}
        named = {"group_name": dice.pick(self.groups).name} if dice.chance(0.3) else {}
        return {"type": "allocate", **self._wanted("new"), **named}

    def _group(self, number: int) -> Group:
        dice = self.dice
        return Group(
            uuid=f"00000000-0000-4000-8000-{number + 1:012d}",
            name=("default", "east", "west")[number],
            alloc_policy=dice.pick((AllocPolicy.PREFERRED, AllocPolicy.PREFERRED, AllocPolicy.LAST_RESORT))
            if number
            else AllocPolicy.PREFERRED,
            policy=self._policy(),
        )

    def _policy(self) -> Policy:
        highs = [self._size(part) for part in self.parts]
        lows = [self._lower(spec) for spec in highs]
        ranges = list(zip(lows, highs, strict=True))
        if self.dice.chance(0.3):
            ranges.reverse()
        return Policy(
            standard=lows[0],
            ranges=tuple(ranges),
            templates=("drbd", "plain"),
            vcpu_ratio=self.dice.pick((1.0, 1.0, 2.0, 4.0)),
            spindle_ratio=self.dice.pick((1.0, 32.0)),
        )

    def _size(self, part: int) -> Spec:
        memory, disk, cpus = (part if self.scarce in ("all", name) else 8 for name in ("memory", "disk", "cpus"))
        return Spec(
            (_MEMORY_MIB - self.reserve) // memory,
            _CPUS // cpus,
            _DISK_MIB // disk // self.disks,
            self.disks,
            1,
            max(self.disks, _SPINDLES // part),
        )

    def _lower(self, high: Spec) -> Spec:
        return replace(
            high,
            memory_mib=int(high.memory_mib * self.slack),
            disk_mib=int(high.disk_mib * self.slack),
            cpus=max(1, int(high.cpus * self.slack)),
            spindle_use=max(1, int(high.spindle_use * self.slack)),
            disks=self.dice.pick((1, high.disks)),
        )

    def _node(self, number: int) -> Node:
        dice = self.dice
        bigger = dice.pick((1, 1, 1, 1, 2))
        return Node(
            name=f"node{number + 1}{_SUFFIX}",
            group=(self.groups[number] if number < len(self.groups) else dice.pick(self.groups)).uuid,
            total_memory_mib=_MEMORY_MIB * bigger + dice.pick((0, 0, 1, 1024)),
            node_memory_mib=dice.pick((0, 512)),
            total_disk_mib=_DISK_MIB * bigger + dice.pick((0, 1, 1, 4096)),
            total_cpus=_CPUS * bigger,
            node_cpus=dice.pick((0, 0, 1)),
            unavailable="offline" if dice.chance(0.05) else "",
            spindles=_SPINDLES * bigger,
            exclusive_storage=True,
        )

    @staticmethod
    def _room(node: Node) -> tuple[int, int, int, int]:
        memory = int(node.total_memory_mib) - node.node_memory_mib
        return memory, int(node.total_disk_mib), int(node.total_cpus) - node.node_cpus, node.spindles

    def _placed(self, number: int) -> Instance | None:
        """One more instance where it fits, sometimes none."""
        dice = self.dice
        size, template = self._chosen(), "drbd" if dice.chance(0.25) else "plain"
        fitting = [node for node in self.nodes if self._fits(node, size)]
        if not fitting or dice.chance(0.3):
            return None
        primary = dice.pick(fitting)
        mates = [node for node in fitting if node is not primary and node.group == primary.group]
        secondary = dice.pick(mates) if mates and template == "drbd" else None
        spindles = size.spindle_use // size.disks if self.named_spindles else None
        for node in [primary, secondary] if secondary else [primary]:
            free = self.free[node.name]
            free[0] -= size.memory_mib if node is primary else 0
            free[1] -= size.disk_mib * size.disks
            free[2] -= size.cpus if node is primary else 0
            free[3] -= (spindles or 0) * size.disks
        return Instance(
            name=f"inst{number + 1}{_SUFFIX}",
            memory_mib=size.memory_mib,
            disk_mib=size.disk_mib * size.disks,
            vcpus=size.cpus,
            template="drbd" if secondary else "plain",
            disks=(Disk(size.disk_mib, spindles),) * size.disks,
            status=Status.RUNNING if dice.chance(0.9) else Status.ADMIN_DOWN,
            primary=primary.name,
            secondary=secondary.name if secondary else "",
            spindle_use=1,
        )

    def _chosen(self) -> Spec:
        """A size on sale, the smaller ones more often; at its upper or lower end."""
        parts: Sequence[int] = [part for part in self.parts for _ in range(part)]
        size = self._size(self.dice.pick(parts))
        if self.dice.chance(0.3):
            return replace(size, memory_mib=int(size.memory_mib * self.slack), disk_mib=int(size.disk_mib * self.slack))
        return size

    def _fits(self, node: Node, size: Spec) -> bool:
        needed = (size.memory_mib, size.disk_mib * size.disks, size.cpus, size.spindle_use)
        return all(free >= need for free, need in zip(self.free[node.name], needed, strict=True))

    def _filled(self, node: Node) -> Node:
        memory, disk, _, spindles = self.free[node.name]
        for one in self.instances:
            memory += one.memory_mib if one.primary == node.name and not one.uses_memory else 0
        return replace(node, free_memory_mib=memory, free_disk_mib=disk, free_spindles=max(0, spindles))

    def _wanted(self, name: str) -> dict[str, Any]:
        dice, size = self.dice, self._chosen()
        template = "drbd" if dice.chance(0.3) else "plain"
        spindles = {"spindles": max(1, size.spindle_use // size.disks)} if self.named_spindles else {}
        return {
            "name": f"{name}{_SUFFIX}",
            "required_nodes": 2 if template == "drbd" else 1,
            "disk_space_total": size.disk_mib * size.disks + (128 * size.disks if template == "drbd" else 0),
            "disks": [{"mode": "rw", "size": size.disk_mib} | spindles for _ in range(size.disks)],
            "nics": [],
            "vcpus": size.cpus,
            "disk_template": template,
            "memory": size.memory_mib,
            "os": "noop",
            "tags": [],
            "hypervisor": "kvm",
            "spindle_use": dice.pick((1, 1, size.spindle_use)),
        }
