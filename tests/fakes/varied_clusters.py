# SPDX-License-Identifier: BSD-2-Clause
"""The tight clusters of `tight_clusters` made stranger.

Every disk template, promised instances, location tags, policies that differ, groups of which some have exclusive
storage, requests of many disks or none.
"""

import random
from dataclasses import replace

from tests.fakes.tight_clusters import Case, build

from ganeti.model.templates import TEMPLATES, traits_of
from ganeti.placement.cluster.picture import AllocPolicy, Disk, Group, Instance, Node
from ganeti.placement.cluster.policy import Spec

TAGS = ("htools:iextags:service", "htools:nlocation:rack", "htools:desiredlocation:rack")
UNMIRRORED = tuple(name for name, traits in TEMPLATES.items() if not traits.has_secondary)


def varied(seed: int, *, mirrored: bool) -> Case:
    """One case; whether storage is exclusive is the matter of each group."""
    dice = random.Random(f"varied {seed}")
    case = build(seed, mirrored=mirrored, exclusive=dice.random() < 0.5)
    cluster = case.cluster
    exclusive = {group.uuid: dice.random() < 0.4 for group in cluster.groups}
    nodes = [_node(dice, node, exclusive[node.group]) for node in cluster.nodes]
    storage = {node.name: node.exclusive_storage for node in nodes}
    instances = [_instance(dice, one, mirrored, storage.get(one.primary, False)) for one in cluster.instances]
    changed = replace(
        cluster,
        nodes=nodes,
        instances=instances,
        groups=[_group(dice, group) for group in cluster.groups],
        tags=tuple(tag for tag in TAGS if dice.random() < 0.7),
    )
    wanted = _wanted(dice, case.request.instance, mirrored)
    return replace(case, cluster=changed, request=replace(case.request, instance=wanted))


def _node(dice: random.Random, node: Node, exclusive: bool) -> Node:
    tags = (f"rack:{dice.randint(0, 2)}",) if dice.random() < 0.7 else ()
    spindles = dice.randint(3, 9) if exclusive else dice.randint(0, 3)
    return replace(node, tags=tags, exclusive_storage=exclusive, spindles=spindles, free_spindles=dice.randint(0, 6))


def _group(dice: random.Random, group: Group) -> Group:
    low = Spec(dice.choice((0, 128, 512)), dice.randint(1, 2), dice.choice((0, 40, 300)), 1, 1, dice.randint(1, 3))
    high = Spec(dice.choice((600, 2500)), dice.randint(2, 9), dice.choice((350, 900, 1500)), dice.randint(1, 4), 8, 4)
    ranges = ((low, high),) if dice.random() < 0.7 else ((low, high), *group.policy.ranges)
    templates = tuple(TEMPLATES) if dice.random() < 0.8 else ("plain", "drbd", "diskless")
    policy = replace(group.policy, ranges=ranges, templates=templates)
    alloc_policy = AllocPolicy.LAST_RESORT if dice.random() < 0.2 else group.alloc_policy
    return replace(group, policy=policy, alloc_policy=alloc_policy)


def _instance(dice: random.Random, instance: Instance, mirrored: bool, exclusive: bool) -> Instance:
    disks = tuple(replace(disk, spindles=dice.randint(1, 2) if exclusive else None) for disk in instance.disks)
    template = instance.template
    if not mirrored and not instance.secondary:
        template = dice.choice(UNMIRRORED)
    tags = (*instance.tags, *((f"rack:{dice.randint(0, 3)}",) if dice.random() < 0.4 else ()))
    forthcoming = dice.random() < 0.15
    return replace(instance, template=template, disks=disks, tags=tags, forthcoming=forthcoming)


def _wanted(dice: random.Random, instance: Instance, mirrored: bool) -> Instance:
    template = instance.template if mirrored else dice.choice(UNMIRRORED)
    traits = traits_of(template)
    assert traits is not None
    count = dice.choice((1, 1, 2, 3, 5)) if traits.has_disks else 0
    named = dice.random() < 0.5
    disks = tuple(Disk(dice.randint(20, 700), dice.randint(1, 2) if named else None) for _ in range(count))
    overhead = 128 * count if mirrored else 0
    return replace(
        instance,
        template=template,
        disks=disks,
        disk_mib=sum(disk.size_mib for disk in disks) + overhead,
        spindle_use=dice.randint(1, 3),
        forthcoming=dice.random() < 0.1,
        tags=(*instance.tags, *((f"rack:{dice.randint(0, 3)}",) if dice.random() < 0.4 else ())),
    )
