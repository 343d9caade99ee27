# SPDX-License-Identifier: BSD-2-Clause
"""Which nodes with exclusive storage a new instance gets: those where the fewest instances of any size are lost.

The expected losses are those that Debian's hail shows for the same clusters.
"""

from ganeti.placement.cluster.picture import AllocPolicy, Cluster, Disk, Group, Instance, Node
from ganeti.placement.cluster.policy import Policy, Spec
from ganeti.placement.dispatch import answer_request
from ganeti.placement.request.terms import Allocate, Options, Placement

MEMORY_MIB, DISK_MIB, SPINDLES = 65536, 819200, 24
QUARTER, HALF, WHOLE = 4, 2, 1


def size(part: int, disks: int) -> Spec:
    return Spec(MEMORY_MIB // part, 16 // part, DISK_MIB // part, disks, 1, SPINDLES // part)


def node(name: str, quarters: int) -> Node:
    """A machine with so many of its quarters free, and a little more than that."""
    return Node(
        name=name,
        group="u",
        total_memory_mib=MEMORY_MIB + 10,
        node_memory_mib=(4 - quarters) * MEMORY_MIB // 4,
        free_memory_mib=quarters * MEMORY_MIB // 4 + 10,
        total_disk_mib=DISK_MIB + 10,
        free_disk_mib=quarters * DISK_MIB // 4 + 10,
        total_cpus=16,
        spindles=SPINDLES,
        free_spindles=quarters * SPINDLES // 4,
        exclusive_storage=True,
    )


def placed(nodes: list[Node], part: int, disks: dict[int, int]) -> Placement:
    """Where an instance of one size goes, and why; *disks* has the lower end of each range's number of disks."""
    ranges = tuple((size(each, least), size(each, 2)) for each, least in disks.items())
    policy = Policy(ranges[0][0], ranges, ("plain",), 4.0, 32.0)
    cluster = Cluster(nodes=nodes, groups=[Group("u", "default", AllocPolicy.PREFERRED, policy)], policy=policy)
    asked = size(part, 1)
    disk = Disk(asked.disk_mib // disks[part], asked.spindle_use // disks[part])
    instance = Instance(
        name="new",
        memory_mib=asked.memory_mib,
        disk_mib=asked.disk_mib,
        vcpus=asked.cpus,
        template="plain",
        disks=(disk,) * disks[part],
    )
    found = answer_request(cluster, Allocate(instance, 1), Options())
    assert isinstance(found, Placement), found
    return found


def test_a_quarter_leaves_the_half() -> None:
    nodes = [node("whole", 4), node("half", 2), node("three", 3)]
    found = placed(nodes, QUARTER, {QUARTER: 1, HALF: 1, WHOLE: 1})
    assert found.nodes == ("three",)
    assert "score: ([0,0,1],409610)" in found.info


def test_the_number_of_disks_of_a_range_says_nothing_about_its_size() -> None:
    nodes = [node("whole", 4), node("half", 2), node("three", 3)]
    found = placed(nodes, QUARTER, {QUARTER: 1, HALF: 2, WHOLE: 2})
    assert found.nodes == ("three",)
    assert "score: ([0,0,1],409610)" in found.info
