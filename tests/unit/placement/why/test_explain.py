# SPDX-License-Identifier: BSD-2-Clause
"""Every node that was not chosen gets a sentence with its numbers."""

from dataclasses import replace

import pytest

from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.picture import AllocPolicy, Cluster, Disk, Group, Instance, Node
from ganeti.placement.dispatch import place
from ganeti.placement.request.terms import Allocate, NoFit, Placement, Relocate
from ganeti.placement.why.text import failure_lines

GROUP = Group(uuid="g1", name="default")


def node(name: str, free: int = 8192, **changes: object) -> Node:
    base = Node(
        name=name,
        group="g1",
        total_memory_mib=16384,
        node_memory_mib=0,
        free_memory_mib=free,
        total_disk_mib=100000,
        free_disk_mib=50000,
        total_cpus=4,
        node_cpus=1,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def instance(name: str = "web", template: str = "sharedfile", **changes: object) -> Instance:
    base = Instance(name=name, memory_mib=4096, disk_mib=2048, vcpus=1, template=template, disks=(Disk(2048),))
    return replace(base, **changes)  # type: ignore[arg-type]


def cluster(*nodes: Node, instances: tuple[Instance, ...] = (), groups: tuple[Group, ...] = (GROUP,)) -> Cluster:
    return Cluster(nodes=nodes, instances=instances, groups=groups)


def sentences(answer: object) -> dict[str, str]:
    assert isinstance(answer, Placement | NoFit)
    return {refusal.node: refusal.sentence for refusal in answer.refusals}


def test_the_sentence_names_the_numbers() -> None:
    answer = place(cluster(node("node1"), node("node2", free=1024), node("node3")), Allocate(instance()))
    assert isinstance(answer, Placement)
    assert sentences(answer)["node2"] == "needs 4,096 MiB of memory, 1,024 MiB free"
    assert [r.mode for r in answer.refusals if r.node == "node2"] == [FailMode.FailMem]


def test_nodes_that_take_nothing_say_what_they_are() -> None:
    answer = place(cluster(node("node1"), node("node2", unavailable="drained"), node("node3")), Allocate(instance()))
    assert sentences(answer)["node2"] == "is drained"


def test_when_nothing_fits_every_node_is_explained() -> None:
    small = [node(f"node{number}", free=1000 + number) for number in range(3)]
    answer = place(cluster(*small), Allocate(instance()))
    assert isinstance(answer, NoFit)
    assert answer.info.endswith("No valid allocation solutions, failure reasons: FailMem: 3")
    assert [str(refusal) for refusal in answer.refusals[:2]] == [
        "node0: needs 4,096 MiB of memory, 1,000 MiB free; fits with 3,097 MiB less memory",
        "node1: needs 4,096 MiB of memory, 1,001 MiB free; fits with 3,096 MiB less memory",
    ]
    assert failure_lines(answer) == [
        "Nearest fit: node2, with 3,096 MiB less memory",
        "All 3 nodes have too little memory",
        "What fits now: 1,000 MiB of memory on node2",
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"vcpus": 30},
            "the policy allows at most 8 vcpus, the instance has 30; needs 30 vcpus, 1 of 16 allowed are in use",
        ),
        ({"memory_mib": 64}, "the policy asks for at least 128 MiB of memory, the instance has 64 MiB"),
        ({"disks": (Disk(512),)}, "the policy asks for at least 1,024 MiB in a disk, the instance has 512 MiB"),
    ],
)
def test_policy_speaks_before_the_node(changes: dict[str, object], sentence: str) -> None:
    answer = place(cluster(node("node1"), node("node2")), Allocate(instance(**changes)))
    assert set(sentences(answer).values()) == {sentence}


def test_exclusion_tags() -> None:
    other = instance("other", memory_mib=512, primary="node1", tags=("service:a",))
    picture = replace(cluster(node("node1"), node("node2"), instances=(other,)), tags=("htools:iextags:service",))
    answer = place(picture, Allocate(instance(tags=("service:a",))))
    assert sentences(answer)["node1"] == "has instance other with the same exclusion tag service:a"


def test_processors() -> None:
    busy = instance("busy", memory_mib=512, vcpus=8, primary="node1")
    full = instance("full", memory_mib=512, vcpus=7, primary="node1")
    answer = place(cluster(node("node1"), node("node2"), instances=(busy, full)), Allocate(instance()))
    assert sentences(answer)["node1"] == "needs 1 vcpu, 16 of 16 allowed are in use"


def test_groups() -> None:
    groups = (GROUP, replace(GROUP, uuid="g2", name="closed", alloc_policy=AllocPolicy.UNALLOCABLE))
    nodes = (node("node1"), node("node2", group="g2"), node("node3"))
    assert sentences(place(cluster(*nodes, groups=groups), Allocate(instance())))["node2"] == (
        "its group closed is unallocable; the failure of node2 could not be absorbed: its group has no other node"
    )
    named = place(cluster(*nodes, groups=groups), Allocate(instance(), group="closed"))
    assert sentences(named)["node1"] == "is in group default, asked for was closed"


def test_a_pair_is_explained_for_both_roles() -> None:
    nodes = (node("node1"), node("node2"), node("node3", free=2048))
    answer = place(cluster(*nodes), Allocate(instance(template="drbd"), required_nodes=2))
    assert sentences(answer)["node3"] == (
        "as primary needs 4,096 MiB of memory, 2,048 MiB free; "
        "as secondary needs 4,096 MiB of memory in reserve, 2,048 MiB free"
    )


def test_relocation() -> None:
    nodes = (node("node1", free=4096), node("node2"), node("node3", free=1024), node("node4", unavailable="offline"))
    answer = place(cluster(*nodes, instances=(instance(primary="node1"),)), Relocate("web", ("node1",)))
    assert isinstance(answer, Placement)
    assert answer.nodes == ("node2",)
    assert sentences(answer) == {
        "node1": "is already the primary",
        "node3": "needs 4,096 MiB of memory, 1,024 MiB free",
        "node4": "is offline",
    }


def test_reservations_take_their_room() -> None:
    picture = cluster(node("node1"), node("node2", free=5000))
    first = place(picture, Allocate(instance("one")))
    assert isinstance(first, Placement)
    promised = instance("one", primary=first.nodes[0])
    second = place(picture, Allocate(instance("two", memory_mib=4500)), reservations=[promised])
    assert isinstance(second, NoFit | Placement)
    assert first.nodes[0] not in getattr(second, "nodes", ())
