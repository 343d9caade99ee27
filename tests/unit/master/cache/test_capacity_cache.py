# SPDX-License-Identifier: BSD-2-Clause
"""What is kept of capacity, and which groups a commit concerns."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.master.cache.capacity_cache import CapacityCache, groups_concerned, is_less
from ganeti.master.cache.node_reports import NodeReport, Space, silent
from ganeti.model.capacity import Capacity
from ganeti.model.configuration import Configuration
from ganeti.model.objects import Network, NodeGroup
from ganeti.model.reservations import Reservation

ONE, TWO = "uuid-group1", "uuid-group2"
CAPACITY = Capacity({"tspecs": []}, 5.0)
QUESTION = {"iallocator": "hail"}
RESERVATION = Reservation(instance="x", nodes=["uuid-node1"], memory_mib=1)


def kept() -> CapacityCache:
    cache = CapacityCache()
    assert cache.keep(ONE, QUESTION, CAPACITY, begun=cache.begin(), reservations=[RESERVATION], asked_at_s=10.0)
    return cache


@pytest.mark.parametrize(
    ("found", "question", "reservations", "now_s"),
    [
        (True, QUESTION, [], 10.0),
        (True, QUESTION, [RESERVATION], 3609.0),
        (False, QUESTION, [], 3610.0),
        (False, {"iallocator": "mine"}, [], 10.0),
        (False, QUESTION, [replace(RESERVATION, memory_mib=2)], 10.0),
        (False, QUESTION, [RESERVATION, replace(RESERVATION, instance="y")], 10.0),
    ],
)
def test_what_counts(found: bool, question: Any, reservations: list[Reservation], now_s: float) -> None:
    cache = kept()
    assert (cache.find(ONE, question, reservations, now_s) == CAPACITY) is found
    assert (cache.find(ONE, QUESTION, [], 10.0) == CAPACITY) is found, "what does not count is dropped"


def test_a_count_of_nothing_that_says_why_is_not_kept() -> None:
    """What was in the way may be gone the next moment, by a report or a reservation that makes nothing void."""
    cache = kept()
    full = Capacity({"tspecs": []}, 6.0, "Node group one has no room: its nodes have too little memory")
    assert not cache.keep(ONE, QUESTION, full, begun=cache.begin(), reservations=[], asked_at_s=11.0)
    assert cache.find(ONE, QUESTION, [], 12.0) is None, "neither is what was kept before, which does not fit any more"


def test_less_in_one_group_is_not_less_in_another() -> None:
    cache = kept()
    cache.lessened([TWO])
    assert cache.find(ONE, QUESTION, [], 10.0) == CAPACITY
    begun = cache.begin()
    cache.lessened([ONE])
    assert cache.find(ONE, QUESTION, [], 10.0) is None
    assert not cache.keep(ONE, QUESTION, CAPACITY, begun=begun, reservations=[], asked_at_s=10.0), "it began before"
    assert cache.keep(ONE, QUESTION, CAPACITY, begun=cache.begin(), reservations=[], asked_at_s=10.0)


def test_nothing_is_kept_of_a_group_that_is_gone() -> None:
    there = [ONE]
    cache = CapacityCache(there.__contains__)
    cache.lessened([ONE])
    begun = cache.begin()
    assert cache.keep(ONE, QUESTION, CAPACITY, begun=begun, reservations=[], asked_at_s=10.0)
    there.clear()
    cache.forget_gone()
    assert not cache.keep(ONE, QUESTION, CAPACITY, begun=begun, reservations=[], asked_at_s=10.0), "counted meanwhile"
    cache.lessened([ONE])
    assert (cache._kept, cache._lessened) == ({}, {})


REPORT = NodeReport(
    memory_total_mib=8,
    memory_free_mib=4,
    memory_node_mib=1,
    cpu_total=4,
    cpu_node=1,
    space={"plain": Space(10, 5, 4, 2)},
)


@pytest.mark.parametrize(
    ("less", "changes"),
    [
        (False, {}),
        (False, {"memory_total_mib": 9, "memory_free_mib": 5, "memory_node_mib": 0, "cpu_total": 5, "cpu_node": 0}),
        (True, {"memory_total_mib": 7}),
        (True, {"memory_free_mib": 3}),
        (True, {"memory_node_mib": 2}),
        (True, {"cpu_total": 3}),
        (True, {"cpu_node": 2}),
        (False, {"space": {"plain": Space(10, 6, 4, 3), "more": Space(1, 1)}}),
        (True, {"space": {"plain": Space(10, 4, 4, 2)}}),
        (True, {"space": {"plain": Space(20, 14, 4, 2)}}),
        (False, {"space": {"plain": Space(20, 15, 4, 2)}}),
        (True, {"space": {"plain": Space(10, 5, 4, 1)}}),
        (True, {"space": {"plain": Space(10, 5)}}),
        (True, {"space": {}}),
        (True, {"guests": [("web1", 1, "running")]}),
    ],
)
def test_what_is_less(less: bool, changes: dict[str, Any]) -> None:
    assert is_less(REPORT, replace(REPORT, **changes)) is less


def test_silence_is_less_and_its_end_is_not() -> None:
    assert is_less(REPORT, silent("away"))
    assert not is_less(silent("away"), REPORT)
    assert not is_less(silent("away"), silent("gone"))


def cluster() -> Configuration:
    config = configuration()
    config.put("nodegroups", TWO, NodeGroup(uuid=TWO, name="other"))
    config.put("nodes", "uuid-node3", replace(config.node("uuid-node3"), group=TWO))
    add_instance(config, "web1", "uuid-node1", template="local")
    return config


CLUSTER = cluster()


def concerned(*puts: tuple[str, Any], remove: Any = ()) -> list[str]:
    put = [[kind, "cluster" if kind == "cluster" else obj.uuid, obj.to_plain()] for kind, obj in puts]
    return sorted(groups_concerned(CLUSTER, {"event": "commit", "put": put, "remove": list(remove)}))


def test_a_commit_concerns_the_groups_whose_room_it_changes() -> None:
    config, one = CLUSTER, CLUSTER.cluster
    web1, node1, node3 = config.find_instance("web1"), config.node("uuid-node1"), config.node("uuid-node3")
    (disk,) = config.instance_disks(web1)
    assert concerned(("instances", replace(web1, network_port=5, disks_active=False, serial_no=7))) == []
    assert concerned(("instances", replace(web1, admin_state="down"))) == [ONE]
    assert concerned(("instances", replace(web1, primary_node="uuid-node3"))) == [ONE, TWO]
    assert concerned(("instances", replace(web1, uuid="new", name="new"))) == [ONE]
    assert concerned(("disks", replace(disk, size=disk.size, serial_no=7))) == []
    assert concerned(("disks", replace(disk, size=disk.size + 1))) == [ONE]
    assert concerned(remove=[["instances", web1.uuid], ["disks", disk.uuid]]) == [ONE]
    assert concerned(("nodes", replace(node1, master_candidate=False, serial_no=7))) == []
    assert concerned(("nodes", replace(node1, drained=True))) == [ONE]
    assert concerned(("nodes", replace(node1, group=TWO))) == [ONE, TWO]
    assert concerned(("nodes", replace(node1, uuid="new", name="new", group=TWO))) == [TWO]
    assert concerned(remove=[["nodes", node3.uuid]]) == [TWO]
    assert concerned(("nodegroups", replace(config.group(TWO), ipolicy={"vcpu-ratio": 1.0}))) == [TWO]
    assert concerned(("cluster", replace(one, highest_used_port=5, serial_no=7))) == []
    assert concerned(("cluster", replace(one, capacity_params={"max_cpu_ratio": 2.0}))) == [ONE, TWO]
    assert concerned(("networks", Network(uuid="n", name="n", network="10.0.0.0/8"))) == []
