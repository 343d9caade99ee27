# SPDX-License-Identifier: BSD-2-Clause
"""Random clusters of every kind for placement: the same seed draws the same cluster, on any version of Python.

    python -m tests.fakes.cluster_drawing SEED [KIND] [FILE]      the text format, for a look at what a seed means

A `Drawing` is a `Cluster` with what only files say about it: its master, its measured load. ``cluster_files`` writes
it in the text format and as a message for allocators.
"""

import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ganeti.model.templates import IN_BUILT_IN_POLICY, traits_of
from ganeti.placement.cluster.picture import AllocPolicy, Cluster, Disk, Group, Instance, Node, Status
from ganeti.placement.cluster.policy import BUILT_IN_POLICY, Policy, Spec

Value = TypeVar("Value")

KINDS = (
    "mixed",
    "mirrored",
    "shared",
    "exclusion",
    "locations",
    "migration",
    "groups",
    "policies",
    "offline",
    "full",
    "stopped",
    "spindles",
    "speeds",
    "memory",
    "forthcoming",
    "tiny",
    "equal",
    "zero",
    "load",
    "large",
)
"""What is unusual about a cluster; in a mixed one anything may be."""

_MIXED_SHARE = {
    "exclusion": 0.35,
    "locations": 0.25,
    "migration": 0.2,
    "groups": 0.25,
    "policies": 0.3,
    "offline": 0.4,
    "full": 0.2,
    "stopped": 0.4,
    "spindles": 0.1,
    "speeds": 0.2,
    "memory": 0.3,
    "forthcoming": 0.15,
    "equal": 0.1,
    "zero": 0.05,
    "load": 0.3,
}
_WEIGHTED_TEMPLATES = ("drbd",) * 8 + ("plain", "rbd", "ext", "sharedfile", "file", "diskless", "blockdev", "gluster")
_SHARED_TEMPLATES = ("rbd", "ext", "sharedfile", "blockdev", "gluster", "diskless", "plain", "file")
_STOPPED = (
    Status.ADMIN_DOWN,
    Status.ADMIN_DOWN,
    Status.ADMIN_OFFLINE,
    Status.ERROR_DOWN,
    Status.ERROR_UP,
    Status.ERROR_NODE_DOWN,
    Status.ERROR_NODE_OFFLINE,
    Status.ERROR_WRONG_NODE,
    Status.USER_DOWN,
)


class Dice:
    """Only ``random()`` is used: the rest of `random.Random` changes with versions of Python."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def unit(self) -> float:
        return self._random.random()

    def below(self, count: int) -> int:
        return int(self._random.random() * count)

    def among(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def pick(self, values: Sequence[Value]) -> Value:
        return values[self.below(len(values))]


@dataclass(frozen=True)
class Drawing:
    """A cluster, and what files say beside it. *load* has (cpu, memory, disk, net) by instance name, or is empty."""

    seed: int
    kind: str
    cluster: Cluster
    master: str
    suffix: str
    load: dict[str, tuple[float, float, float, float]] = field(default_factory=dict)

    def with_load(self) -> Cluster:
        """The cluster with the measured load on its instances, and on every third's nodes some of their own."""
        instances = [replace(one, load=self.load.get(one.name, one.load)) for one in self.cluster.instances]
        nodes = self.cluster.nodes
        if self.seed % 3 == 0:
            nodes = [replace(node, cpu_load=number * 7 % 5 / 4) for number, node in enumerate(nodes)]
        return replace(self.cluster, nodes=nodes, instances=instances)


def draw(seed: int, kind: str = "", *, nodes: int = 0, instances: int = -1) -> Drawing:
    """Draw a cluster; without *kind* the seed says which, without *nodes* and *instances* the kind says how many."""
    return _Artist(seed, kind or KINDS[seed % len(KINDS)]).draw(nodes, instances)


class _Artist:
    def __init__(self, seed: int, kind: str) -> None:
        self.dice = Dice(seed * 1000 + KINDS.index(kind))
        self.seed, self.kind = seed, kind
        self.features = {
            name: kind == name or (kind == "mixed" and self.dice.chance(share)) for name, share in _MIXED_SHARE.items()
        }
        self.equal = self.features["equal"]
        self.suffix = self.dice.pick((".example.com", ".example.com", ".cluster.example.org", ""))

    def draw(self, node_count: int, instance_count: int) -> Drawing:
        node_count = node_count or self._node_count()
        groups = self._groups(node_count)
        nodes = [self._node(number, groups) for number in range(node_count)]
        instances = self._instances(nodes, self._instance_count(node_count) if instance_count < 0 else instance_count)
        nodes = [self._filled(node, instances) for node in nodes]
        policy = self._policy() if self.features["policies"] and self.dice.chance(0.5) else BUILT_IN_POLICY
        cluster = Cluster(nodes=nodes, instances=instances, groups=groups, tags=self._cluster_tags(), policy=policy)
        load = {one.name: self._load() for one in instances if self.dice.chance(0.9)} if self.features["load"] else {}
        online = [node.name for node in nodes if not node.unavailable]
        return Drawing(self.seed, self.kind, cluster, online[0] if online else "", self.suffix, load)

    def _node_count(self) -> int:
        if self.kind == "tiny":
            return self.dice.among(1, 4)
        if self.kind == "large":
            return self.dice.among(16, 30)
        return self.dice.among(3, 9) + (3 if self.features["groups"] else 0)

    def _instance_count(self, nodes: int) -> int:
        if self.kind == "tiny" and self.dice.chance(0.15):
            return 0
        return self.dice.among(nodes, nodes * (5 if self.features["full"] else 4))

    def _cluster_tags(self) -> list[str]:
        tags = ["owner:nobody"] if self.dice.chance(0.2) else []
        if self.features["exclusion"] or self.features["locations"]:
            tags += ["htools:iextags:service", "htools:iextags:site"][: self.dice.among(1, 2)]
        if self.features["locations"]:
            tags += ["htools:nlocation:rack", "htools:nlocation:power"][: self.dice.among(1, 2)]
            tags += ["htools:desiredlocation:rack"] if self.dice.chance(0.6) else []
        if self.features["migration"]:
            tags += ["htools:migration:os", "htools:migration:cpu"][: self.dice.among(1, 2)]
            tags += ["htools:allowmigration:os:a::os:b"] if self.dice.chance(0.6) else []
        return tags

    def _groups(self, nodes: int) -> list[Group]:
        count = self.dice.among(2, 3) if self.features["groups"] and nodes > 1 else 1
        return [
            Group(
                uuid=f"00000000-0000-4000-8000-{number + 1:012d}",
                name=("default", "east", "west")[number],
                alloc_policy=self.dice.pick((AllocPolicy.PREFERRED, AllocPolicy.PREFERRED, *AllocPolicy))
                if count > 1
                else AllocPolicy.PREFERRED,
                policy=self._policy() if self.features["policies"] else BUILT_IN_POLICY,
                tags=("standby",) if self.dice.chance(0.1) else (),
            )
            for number in range(count)
        ]

    def _policy(self) -> Policy:
        dice = self.dice
        small = Spec(dice.pick((64, 128, 512)), 1, dice.pick((512, 1024, 8192)), dice.pick((0, 1)), 1, 1)
        large = Spec(dice.pick((1024, 4096, 32768)), dice.pick((2, 4, 8)), 1048576, dice.pick((1, 2, 16)), 8, 12)
        ranges = [(small, large)]
        if dice.chance(0.25):
            ranges.append((large, Spec(65536, 16, 2097152, 16, 8, 24)))
        names = (
            [name for name in IN_BUILT_IN_POLICY if dice.chance(0.7)] if dice.chance(0.4) else list(IN_BUILT_IN_POLICY)
        )
        return Policy(
            standard=Spec(dice.pick((512, 1024)), 1, dice.pick((8192, 10240)), 1, 1, 1),
            ranges=tuple(ranges),
            templates=tuple(names) or ("drbd",),
            vcpu_ratio=dice.pick((1.0, 1.5, 2.0, 4.0, 10.0)),
            spindle_ratio=dice.pick((3.0, 5.5, 8.0, 32.0)),
        )

    def _node(self, number: int, groups: Sequence[Group]) -> Node:
        dice = self.dice
        varied = not self.equal and dice.chance(0.4)
        memory = dice.pick((8192, 16384, 24576, 32768)) if varied else 16384
        disk = dice.pick((204800, 409600, 819200)) if varied else 409600
        if self.features["zero"] and dice.chance(0.3):
            memory, disk = dice.pick(((0, disk), (memory, 0), (0, 0)))
        away = self.features["offline"] and dice.chance(0.25)
        return Node(
            name=f"{self._node_stem(number)}{self.suffix}",
            group=groups[dice.below(len(groups))].uuid if number >= len(groups) else groups[number].uuid,
            total_memory_mib=memory + (dice.among(0, 900) if dice.chance(0.2) and not self.equal else 0),
            node_memory_mib=dice.pick((0, 512, 1023)) if not self.equal else 512,
            total_disk_mib=disk,
            total_cpus=dice.pick((4, 8, 16)) if varied else 8,
            node_cpus=dice.pick((0, 1, 2)) if varied else 1,
            unavailable=("offline" if dice.chance(0.6) else "drained") if away else "",
            spindles=(dice.among(8, 40) if self.features["spindles"] else dice.pick((1, 1, 2, 4)) if varied else 1),
            exclusive_storage=self.features["spindles"] and (self.kind == "spindles" or dice.chance(0.7)),
            cpu_speed=dice.pick((0.5, 0.8, 1.0, 1.3, 2.0)) if self.features["speeds"] else 1.0,
            tags=self._node_tags(),
        )

    def _node_stem(self, number: int) -> str:
        return f"node{number + 1}" if self.seed % 3 else ("n" * (1 + number % 3)) + str(number)

    def _node_tags(self) -> tuple[str, ...]:
        dice, tags = self.dice, []
        if self.features["locations"] and dice.chance(0.85):
            tags.append(f"rack:{dice.below(3)}")
            tags += [f"power:{dice.pick('ab')}"] if dice.chance(0.6) else []
        if self.features["migration"]:
            tags += [f"os:{dice.pick('abc')}"] if dice.chance(0.6) else []
            tags += [f"cpu:{dice.pick(('old', 'new'))}"] if dice.chance(0.3) else []
        tags += ["htools:standby:auto"] if dice.chance(0.05) else []
        return tuple(tags)

    def _instances(self, nodes: Sequence[Node], count: int) -> list[Instance]:
        placer = _Placer(self.dice, nodes, self.features["full"])
        return [placer.place(self._instance(number)) for number in range(count)]

    def _instance(self, number: int) -> Instance:
        dice = self.dice
        template = "drbd"
        if self.kind == "shared":
            template = dice.pick(_SHARED_TEMPLATES)
        elif self.kind not in ("mirrored", "equal"):
            template = dice.pick(_WEIGHTED_TEMPLATES)
        status, uncommon = Status.RUNNING, self.features["stopped"]
        if dice.chance(0.4 if uncommon else 0.05):
            status = dice.pick(_STOPPED)
        disk = 10240 if self.equal else dice.pick((1024, 10240, 10368, 20480, 40960, 3000))
        named = self.features["spindles"] and (dice.chance(0.9) or self.features["forthcoming"])
        spindles = dice.among(1, 3) if named else None
        traits = traits_of(template)
        has_disks = traits is not None and traits.has_disks
        return Instance(
            name=f"{dice.pick(('inst', 'web', 'db'))}{number + 1}{self.suffix}",
            memory_mib=1024 if self.equal else dice.pick((128, 512, 1000, 1024, 2048, 4096)),
            disk_mib=disk if has_disks else 0,
            vcpus=1 if self.equal else dice.pick((1, 1, 2, 4)),
            template=template,
            disks=(Disk(disk, spindles),) if has_disks else (),
            status=status,
            auto_balance=not dice.chance(0.2 if uncommon else 0.05),
            spindle_use=1 if self.equal else dice.pick((1, 1, 1, 2, 3)),
            forthcoming=self.features["forthcoming"] and dice.chance(0.25),
            tags=self._instance_tags(),
        )

    def _instance_tags(self) -> tuple[str, ...]:
        dice, tags = self.dice, []
        if self.features["exclusion"] or self.features["locations"]:
            tags += [f"service:{dice.pick(('dns', 'web', 'mail'))}"] if dice.chance(0.4) else []
            tags += [f"site:{dice.below(4)}"] if dice.chance(0.3) else []
        if self.features["locations"] and dice.chance(0.4):
            tags.append(f"rack:{dice.below(3)}")
        tags += ["owner:somebody"] if dice.chance(0.1) else []
        return tuple(tags)

    def _load(self) -> tuple[float, float, float, float]:
        dice = self.dice
        if dice.chance(0.5):
            return (dice.below(9) / 4, dice.below(9) / 4, dice.below(9) / 4, dice.below(9) / 4)
        return (round(dice.unit(), 3), round(dice.unit() * 2, 2), round(dice.unit() / 3, 4), round(dice.unit(), 1))

    def _filled(self, node: Node, instances: Sequence[Instance]) -> Node:
        """What the node reports as free with its instances on it, sometimes not what it should be."""
        primaries = [one for one in instances if one.primary == node.name]
        here = [one for one in instances if node.name in (one.primary, one.secondary) and not one.forthcoming]
        used = sum(one.memory_mib for one in primaries if one.uses_memory)
        local = [one for one in here if (traits := traits_of(one.template)) is not None and traits.uses_node_disk]
        free = max(0, math.trunc(node.total_memory_mib) - node.node_memory_mib - used)
        disk = max(0, math.trunc(node.total_disk_mib) - sum(one.disk_mib for one in local))
        if self.features["memory"] and self.dice.chance(0.5):
            free = max(0, free - self.dice.pick((-600, -100, 1, 100, 400, 700, 1500)))
            disk = max(0, disk - self.dice.pick((0, 0, 100, 1500, 5000)))
        spindles = node.spindles - sum(one.total_spindles or 0 for one in local) if node.exclusive_storage else 0
        return replace(node, free_memory_mib=free, free_disk_mib=disk, free_spindles=max(0, spindles))


class _Placer:
    """Puts instances on nodes that have room, some nodes being far more popular; *careless* ones also where none is."""

    def __init__(self, dice: Dice, nodes: Sequence[Node], careless: bool) -> None:
        self._dice, self._nodes, self._careless = dice, nodes, careless
        self._memory = {node.name: node.total_memory_mib - node.node_memory_mib for node in nodes}
        self._disk = {node.name: node.total_disk_mib for node in nodes}
        self._weights = {node.name: (1.0 - dice.unit()) ** 2.5 + 0.02 for node in nodes}

    def place(self, instance: Instance) -> Instance:
        primary = self._choose(self._nodes, instance, instance.memory_mib)
        if traits_of(instance.template).has_secondary:  # type: ignore[union-attr]
            mates = [node for node in self._nodes if node.name != primary.name]
            same = [node for node in mates if node.group == primary.group]
            split = not same or self._dice.chance(0.02)
            if not mates:
                return replace(instance, template="plain", primary=primary.name)
            secondary = self._choose(mates if split else same, instance, 0)
            return replace(instance, primary=primary.name, secondary=secondary.name)
        return replace(instance, primary=primary.name)

    def _choose(self, nodes: Sequence[Node], instance: Instance, memory_mib: int) -> Node:
        node = self._pick(nodes)
        for _ in range(0 if self._careless and self._dice.chance(0.4) else 12):
            if self._memory[node.name] > memory_mib and self._disk[node.name] > instance.disk_mib:
                break
            node = self._dice.pick(nodes)
        self._memory[node.name] -= memory_mib
        self._disk[node.name] -= instance.disk_mib
        return node

    def _pick(self, nodes: Sequence[Node]) -> Node:
        left = self._dice.unit() * sum(self._weights[node.name] for node in nodes)
        for node in nodes:
            left -= self._weights[node.name]
            if left < 0:
                return node
        return nodes[-1]


if __name__ == "__main__":
    from tests.fakes.cluster_files import to_text

    drawing = draw(int(sys.argv[1]), *sys.argv[2:3])
    sys.stdout.write(to_text(drawing))
