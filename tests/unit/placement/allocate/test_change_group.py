# SPDX-License-Identifier: BSD-2-Clause
"""Which group an instance changes to, and whose failure is asked about before it does."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ganeti.placement.cluster.picture import Cluster, Disk, Group, Instance, Node
from ganeti.placement.dispatch import place
from ganeti.placement.request.terms import ChangeGroup, Moves, Options

OF_3_1, OF_DAEMONS = Options(), Options(existing_errors_fail=False)
MEMORY_MIB = 8192


def guest(name: str, node: str, memory_mib: int, template: str = "sharedfile", secondary: str = "") -> Instance:
    return Instance(
        name=name,
        memory_mib=memory_mib,
        disk_mib=1024,
        vcpus=1,
        template=template,
        primary=node,
        secondary=secondary,
        disks=(Disk(1024),),
    )


def cluster(nodes: Sequence[str], *instances: Instance) -> Cluster:
    """Groups are called as the first letter of their nodes; each node reports what its instances leave."""

    def used(name: str) -> int:
        return sum(one.memory_mib for one in instances if one.primary == name)

    return Cluster(
        nodes=[
            Node(
                name=name,
                group=name[0],
                total_memory_mib=MEMORY_MIB,
                node_memory_mib=0,
                free_memory_mib=MEMORY_MIB - used(name),
                total_disk_mib=100000,
                free_disk_mib=90000,
                total_cpus=8,
                node_cpus=1,
            )
            for name in nodes
        ],
        instances=list(instances),
        groups=[Group(uuid=name, name=name) for name in sorted({node[0] for node in nodes})],
    )


def changed(found: Cluster, options: Options, *targets: str, name: str = "web") -> str:
    """The group that an instance changes to, or why it stays."""
    answer = place(found, ChangeGroup((name,), targets), options=options)
    assert isinstance(answer, Moves)
    if answer.failed:
        assert not answer.moved
        return answer.failed[0][1]
    [(_, group, _)] = answer.moved
    return group


@pytest.mark.parametrize("targets", [(), ("b", "c"), ("c", "b"), ("c", "b", "c")])
def test_of_equal_groups_the_later_one_of_the_cluster_is_taken_whatever_the_order_they_are_named_in(
    targets: tuple[str, ...],
) -> None:
    assert changed(cluster(("a1", "a2", "b1", "b2", "c1", "c2"), guest("web", "a1", 1024)), OF_3_1, *targets) == "c"


def test_sentences_about_groups_come_in_the_order_of_the_cluster() -> None:
    found = cluster(("a1", "b1", "b2", "c1", "c2"), guest("web", "a1", 1024))
    assert changed(found, OF_3_1, "c", "b").split(", Group ")[1].startswith("c ")


@pytest.mark.parametrize("nodes", ["a1 b1 b2", "a1 a2 b1", "a1 b1"])
def test_a_group_of_one_node_is_left_and_entered(nodes: str) -> None:
    """It could lose its node neither before nor after; 3.1 asks it all the same."""
    found = cluster(nodes.split(), guest("web", "a1", 1024))
    assert "FailN1" in changed(found, OF_3_1)
    assert changed(found, OF_DAEMONS) == "b"


def test_a_group_that_can_lose_each_node_is_able_to_afterwards() -> None:
    """Both nodes of b are half full, c has one node: nothing is lost there."""
    other = (guest("one", "b1", 4000), guest("two", "b2", 4000))
    found = cluster(("a1", "a2", "b1", "b2", "c1"), guest("web", "a1", 2048), *other)
    assert "FailN1" in changed(found, OF_DAEMONS, "b")
    assert changed(found, OF_DAEMONS) == "c"
    assert changed(found, replace(OF_DAEMONS, capacity_checks=False), "b") == "b"


def test_a_group_that_cannot_lose_a_node_as_it_is_takes_what_fits() -> None:
    other = (guest("one", "b1", 6000), guest("two", "b2", 4000))
    found = cluster(("a1", "a2", "b1", "b2"), guest("web", "a1", 1024), *other)
    assert "FailN1" in changed(found, OF_3_1)
    assert changed(found, OF_DAEMONS) == "b"


def test_mirrored_instances_leave_a_group_that_cannot_lose_a_node() -> None:
    full = guest("full", "a2", 7000)
    found = cluster(("a1", "a2", "b1", "b2"), guest("web", "a1", 3000, "drbd", "a2"), full)
    assert "FailN1" in changed(found, OF_3_1)
    assert changed(found, OF_DAEMONS) == "b"
