# SPDX-License-Identifier: BSD-2-Clause
"""A state that takes from another what both have in common is the state read anew."""

import random
from dataclasses import replace

import pytest

from ganeti.placement.cluster import Cluster, Disk, Group, Instance, Node
from ganeti.placement.state import ClusterState

NODES = 5


def cluster(chance: random.Random, count: int, tags: tuple[str, ...] = ()) -> Cluster:
    nodes = [
        Node(f"n{number}", "g", 9000, 100, 5000 + chance.randrange(999), 90000, 50000, 16, 1) for number in range(NODES)
    ]
    instances = [instance(chance, f"i{number}", tags) for number in range(count)]
    return Cluster(nodes=nodes, instances=instances, groups=[Group("g", "g")], tags=tags)


def instance(chance: random.Random, name: str, tags: tuple[str, ...] = ()) -> Instance:
    first = chance.randrange(NODES)
    second = (first + chance.randrange(1, NODES)) % NODES
    size = chance.randrange(1, 500)
    own = (f"x:{chance.randrange(3)}",) if tags else ()
    return Instance(
        name, size, size, 1, "drbd", f"n{first}", f"n{second}", (Disk(size, chance.choice([None, 1])),), tags=own
    )


def told(state: ClusterState) -> list[object]:
    views = [state.view(number) for number in range(NODES)]
    return [views, state.score(state.everyone()), state.primary_of, state.secondary_of, state.extra_memory]


@pytest.mark.parametrize("tags", [(), ("htools:iextags:x",)])
@pytest.mark.parametrize("seed", range(20))
def test_any_change(seed: int, tags: tuple[str, ...]) -> None:
    chance = random.Random(seed)
    now = cluster(chance, 12, tags)
    state = ClusterState(now)
    for step in range(15):
        instances, nodes = list(now.instances), list(now.nodes)
        kind = chance.randrange(4)
        where = chance.randrange(len(instances) + 1)
        if kind == 0:
            instances.insert(where, instance(chance, f"new{step}", tags))
        elif kind == 1 and instances:
            del instances[where - 1]
        elif kind == 2 and instances:
            instances[where - 1] = instance(chance, instances[where - 1].name, tags)
        else:
            nodes[0] = replace(nodes[0], free_memory_mib=chance.randrange(5000))
        now = replace(now, instances=instances, nodes=nodes)
        state = ClusterState(now, like=state)
        assert told(state) == told(ClusterState(now))
        mark = state.mark()
        state.add_instance(instance(chance, "promised"), 0, 1)
        state.rollback(mark)


def test_other_nodes_have_nothing_in_common() -> None:
    chance = random.Random(1)
    now = cluster(chance, 5)
    state = ClusterState(now)
    turned = replace(now, nodes=list(reversed(now.nodes)))
    assert told(ClusterState(turned, like=state)) == told(ClusterState(turned))
    empty = replace(now, instances=[])
    assert told(ClusterState(empty, like=state)) == told(ClusterState(empty))
    assert told(ClusterState(now, like=ClusterState(empty))) == told(ClusterState(now))
