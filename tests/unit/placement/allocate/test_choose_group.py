# SPDX-License-Identifier: BSD-2-Clause
"""Which node group a new instance goes to, by the allocation policies of the groups."""

from dataclasses import replace

import pytest

from ganeti.placement.cluster.picture import AllocPolicy, Cluster, Disk, Group, Instance, Node
from ganeti.placement.dispatch import place
from ganeti.placement.request.terms import Allocate, NoFit, Placement


def group_of(name: str, policy: AllocPolicy, free_mib: int) -> tuple[Group, list[Node]]:
    """Give a group of two equal nodes."""
    nodes = [
        Node(
            name=f"{name}{number}",
            group=name,
            total_memory_mib=16384,
            node_memory_mib=0,
            free_memory_mib=free_mib,
            total_disk_mib=100000,
            free_disk_mib=50000,
            total_cpus=4,
            node_cpus=1,
        )
        for number in (1, 2)
    ]
    return Group(uuid=name, name=name, alloc_policy=policy), nodes


def chosen(*groups: tuple[Group, list[Node]]) -> str | None:
    """Give the group of the node that an instance of 4 GiB gets."""
    nodes = tuple(node for _, members in groups for node in members)
    cluster = Cluster(nodes=nodes, instances=(), groups=tuple(group for group, _ in groups))
    wanted = Instance(name="web", memory_mib=4096, disk_mib=2048, vcpus=1, template="sharedfile", disks=(Disk(2048),))
    answer = place(cluster, Allocate(wanted))
    assert isinstance(answer, Placement | NoFit)
    return answer.nodes[0][:-1] if isinstance(answer, Placement) else None


@pytest.mark.requirement("S1.20")
def test_an_unallocable_group_is_never_chosen() -> None:
    closed = group_of("closed", AllocPolicy.UNALLOCABLE, 16000)
    assert chosen(closed) is None
    assert chosen(closed, group_of("usual", AllocPolicy.PREFERRED, 6000)) == "usual"
    assert chosen(closed, group_of("usual", AllocPolicy.PREFERRED, 1000)) is None


@pytest.mark.requirement("S1.21", "S1.22", "S1.23")
def test_a_last_resort_is_chosen_where_no_preferred_group_has_room() -> None:
    last = group_of("last", AllocPolicy.LAST_RESORT, 16000)
    assert chosen(last, group_of("usual", AllocPolicy.PREFERRED, 6000)) == "usual"
    assert chosen(last, group_of("usual", AllocPolicy.PREFERRED, 1000)) == "last"
    assert chosen(last) == "last"


def test_what_its_nodes_have_lost_is_placed_again() -> None:
    """Both nodes of two mirrored instances are offline: making one again needs not absorb what has happened."""
    group, nodes = group_of("usual", AllocPolicy.PREFERRED, 12000)
    _, more = group_of("lost", AllocPolicy.PREFERRED, 12000)
    nodes += [replace(node, group="usual", unavailable="offline", free_memory_mib=0) for node in more]
    lost = [
        Instance(
            name=name,
            memory_mib=4096,
            disk_mib=2048,
            vcpus=1,
            template="drbd",
            disks=(Disk(2048),),
            primary="lost1",
            secondary="lost2",
        )
        for name in ("web1", "web2")
    ]
    cluster = Cluster(nodes=tuple(nodes), instances=tuple(lost), groups=(group,))
    again = replace(lost[0], primary="", secondary="")
    answer = place(cluster, Allocate(again, required_nodes=2))
    assert isinstance(answer, Placement) and sorted(answer.nodes) == ["usual1", "usual2"]
    new = place(cluster, Allocate(replace(again, name="web3"), required_nodes=2))
    assert isinstance(new, NoFit) and "FailN1" in new.info
