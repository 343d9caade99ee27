# SPDX-License-Identifier: BSD-2-Clause
"""Capacity of a cluster as it would be: the same count as on a cluster that really is so."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ganeti.base.errors import ParameterError
from ganeti.placement.capacity.request import answer
from ganeti.placement.capacity.what_if import suppose
from ganeti.placement.cluster.picture import Cluster, Disk, Group, Instance, Node
from ganeti.placement.request.capacity import Capacity, CapacityParameters, Shape
from ganeti.placement.request.terms import Options, RequestError
from ganeti.placement.request.what_if import WhatIf, read

GIB = 1024
SIZE = CapacityParameters(Shape(4 * GIB, 10 * GIB, 1), "plain")


def node(name: str, group: str = "one", used_mib: int = 0, disk_mib: int = 0) -> Node:
    total, disk = 64 * GIB, 1000 * GIB
    return Node(
        name=name,
        group=group,
        total_memory_mib=float(total),
        free_memory_mib=total - used_mib,
        total_disk_mib=float(disk),
        free_disk_mib=disk - disk_mib,
        total_cpus=32,
        node_cpus=1,
    )


def cluster(*nodes: Node, instances: tuple[Instance, ...] = (), groups: tuple[str, ...] = ("one",)) -> Cluster:
    return Cluster(nodes=nodes, instances=instances, groups=[Group(uuid=name, name=name) for name in groups])


def mirrored(name: str, primary: str, secondary: str) -> Instance:
    return Instance(name, 4 * GIB, 10 * GIB, 1, "drbd", primary, secondary)


def count(found: Cluster, what_if: WhatIf | None = None) -> tuple[dict[str, int], str]:
    counted = answer(found, Capacity(parameters=SIZE, what_if=what_if), Options(capacity_checks=False))
    return {uuid: sum(number for _, number in one.sizes) for uuid, one in counted.groups.items()}, counted.supposed


def test_new_nodes_count_as_nodes_that_are_there() -> None:
    before = cluster(node("a"), node("b"))
    wanted = count(cluster(node("a"), node("b"), node("c"), node("d")))
    assert count(before, read(["2:like=a"], [])) == wanted
    assert count(before, read(["1:memory=64g,disk=1000g,cpus=32", "1:like=b"], [])) == wanted
    assert wanted[0]["one"] == 2 * count(before)[0]["one"]


@pytest.mark.parametrize("asked", ["1:like=a", "1:memory=64g,disk=1000g,cpus=32"])
def test_a_new_node_is_empty_and_usable_whatever_the_one_like_it_is(asked: str) -> None:
    """The node itself needs as much memory as the others of its group."""
    used = replace(node("a", used_mib=6 * GIB, disk_mib=GIB), node_memory_mib=2 * GIB)
    ailing = replace(used, unavailable="offline", tags=("rack1",), cpu_load=3.0)
    new = suppose(cluster(ailing, node("b")), read([asked], [])).cluster.nodes[-1]
    assert (new.free_memory_mib, new.free_disk_mib, new.total_cpus) == (62 * GIB, 1000 * GIB, 32)
    assert (new.unavailable, tuple(new.tags), new.cpu_load) == ("", (), None)


def test_instances_of_a_lost_node_run_elsewhere_and_take_room_there() -> None:
    names = ("a", "b", "c")
    used = {"a": (8, 20), "b": (4, 20), "c": (0, 20)}
    nodes = [node(name, used_mib=used[name][0] * GIB, disk_mib=used[name][1] * GIB) for name in names]
    instances = (mirrored("w1", "a", "b"), mirrored("w2", "a", "c"), mirrored("w3", "b", "c"))
    before = cluster(*nodes, instances=instances)
    supposed = suppose(before, WhatIf(lost=("a",)))
    assert dict((name, {primary, other}) for name, primary, other in supposed.moves) == {
        "w1": {"b", "c"},
        "w2": {"b", "c"},
    }
    assert supposed.moves[0][1] == "b", "it starts where its data is"
    after = [replace(nodes[0], unavailable="offline"), node("b", used_mib=8 * GIB, disk_mib=30 * GIB)]
    after += [node("c", used_mib=4 * GIB, disk_mib=30 * GIB)]
    moved = (mirrored("w1", "b", "c"), mirrored("w2", "c", "b"), mirrored("w3", "b", "c"))
    counted, told = count(before, WhatIf(lost=("a",)))
    assert counted == count(cluster(*after, instances=moved))[0]
    assert told == "2 instances would move, none would stay down"


def test_what_cannot_move_is_named() -> None:
    local = Instance("w1", 4 * GIB, 10 * GIB, 1, "plain", "a")
    both = mirrored("w2", "a", "b")
    before = cluster(node("a"), node("b"), node("c"), instances=(local, both))
    assert suppose(before, WhatIf(lost=("a", "b"))).down == ("w1", "w2")
    assert count(before, WhatIf(lost=("a", "b")))[1] == "0 instances would move, 2 would find no place: w1, w2"
    many = tuple(replace(local, name=f"w{number}") for number in range(7))
    told = count(cluster(node("a"), node("b"), instances=many), WhatIf(lost=("a",)))[1]
    assert told == "0 instances would move, 7 would find no place: w0, w1, w2, w3, w4 and 2 more"


def test_a_lost_group_moves_to_others() -> None:
    before = cluster(node("a"), node("b", "two"), groups=("one", "two"))
    shared = Instance("w1", 4 * GIB, 10 * GIB, 1, "sharedfile", "a", disks=(Disk(10 * GIB),))
    supposed = suppose(replace(before, instances=(shared,)), WhatIf(lost=("one",)))
    assert (supposed.moves, supposed.down) == ((("w1", "b", ""),), ())
    assert count(before, WhatIf(lost=("one",)))[0]["one"] == 0


@pytest.mark.parametrize(
    ("added", "lost", "sentence"),
    [
        (["2"], [], "New nodes cannot be '2': write N:memory=SIZE"),
        (["0:like=a"], [], "their number is from 1 to 1000"),
        (["2:memory=1g,disk=1g,cpus=0"], [], "a node has 1 to 1000 processors"),
        (["2:memory=1g,disk=1g,cpus=1,like=a"], [], "write N:memory=SIZE"),
        (["2:memory=much,disk=1g,cpus=1"], [], "much"),
        (["2:like=z"], [], "There is no node z that new nodes could be like"),
        (["2:memory=1g,disk=1g,cpus=1"], [], "Say which node group .* one of one, two"),
        (["2:memory=1g,disk=1g,cpus=1,group=three"], [], "There is no node group three"),
        ([], ["z"], "There is no node or node group z that could be lost"),
    ],
)
def test_what_makes_no_sense_is_refused(added: list[str], lost: list[str], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        what_if = read(added, lost)
        assert what_if is not None
        suppose(cluster(node("a"), node("b", "two"), groups=("one", "two")), what_if)
    assert issubclass(RequestError, ParameterError)


def test_a_hundred_nodes_are_answered_in_a_second() -> None:
    nodes = [node(f"n{number:03}", used_mib=40 * GIB, disk_mib=200 * GIB) for number in range(100)]
    instances = tuple(mirrored(f"w{k:04}", f"n{k % 100:03}", f"n{(k + 1) % 100:03}") for k in range(1000))
    began_s = time.process_time()
    count(cluster(*nodes, instances=instances), WhatIf(lost=("n003",)))
    assert time.process_time() - began_s < 1.0
