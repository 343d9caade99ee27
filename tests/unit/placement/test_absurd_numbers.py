# SPDX-License-Identifier: BSD-2-Clause
"""Clusters nobody has: the search ends and stays within its arrays."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.cluster_drawing import draw

from ganeti.placement.cluster.picture import Cluster, Disk, Instance, Node, Status
from ganeti.placement.cluster.policy import BUILT_IN_POLICY
from ganeti.placement.kernel.searches import best_exchange, failing_nodes
from ganeti.placement.kernel.state import ClusterState


def cluster_of(nodes: int, vcpu_ratio: float, spindle_ratio: float) -> tuple[Cluster, list[Node]]:
    drawn = draw(5, "mirrored", nodes=nodes, instances=1).cluster
    policy = replace(BUILT_IN_POLICY, vcpu_ratio=vcpu_ratio, spindle_ratio=spindle_ratio)
    group = replace(drawn.groups[0], policy=policy)
    own = [
        replace(node, group=group.uuid, exclusive_storage=False, unavailable="", tags=(), spindles=1)
        for node in drawn.nodes
    ]
    instance = replace(
        drawn.instances[0],
        name="i",
        template="drbd",
        primary=own[0].name,
        secondary=own[2].name,
        memory_mib=128,
        disk_mib=1024,
        disks=(Disk(1024, None),),
        spindle_use=1,
        forthcoming=False,
    )
    return replace(drawn, groups=[group], nodes=own, instances=[instance]), own


def test_squares_beyond_the_largest_number_leave_all_pairs_to_be_tried() -> None:
    """A tiny spindle ratio makes values whose squares are infinite, and their differences no numbers."""
    cluster, own = cluster_of(24, 4.0, 1e-160)
    spindles = [number + 1 if number % 2 else 10**18 // (number + 1) for number in range(len(own))]
    nodes = [replace(node, spindles=count) for node, count in zip(own, spindles, strict=True)]
    state = ClusterState(replace(cluster, nodes=nodes))
    members = state.everyone()
    targets = [node for node in members if node not in (0, 2)]
    assert best_exchange(state, 0, targets, members, forced=True).failure == 0


HUGE = """\
g|gu|preferred||

n0|16384|512|15872|819200|819200|885201374141041792|N|gu|2
n1|16384|0|6656|409600|314312|8|N|gu|1
n2|16384|1023|8217|409600|263112|8|N|gu|1
n3|33148|0|33148|819200|819200|4|N|gu|2

i1|1000|20480|1|running|Y|n1|n2|drbd||2
i2|4096|10240|1|running|Y|n1|n2|drbd||2
i3|1024|10368|1|running|Y|n1|n2|drbd||1


g|128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|diskless,plain,drbd|0.1|32.0
"""


def test_a_node_of_more_cpus_than_can_be_counted_one_by_one_is_searched(tmp_path: Path) -> None:
    """In a process of its own, since it did not end."""
    (tmp_path / "huge.data").write_text(HUGE)
    command = [sys.executable, "-c", "from ganeti.tools.htools.programs.hbal import main; main(['-t', 'huge.data'])"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "Loaded 4 nodes, 3 instances" in done.stdout, done.stderr


def promised(name: str, memory_mib: int, node: str, template: str = "plain", secondary: str = "") -> Instance:
    return Instance(
        name=name,
        memory_mib=memory_mib,
        disk_mib=1024,
        vcpus=1,
        template=template,
        primary=node,
        secondary=secondary,
        disks=(Disk(1024, None),),
        status=Status.RUNNING,
        auto_balance=True,
        spindle_use=1,
        forthcoming=False,
        tags=(),
        load=(1.0,) * 4,
    )


@pytest.mark.parametrize("turned", [False, True])
def test_a_promise_that_changes_before_one_that_stays_is_noticed(turned: bool) -> None:
    """Guests that arrive turn their promise to no memory; later promises are the same objects as before."""
    cluster, own = cluster_of(4, 4.0, 32.0)
    empty = replace(cluster, instances=[])
    a, b, c = (node.name for node in own[:3])
    stays = promised("b", 1024, b)
    stories = [promised("a", 1024, a), promised("a", 0, a), promised("a", 1024, a, "drbd", c)]
    state = ClusterState(empty)

    def failing(of: ClusterState, first: Instance) -> list[int]:
        mark = of.mark()
        for instance in (first, stays):
            of.add_instance(instance, *(of.node_number[n] for n in (instance.primary, instance.secondary) if n))
        found = failing_nodes(of, of.everyone(), of.everyone())
        of.rollback(mark)
        return list(found)

    for first in reversed(stories) if turned else stories:
        assert failing(state, first) == failing(ClusterState(empty), first)
