# SPDX-License-Identifier: BSD-2-Clause
"""Small tight clusters, the plain question whether nodes admit an instance, and changes made to the letter.

What `explain` and `nearest` claim is held against this: nothing here knows how they came to it.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ganeti.placement.cluster.lack import Change
from ganeti.placement.cluster.picture import AllocPolicy, Cluster, Disk, Group, Instance, Node, Status
from ganeti.placement.cluster.policy import BUILT_IN_POLICY, Policy, Spec, refusal_by_policy
from ganeti.placement.definition import checks
from ganeti.placement.definition.moves import NOWHERE, PlainCluster, read_plain
from ganeti.placement.request.terms import Allocate, Options

LOCAL, MIRRORED, SHARED = "plain", "drbd", "rbd"


@dataclass(frozen=True)
class Case:
    """One question about one cluster."""

    cluster: Cluster
    request: Allocate
    options: Options


class _Dice(random.Random):
    def often(self, share: float) -> bool:
        return self.random() < share


def build(seed: int, *, mirrored: bool, exclusive: bool = False) -> Case:
    """A cluster of up to six nodes with little room, and a request that is often too large for it."""
    dice = _Dice(seed)
    groups = [_group(dice, number) for number in range(dice.choice((1, 1, 2)))]
    nodes = [_node(dice, number, groups, exclusive) for number in range(dice.randint(2, 6))]
    instances: list[Instance] = []
    for number in range(dice.randint(0, 10)):
        template = MIRRORED if mirrored else dice.choice((LOCAL, SHARED, MIRRORED))
        primary = dice.choice(nodes)
        mates = [node for node in nodes if node.group == primary.group and node is not primary]
        if template == MIRRORED and not mates:
            continue
        secondary = dice.choice(mates).name if template == MIRRORED else ""
        instances.append(_instance(dice, f"inst{number}", template, exclusive, primary.name, secondary))
    nodes = [_loaded(dice, node, instances) for node in nodes]
    tags = ("htools:iextags:service",) if dice.often(0.7) else ()
    cluster = Cluster(nodes, instances, groups, tags)
    template = MIRRORED if mirrored else dice.choice((LOCAL, SHARED))
    request = Allocate(
        _wanted(dice, template, exclusive),
        2 if template == MIRRORED else 1,
        group=dice.choice(groups).name if dice.often(0.3) else "",
        restrict_to=tuple(node.name for node in nodes if dice.often(0.6)) if dice.often(0.2) else None,
    )
    return Case(cluster, request, Options(ignore_soft_errors=dice.often(0.15), capacity_checks=mirrored))


def _group(dice: _Dice, number: int) -> Group:
    low, high = Spec(100, 1, 50, 1, 1, 1), Spec(dice.choice((1000, 2000)), dice.randint(2, 6), 900, 3, 8, 3)
    policy = replace(
        BUILT_IN_POLICY,
        ranges=((low, high),) if dice.often(0.7) else ((low, high), (Spec(1500, 3, 50, 1, 1, 2), Spec(*(3000,) * 6))),
        templates=(LOCAL, MIRRORED, SHARED) if dice.often(0.9) else (LOCAL,),
        vcpu_ratio=dice.choice((1.0, 1.5, 2.0)),
        spindle_ratio=dice.choice((2.0, 3.5, 32.0)),
    )
    return Group(
        uuid=f"uuid{number}",
        name=f"group{number}",
        alloc_policy=dice.choice((AllocPolicy.PREFERRED, AllocPolicy.PREFERRED, AllocPolicy.UNALLOCABLE)),
        policy=policy,
        networks=("lan",) if dice.often(0.8) else (),
    )


def _node(dice: _Dice, number: int, groups: Sequence[Group], exclusive: bool) -> Node:
    return Node(
        name=f"node{number}",
        group=groups[number % len(groups)].uuid,
        total_memory_mib=dice.randint(1500, 4000),
        node_memory_mib=dice.randint(0, 100),
        total_disk_mib=4000,
        free_disk_mib=dice.randint(500, 3000),
        total_cpus=dice.choice((3, 4, 7)),
        node_cpus=1,
        spindles=dice.randint(3, 9) if exclusive else dice.randint(1, 3),
        free_spindles=dice.randint(0, 6),
        exclusive_storage=exclusive,
        unavailable="drained" if dice.often(0.15) else "",
    )


def _instance(
    dice: _Dice, name: str, template: str, exclusive: bool, primary: str = "", secondary: str = ""
) -> Instance:
    size = dice.randint(20, 300)
    return Instance(
        name=name,
        memory_mib=dice.randint(100, 900),
        disk_mib=size,
        vcpus=dice.randint(1, 2),
        template=template,
        primary=primary,
        secondary=secondary,
        disks=(Disk(size, dice.randint(1, 2) if exclusive else None),),
        status=dice.choice((Status.RUNNING,) * 6 + (Status.ADMIN_DOWN, Status.ADMIN_OFFLINE)),
        auto_balance=dice.often(0.85),
        spindle_use=dice.randint(1, 2),
        tags=(f"service:{dice.randint(0, 2)}",) if dice.often(0.5) else (),
    )


def _wanted(dice: _Dice, template: str, exclusive: bool) -> Instance:
    sizes = [dice.choice((30, 200, 700, 1200)) + dice.randint(0, 9) for _ in range(dice.choice((1, 1, 2, 3)))]
    named = exclusive and dice.often(0.8)
    return replace(
        _instance(dice, "new", template, exclusive),
        memory_mib=dice.choice((64, 300, 900, 1700, 3500)) + dice.randint(0, 9),
        vcpus=dice.choice((1, 2, 3, 9)),
        disk_mib=sum(sizes) + (128 if template == MIRRORED else 0),
        disks=tuple(Disk(size, dice.randint(1, 3) if named else None) for size in sizes),
        status=Status.RUNNING if dice.often(0.9) else Status.ADMIN_DOWN,
        auto_balance=dice.often(0.9),
        networks=("lan",) if dice.often(0.5) else (),
    )


def _loaded(dice: _Dice, node: Node, instances: Sequence[Instance]) -> Node:
    """What the node reports once its instances run, with a little that nobody can account for."""
    used = sum(i.memory_mib for i in instances if i.primary == node.name and i.uses_memory)
    lost = dice.choice((0, 0, 37, -20))
    return replace(node, free_memory_mib=int(node.total_memory_mib) - node.node_memory_mib - used - lost)


# the plain question


def admitted(case: Case, nodes: tuple[str, ...]) -> bool:
    """Whether *nodes* (primary first) may take the instance, by the definitions alone."""
    cluster, request, options = case.cluster, case.request, case.options
    numbers = [[node.name for node in cluster.nodes].index(name) for name in nodes]
    groups = {group.uuid: group for group in cluster.groups}
    restrict = request.restrict_to if options.restrict_to is None else options.restrict_to
    for number in numbers:
        node = cluster.nodes[number]
        group = groups[node.group]
        if node.unavailable or (restrict is not None and node.name not in restrict):
            return False
        if request.group and request.group != group.name:
            return False
        if not request.group and group.alloc_policy == AllocPolicy.UNALLOCABLE:
            return False
        if not set(request.instance.networks) <= set(group.networks):
            return False
    picture = read_plain(replace(cluster, instances=[*cluster.instances, request.instance]))
    first = cluster.nodes[numbers[0]]
    instance = request.instance
    if refusal_by_policy(groups[first.group].policy, instance, first.exclusive_storage):
        return False
    if checks.refuse_primary(picture.views[numbers[0]], instance, forced=options.ignore_soft_errors):
        return False
    if len(numbers) > 1 and checks.refuse_secondary(picture.views[numbers[1]], instance, numbers[0]):
        return False
    placed = picture.moved(len(picture.instances) - 1, numbers[0], numbers[1] if len(numbers) > 1 else NOWHERE)
    return _dedicated(case) or not options.capacity_checks or all(_survives(placed, n) for n in _asked(case))


def _dedicated(case: Case) -> bool:
    cluster, name = case.cluster, case.request.group
    groups = [g.uuid for g in cluster.groups if g.name == name or (not name and g.alloc_policy != "unallocable")]
    return all(node.exclusive_storage for node in cluster.nodes if node.group in groups)


def _asked(case: Case) -> Iterator[int]:
    names = {group.uuid: group.name for group in case.cluster.groups}
    for number, node in enumerate(case.cluster.nodes):
        if case.request.group in ("", names[node.group]):
            yield number


def _survives(picture: PlainCluster, node: int) -> bool:
    """Whether all mirrored primaries of *node* can fail over, one after the other, soft limits ignored."""
    numbers = {instance.name: number for number, instance in enumerate(picture.instances)}
    for instance in picture.views[node].primaries:
        number = numbers[instance.name]
        primary, secondary = picture.places[number]
        bare = picture.moved(number, NOWHERE)
        dead = picture.offline(primary)
        if checks.refuse_primary(bare.views[secondary], instance, forced=True):
            return False
        if checks.refuse_secondary(bare.views[primary], instance, secondary, forced=True, ignore_disk=dead):
            return False
        picture = picture.moved(number, secondary, primary)
    return True


# changes to the letter


def after(case: Case, way: Sequence[Change]) -> Case:
    """*case* with every part of *way* made."""
    for change in way:
        case = _made(case, change)
    return case


def _made(case: Case, change: Change) -> Case:
    cluster, request = case.cluster, case.request
    if change.subject == "instance":
        return replace(case, request=replace(request, instance=_resized(request.instance, change)))
    if change.subject == "request":
        if change.constraint == "group":
            return replace(case, request=replace(request, group=str(change.target)))
        names = (*(request.restrict_to or ()), str(change.target))
        return replace(case, request=replace(request, restrict_to=names))
    if change.subject == "group":
        groups = [_regrouped(group, change) if group.name == change.name else group for group in cluster.groups]
        return replace(case, cluster=replace(cluster, groups=groups))
    if change.constraint == "exclusion-tag":
        return replace(case, cluster=_departed(cluster, str(change.target)))
    nodes = [_freed(node, change) if node.name == change.name else node for node in cluster.nodes]
    return replace(case, cluster=replace(cluster, nodes=nodes))


def _resized(instance: Instance, change: Change) -> Instance:
    less = int(change.amount)
    match change.constraint:
        case "memory":
            return replace(instance, memory_mib=instance.memory_mib - less)
        case "vcpus":
            return replace(instance, vcpus=instance.vcpus - less)
        case "spindle-uses":
            return replace(instance, spindle_use=instance.spindle_use - less)
        case "disk":
            sizes = [disk.size_mib for disk in instance.disks]
            for _ in range(abs(less)):
                at = sizes.index(max(sizes)) if less > 0 else sizes.index(min(sizes))
                sizes[at] -= 1 if less > 0 else -1
            disks = tuple(replace(d, size_mib=size) for d, size in zip(instance.disks, sizes, strict=True))
            return replace(instance, disks=disks, disk_mib=instance.disk_mib - less)
    counts = [disk.spindles or 1 for disk in instance.disks]
    wanted = less if change.constraint == "disk-spindles" else sum(counts) - less
    while sum(counts) != wanted:
        at = counts.index(max(counts)) if sum(counts) > wanted else 0
        counts[at] += -1 if sum(counts) > wanted else 1
    return replace(instance, disks=tuple(replace(d, spindles=n) for d, n in zip(instance.disks, counts, strict=True)))


def _freed(node: Node, change: Change) -> Node:
    size = int(change.amount)
    match change.constraint:
        case "memory":
            return replace(
                node, node_memory_mib=node.node_memory_mib - size, free_memory_mib=node.free_memory_mib + size
            )
        case "disk":
            return replace(node, free_disk_mib=node.free_disk_mib + size)
        case "vcpus":
            return replace(node, node_cpus=node.node_cpus - size)
        case "spindles":
            return replace(node, free_spindles=node.free_spindles + size)
        case "availability":
            return replace(node, unavailable="")
    raise AssertionError(f"nobody can free {change}")


def _departed(cluster: Cluster, name: str) -> Cluster:
    """*name* leaves its node for one outside, with its disks."""
    leaving = next(instance for instance in cluster.instances if instance.name == name)
    nodes = []
    for node in cluster.nodes:
        if node.name == leaving.primary:
            local = leaving.template in (LOCAL, MIRRORED)
            node = replace(
                node,
                free_memory_mib=node.free_memory_mib + (leaving.memory_mib if leaving.uses_memory else 0),
                free_disk_mib=node.free_disk_mib + (leaving.disk_mib if local else 0),
                free_spindles=node.free_spindles
                + (sum(disk.spindles or 0 for disk in leaving.disks) if node.exclusive_storage else 0),
            )
        nodes.append(node)
    instances = [instance for instance in cluster.instances if instance.name != name]
    return replace(cluster, nodes=nodes, instances=instances)


_FIELDS = {
    "policy-memory": "memory_mib",
    "policy-disk": "disk_mib",
    "policy-vcpus": "cpus",
    "policy-spindle-uses": "spindle_use",
    "policy-spindles": "spindle_use",
    "policy-disks": "disks",
}


def _regrouped(group: Group, change: Change) -> Group:
    target, policy = change.target, group.policy
    match change.constraint:
        case "network":
            return replace(group, networks=(*group.networks, str(target)))
        case "alloc-policy":
            return replace(group, alloc_policy=AllocPolicy(str(target)))
        case "vcpu-ratio":
            return replace(group, policy=replace(policy, vcpu_ratio=float(target)))
        case "spindle-ratio":
            return replace(group, policy=replace(policy, spindle_ratio=float(target)))
        case "policy-template":
            return replace(group, policy=replace(policy, templates=(*policy.templates, str(target))))
    return replace(group, policy=_widened(policy, _FIELDS[change.constraint], int(target)))


def _widened(policy: Policy, name: str, value: int) -> Policy:
    ranges = tuple(
        (
            replace(low, **{name: min(getattr(low, name), value)}),
            replace(high, **{name: max(getattr(high, name), value)}),
        )
        for low, high in policy.ranges
    )
    return replace(policy, ranges=ranges)


def smaller_ways(way: Sequence[Change]) -> Iterator[tuple[Change, ...]]:
    """*way* with one part left out, or one part smaller by one unit."""
    for at, change in enumerate(way):
        before, rest = tuple(way[:at]), tuple(way[at + 1 :])
        yield (*before, *rest)
        if change.amount and change.constraint not in ("exclusion-tag", "disk-spindles"):
            step = 1 if change.amount > 0 else -1
            yield (*before, replace(change, amount=change.amount - step), *rest)
