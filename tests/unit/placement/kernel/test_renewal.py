# SPDX-License-Identifier: BSD-2-Clause
"""A state that follows its cluster is the state read anew."""

import random
from dataclasses import replace

import pytest
from tests.fakes.state_facts import state_facts

from ganeti.base.errors import ParameterError
from ganeti.placement.cluster.picture import Cluster, Disk, Group, Instance, Node
from ganeti.placement.kernel.lost_policies import lost_policies
from ganeti.placement.kernel.renewal import Renewal
from ganeti.placement.kernel.state import ClusterState

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
    template, pair = ("drbd", f"n{second}") if chance.randrange(4) else ("plain", "")
    disks = (Disk(size, chance.choice([None, 1])),)
    load = (chance.random(), 1.0, chance.random(), 1.0)
    return Instance(name, size, size, 1, template, f"n{first}", pair, disks, tags=own, load=load)


def follow(renewal: Renewal, before: Cluster, now: Cluster) -> None:
    """Tell a renewal what is different between two clusters."""
    old, new = ({instance.name: instance for instance in cluster.instances} for cluster in (before, now))
    gone = [name for name in old if new.get(name) != old[name]]
    come = [instance for instance in now.instances if old.get(instance.name) != instance]
    nodes = [node for node, other in zip(now.nodes, before.nodes, strict=True) if node != other]
    renewal.follow(gone, come, nodes)


@pytest.mark.parametrize("tags", [(), ("htools:iextags:x",)])
@pytest.mark.parametrize("seed", range(40))
def test_any_change(seed: int, tags: tuple[str, ...]) -> None:
    chance = random.Random(seed)
    now = cluster(chance, 9, tags)
    state = ClusterState(now)
    renewal = Renewal(state)
    for step in range(20):
        instances, nodes = {one.name: one for one in now.instances}, list(now.nodes)
        for _ in range(chance.randrange(1, 4)):
            kind, name = chance.randrange(4), chance.choice([*instances, "i0"])
            if kind == 0:
                instances[f"i{step}x"] = instance(chance, f"i{step}x", tags)
            elif kind == 1:
                instances.pop(name, None)
            elif kind == 2:
                instances[name] = instance(chance, name, tags)
            else:
                where = chance.randrange(NODES)
                free, silence = chance.randrange(5000), chance.choice(["", "", "not answering"])
                nodes[where] = replace(nodes[where], free_memory_mib=free, unavailable=silence)
        before, now = now, replace(now, instances=[instances[name] for name in sorted(instances)], nodes=nodes)
        follow(renewal, before, now)
        assert state_facts(state) == state_facts(ClusterState(now))
        mark = state.mark()
        state.add_instance(instance(chance, "promised", tags), 0, 1)
        lost_policies(state)
        state.rollback(mark)
        assert state_facts(state) == state_facts(ClusterState(now))


def test_the_order_is_that_of_the_names() -> None:
    chance = random.Random(1)
    before = cluster(chance, 6)
    state = ClusterState(before)
    now = replace(before, instances=before.instances[1:])
    follow(Renewal(state), before, now)
    names = [state.instances[number].name for number in state.in_order(range(len(state.instances)))]
    assert names == [one.name for one in now.instances]
    assert state.instances[0].name != "i1"


def test_beyond_reason() -> None:
    chance = random.Random(1)
    now = cluster(chance, 3)
    node = replace(now.nodes[0], free_memory_mib=1 << 70)
    with pytest.raises(ParameterError, match="beyond reason"):
        Renewal(ClusterState(now)).follow([], [], [node])
