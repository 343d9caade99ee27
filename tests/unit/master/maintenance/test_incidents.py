# SPDX-License-Identifier: BSD-2-Clause
"""The life of an incident, from what a node says to what is forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.maintained_cluster import LOCAL, MIRRORED, MaintainedCluster

from ganeti.base.errors import PrerequisiteError
from ganeti.master.maintenance.changes import (
    BeginRound,
    CancelIncident,
    ChangeMaintenance,
    ForgetIncident,
    RecordIncidents,
    RecordRound,
)
from ganeti.master.maintenance.evacuations import leaving
from ganeti.master.maintenance.sameness import identity
from ganeti.model.objects import Incident

EVACUATE = {"status": "evacuate", "details": "sda"}
REPAIR = {"status": "live-repair", "command": "fix", "details": [1]}


def steps(cluster: MaintainedCluster, count: int) -> None:
    for _ in range(count):
        cluster.step()


def only(cluster: MaintainedCluster) -> Incident:
    [incident] = cluster.maintenance.incidents
    return incident


def statuses(cluster: MaintainedCluster) -> list[str]:
    return [each.repair_status for each in cluster.maintenance.incidents]


@pytest.mark.requirement("S4.9", "S4.15")
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": [True]}, {"b": [True], "a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": None}, {}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
    ],
)
def test_two_objects_are_the_same_where_they_are_equal_as_json(one: Any, other: Any, same: bool) -> None:
    assert (identity(one) == identity(other)) is same


def test_nothing_is_done_before_two_looks_find_the_same() -> None:
    cluster = MaintainedCluster()
    cluster.defects["n3"] = EVACUATE
    cluster.step()
    assert statuses(cluster) == ["noted"] and not cluster.jobs
    assert "seen once" in cluster.planned.held[0].why
    cluster.defects.clear()
    cluster.step()
    assert not cluster.maintenance.incidents and not cluster.jobs


def test_a_node_that_falls_silent_after_one_look_is_left_alone() -> None:
    cluster = MaintainedCluster()
    cluster.defects["n3"] = EVACUATE
    cluster.step()
    cluster.silent.add("n3")
    steps(cluster, 3)
    assert statuses(cluster) == ["noted"] and not cluster.jobs


def test_a_command_that_changes_its_text_each_time_has_no_effect() -> None:
    cluster = MaintainedCluster()
    seen = []
    for number in range(30):
        cluster.defects["n3"] = EVACUATE | {"details": number}
        cluster.step()
        seen.append(len(cluster.maintenance.incidents))
    assert not cluster.jobs and max(seen) == 1
    assert seen[-10:] == [0] * 10, "after some of them nothing is noted any more"
    steps(cluster, 4)
    assert statuses(cluster) == ["completed"], "what stays is believed"


@pytest.mark.requirement("S4.6", "S4.17", "S4.20", "S4.30", "S4.42")
def test_a_node_is_emptied_in_one_round_and_taken_out_in_the_next() -> None:
    cluster = MaintainedCluster()
    cluster.defects["n3"] = EVACUATE
    steps(cluster, 2)
    assert statuses(cluster) == ["pending"] and cluster.config.node("n3").drained
    assert not cluster.config.primary_instances("n3") and len(cluster.opcodes("OP_INSTANCE_MIGRATE")) == 3
    assert not [each for each in cluster.opcodes("OP_INSTANCE_MIGRATE") if each["allow_failover"]]
    steps(cluster, 2)
    assert statuses(cluster) == ["completed"] and cluster.config.node("n3").offline
    assert cluster.config.node("n3").tags == [f"maintd:repairready:{only(cluster).uuid}"] == [only(cluster).tag]
    jobs = len(cluster.jobs)
    steps(cluster, 10)
    assert len(cluster.jobs) == jobs, "once only"


@pytest.mark.requirement("S4.21")
def test_a_ready_tag_that_is_removed_ends_it_when_nobody_sees_it_any_more() -> None:
    cluster = MaintainedCluster()
    cluster.defects["n3"] = EVACUATE
    steps(cluster, 4)
    cluster.remove_tag("n3", only(cluster).tag)
    cluster.set_node("n3", offline=False)
    steps(cluster, 3)
    assert statuses(cluster) == ["completed"] and not cluster.config.node("n3").drained
    cluster.silent.add("n3")
    del cluster.defects["n3"]
    steps(cluster, 2)
    assert statuses(cluster) == ["completed"], "a node that says nothing does not say that it is well"
    cluster.silent.clear()
    cluster.step()
    assert not cluster.maintenance.incidents


@pytest.mark.requirement("S4.21")
def test_a_repaired_node_keeps_its_incident_as_long_as_it_has_the_tag() -> None:
    cluster = MaintainedCluster()
    cluster.defects["n3"] = REPAIR
    steps(cluster, 4)
    del cluster.defects["n3"]
    steps(cluster, 3)
    assert statuses(cluster) == ["completed"] and cluster.config.node("n3").tags == [only(cluster).tag]
    cluster.remove_tag("n3", only(cluster).tag)
    cluster.step()
    assert not cluster.maintenance.incidents


@pytest.mark.requirement("S4.9", "S4.15")
def test_another_object_of_the_same_node_is_another_incident() -> None:
    cluster = MaintainedCluster()
    cluster.defects["n3"] = REPAIR
    steps(cluster, 4)
    cluster.defects["n3"] = REPAIR | {"details": [2]}
    steps(cluster, 4)
    assert statuses(cluster) == ["completed", "completed"]
    assert len(cluster.opcodes("OP_REPAIR_COMMAND")) == 2


@pytest.mark.requirement("S4.20")
def test_a_node_on_which_an_instance_is_left_is_not_ready() -> None:
    """Somebody took it offline by hand, and put an instance there meanwhile."""
    cluster = MaintainedCluster()
    cluster.defects["n3"] = EVACUATE
    steps(cluster, 2)
    guest = cluster.config.primary_instances("n2")[0]
    cluster._put_guest(guest, "n3", guest.primary_node)
    cluster.set_node("n3", offline=True)
    cluster.step()
    assert statuses(cluster) == ["pending"] and not cluster.config.node("n3").tags


@pytest.mark.requirement("S4.19", "S4.20", "S4.22")
def test_a_failed_job_ends_it_until_its_tag_is_removed() -> None:
    cluster = MaintainedCluster(fails=1.0)
    cluster.defects["n3"] = EVACUATE
    steps(cluster, 8)
    first = only(cluster)
    assert first.repair_status == "failed" and cluster.config.node("n3").tags == [f"maintd:repairfailed:{first.uuid}"]
    assert len(first.jobs) == 4, "no other job after those of the round that failed"
    cluster.fails = 0.0
    cluster.remove_tag("n3", first.tag)
    steps(cluster, 8)
    assert statuses(cluster) == ["completed"] and only(cluster).uuid != first.uuid


def test_a_tag_edited_by_hand_to_nonsense_is_nobodys() -> None:
    cluster = MaintainedCluster()
    cluster.defects["n3"] = EVACUATE
    steps(cluster, 4)
    node = cluster.config.node("n3")
    cluster.remove_tag("n3", node.tags[0])
    cluster.config.put("nodes", "n3", type(node)(**{**_fields(node), "tags": ["maintd:repairready:%%%", "x"]}))
    jobs = len(cluster.jobs)
    steps(cluster, 5)
    assert statuses(cluster) == ["completed"] and len(cluster.jobs) == jobs


def _fields(node: Any) -> dict[str, Any]:
    return {name: getattr(node, name) for name in node.__struct_fields__}


@pytest.mark.requirement("S4.16")
@pytest.mark.parametrize("after", [1, 2, 4])
def test_a_canceled_incident_is_left_alone_and_forgotten_when_it_is_gone(after: int) -> None:
    cluster = MaintainedCluster()
    cluster.defects["n3"] = EVACUATE
    steps(cluster, after)
    cluster.commit(CancelIncident(uuid=only(cluster).uuid[:8]))
    jobs = len(cluster.jobs)
    steps(cluster, 5)
    assert statuses(cluster) == ["canceled"] and len(cluster.jobs) == jobs and not cluster.config.node("n3").tags
    del cluster.defects["n3"]
    cluster.step()
    assert not cluster.maintenance.incidents


def test_a_forgotten_incident_of_a_defect_that_persists_begins_anew() -> None:
    cluster = MaintainedCluster()
    cluster.defects["n3"] = REPAIR
    steps(cluster, 4)
    first = only(cluster).uuid
    cluster.commit(ForgetIncident(uuid=first))
    assert not cluster.config.node("n3").tags
    steps(cluster, 4)
    assert only(cluster).uuid != first and len(cluster.opcodes("OP_REPAIR_COMMAND")) == 2
    with pytest.raises(PrerequisiteError, match="is the id of no incident"):
        cluster.commit(ForgetIncident(uuid="nonsense"))


@pytest.mark.requirement("S4.7")
def test_a_live_repair_runs_its_command_once_with_the_object() -> None:
    cluster = MaintainedCluster()
    cluster.defects["n3"] = REPAIR
    steps(cluster, 8)
    [opcode] = cluster.opcodes("OP_REPAIR_COMMAND")
    assert opcode["command"] == "fix" and identity(__import__("json").loads(opcode["input"])) == identity(REPAIR)
    assert statuses(cluster) == ["completed"] and not cluster.config.node("n3").drained


@pytest.mark.requirement("S4.7")
def test_another_defect_does_not_repeat_the_repair_of_the_first() -> None:
    cluster = MaintainedCluster()
    cluster.defects["n3"] = REPAIR
    steps(cluster, 8)
    cluster.defects["n3"] = REPAIR | {"command": "other"}
    steps(cluster, 8)
    assert statuses(cluster) == ["completed", "completed"], "the first has its tag still"
    assert [opcode["command"] for opcode in cluster.opcodes("OP_REPAIR_COMMAND")] == ["fix", "other"]


@pytest.mark.requirement("S4.41")
def test_a_more_invasive_demand_overtakes() -> None:
    cluster = MaintainedCluster()
    cluster.defects["n3"] = EVACUATE
    steps(cluster, 1)
    cluster.commit(ChangeMaintenance(values={"nodes_at_once": 0}))
    steps(cluster, 2)
    cluster.defects["n3"] = {"status": "evacuate-failover"}
    steps(cluster, 2)
    cluster.commit(ChangeMaintenance(values={"nodes_at_once": 1}))
    steps(cluster, 4)
    assert not cluster.opcodes("OP_INSTANCE_MIGRATE") and len(cluster.opcodes("OP_INSTANCE_FAILOVER")) == 3
    assert statuses(cluster) == ["completed"], "the milder demand was never begun, and nobody tells of it"


def test_a_mirrored_instance_first_leaves_and_then_its_copy() -> None:
    cluster = MaintainedCluster(template=MIRRORED)
    cluster.defects["n3"] = {"status": "evacuate-failover"}
    steps(cluster, 5)
    assert statuses(cluster) == ["completed"]
    of_one = [[op["OP_ID"] for op in job] for _, job in cluster.jobs.values() if len(job) > 1]
    assert of_one == [["OP_INSTANCE_FAILOVER", "OP_INSTANCE_REPLACE_DISKS"]] * 3
    assert all("n3" not in cluster.config.instance_nodes(guest) for guest in cluster.config.instances())


def test_an_instance_that_is_bound_to_its_node_fails_the_incident_and_nothing_goes_offline() -> None:
    cluster = MaintainedCluster(template=LOCAL)
    cluster.defects["n3"] = EVACUATE
    steps(cluster, 4)
    assert statuses(cluster) == ["failed"] and not cluster.config.node("n3").offline


def test_the_master_is_not_taken_out() -> None:
    cluster = MaintainedCluster()
    cluster.defects["n0"] = EVACUATE
    steps(cluster, 5)
    assert not cluster.jobs and "gnt-cluster master-failover" in cluster.planned.held[0].why


def test_what_has_begun_goes_on_first_then_what_is_urgent_then_what_is_old() -> None:
    """A limit on nodes at once lets the first of them go."""
    cluster = MaintainedCluster()
    actions = {"n1": "evacuate", "n2": "evacuate-failover", "n3": "evacuate", "n4": "evacuate-failover"}
    for node, action in actions.items():
        cluster.commit(RecordIncidents(noted=[(f"u-{node}", node, action, {"status": action})]))
        cluster.commit(RecordIncidents(confirmed=[f"u-{node}"]))
        cluster.now_s += 60
    cluster.commit(BeginRound(token="t"))
    cluster.commit(RecordRound(token="t", of_incidents={"u-n3": [7]}))
    assert [each.node.name for each in leaving(cluster.config)] == ["n3", "n2", "n4", "n1"]


def test_a_limit_on_nodes_out_of_service_holds_back_and_says_so() -> None:
    cluster = MaintainedCluster()
    cluster.commit(ChangeMaintenance(values={"nodes_at_once": 1}))
    cluster.defects |= {"n3": EVACUATE, "n4": EVACUATE}
    steps(cluster, 8)
    assert sorted(statuses(cluster)) == ["completed", "noted"]
    assert "1 of at most 1 nodes are out of service already (n3)" in cluster.planned.held[0].why
    cluster.commit(ChangeMaintenance(values={"nodes_at_once": 0}))
    cluster.step()
    assert "no node may be taken out of service: raise the limit with gnt-cluster" in cluster.planned.held[0].why
    cluster.commit(ChangeMaintenance(values={"nodes_at_once": 1}))
    done = next(each for each in cluster.maintenance.incidents if each.repair_status == "completed")
    del cluster.defects["n3"]
    cluster.remove_tag("n3", done.tag)
    cluster.set_node("n3", offline=False)
    steps(cluster, 5)
    assert cluster.config.node("n4").offline


def test_no_node_leaves_if_the_others_cannot_lose_one_then() -> None:
    cluster = MaintainedCluster(nodes=4, guests_per_node=10)
    cluster.defects |= {"n2": EVACUATE, "n3": EVACUATE}
    steps(cluster, 8)
    assert not cluster.jobs and "(N+1)" in cluster.planned.held[0].why and cluster.is_redundant()
    cluster.commit(ChangeMaintenance(values={"keep_redundancy": False}))
    steps(cluster, 8)
    assert cluster.config.node("n2").offline and not cluster.is_redundant()


def test_one_that_can_go_is_not_held_back_by_one_that_cannot() -> None:
    """n2 holds more than the others can take; n3 does not."""
    cluster = MaintainedCluster(nodes=4, guests_per_node=7)
    for guest in list(cluster.config.instances())[:6]:
        cluster._put_guest(guest, "n2", guest.primary_node)
    cluster.defects |= {"n2": {"status": "evacuate-failover"}, "n3": EVACUATE}
    before = cluster.is_redundant()
    steps(cluster, 8)
    assert before and cluster.is_redundant()


@pytest.mark.requirement("S4.32")
def test_a_daemon_that_dies_while_it_submits_does_nothing_twice() -> None:
    cluster = MaintainedCluster()
    cluster.defects["n3"] = REPAIR
    cluster.step()
    cluster.dies_submitting = True
    steps(cluster, 6)
    assert len(cluster.opcodes("OP_REPAIR_COMMAND")) == 1 and statuses(cluster) == ["completed"]


def test_a_node_that_left_the_cluster_takes_its_incidents_with_it() -> None:
    cluster = MaintainedCluster(nodes=5, guests_per_node=0)
    cluster.defects["n4"] = EVACUATE
    steps(cluster, 4)
    cluster.config.remove("nodes", "n4")
    cluster.step()
    assert not cluster.maintenance.incidents
