# SPDX-License-Identifier: BSD-2-Clause
"""What is in a round beside what nodes ask for: the work of harep, balancing, and when a round begins."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.fakes.maintained_cluster import LOCAL, MIRRORED, MaintainedCluster

from ganeti.master.maintenance import repairs
from ganeti.master.maintenance.changes import FAILED, BeginRound, ChangeMaintenance, RecordIncidents, RecordRound
from ganeti.master.maintenance.evacuations import affected, leading
from ganeti.master.maintenance.repair_tags import PREFIX
from ganeti.master.maintenance.rounds import Answers, balance_question, is_due, plan_round, room_question, waits_s
from ganeti.master.maintenance.task import SOURCE, Task, with_reason
from ganeti.model.objects import Maintenance
from ganeti.model.placement_requests import EmptyNodes, NodeRoom


def steps(cluster: MaintainedCluster, count: int) -> None:
    for _ in range(count):
        cluster.step()


def tagged(cluster: MaintainedCluster, name: str, *tags: str) -> None:
    guest = cluster.config.find_instance(name)
    values = {field: getattr(guest, field) for field in guest.__struct_fields__}
    cluster.config.put("instances", guest.uuid, type(guest)(**values | {"tags": list(tags)}))


@pytest.mark.requirement("S4.37")
def test_by_itself_it_neither_repairs_instances_nor_balances() -> None:
    cluster = MaintainedCluster(template=MIRRORED)
    tagged(cluster, "i0", PREFIX + "reinstall")
    cluster.set_node("n1", offline=True)
    for guest in cluster.config.instances():
        assert not guest.tags or balance_question(cluster.config, None, cluster.now_s) is None
    steps(cluster, 3)
    assert not cluster.jobs


@pytest.mark.requirement("S4.35")
@pytest.mark.parametrize("template", ["drbd", "mirror"])
def test_the_work_of_harep_with_its_tags(template: str) -> None:
    cluster = MaintainedCluster(template=template)
    cluster.commit(ChangeMaintenance(values={"repair_instances": True}))
    tagged(cluster, "i0", PREFIX + "fix-storage")
    tagged(cluster, "i1", PREFIX + "fix-storage")
    cluster.set_node("n1", offline=True)
    planned = cluster.plan()
    [fix] = [each for each in planned.repairs if each.task is not None]
    assert fix.instance == "i0" and fix.task is not None
    assert [opcode["OP_ID"] for job in fix.task.jobs for opcode in job] == ["OP_INSTANCE_REPLACE_DISKS"]
    [denied] = [each for each in planned.repairs if each.task is None]
    assert denied.instance == "i1" and denied.kind == "failover", "its tag allows less"
    tags = [
        repairs.begun(cluster.config, fix, [7], cluster.new_id, 5),
        repairs.begun(cluster.config, denied, [], cluster.new_id, 5),
    ]
    cluster.commit(BeginRound(token="t"))
    cluster.commit(RecordRound(token="t", jobs=[7], repair_tags=tags))
    found = {name: cluster.config.find_instance(name).tags for name in ("i0", "i1")}
    assert any(tag.startswith(PREFIX + "pending:fix-storage:") and tag.endswith(":5:7") for tag in found["i0"])
    assert any(tag.startswith(PREFIX + "result:failover:") and tag.endswith(":5:enoperm:") for tag in found["i1"])
    assert repairs.awaited(cluster.config) == [7] and not cluster.plan().repairs, "nothing is begun twice"
    _, (refused,), _ = repairs.begun(cluster.config, fix, [], cluster.new_id, 5)
    assert ":failure:" in refused, "a repair that the queue refuses has not come about"
    [(uuid, added, removed)] = repairs.ended(cluster.config, {7: "success"}, 9)
    assert uuid == "i0" and ":9:success:7" in added[0] and len(removed) == 1


@pytest.mark.requirement("S4.37")
def test_repairs_of_harep_are_left_to_harep_where_the_daemon_repairs_none() -> None:
    """Both would change the tags, and the one that comes second would fail."""
    cluster = MaintainedCluster(template=MIRRORED)
    for name, job in (("i0", 7), ("i1", 8)):
        tagged(cluster, name, f"{PREFIX}pending:fix-storage:{name}:5:{job}")
    done = {7: "success", 8: "success"}
    assert repairs.awaited(cluster.config) == [] and repairs.ended(cluster.config, done, 9) == []
    cluster.commit(BeginRound(token="t"))
    cluster.commit(RecordRound(token="t", jobs=[8]))
    assert repairs.awaited(cluster.config) == [8], "what it has begun itself it ends, though it was switched off since"
    assert [uuid for uuid, *_ in repairs.ended(cluster.config, done, 9)] == ["i1"]
    cluster.commit(ChangeMaintenance(values={"repair_instances": True}))
    assert sorted(repairs.awaited(cluster.config)) == [7, 8]


@pytest.mark.requirement("S4.35")
def test_an_instance_whose_repair_has_failed_or_that_does_not_exist_yet_is_left_alone() -> None:
    cluster = MaintainedCluster(template=MIRRORED)
    cluster.commit(ChangeMaintenance(values={"repair_instances": True}))
    config = cluster.config
    config.put("cluster", "cluster", replace(config.cluster, tags=[PREFIX + "reinstall"]))
    cluster.set_node("n1", offline=True)
    found = {each.instance for each in cluster.plan().repairs}
    assert {"i0", "i6", "i12"} <= found, "the cluster's tag allows it for all"
    tagged(cluster, "i0", f"{PREFIX}result:fix-storage:{'a' * 8}:5:failure:7")
    config.put("instances", "i6", replace(config.find_instance("i6"), forthcoming=True))
    assert {each.instance for each in cluster.plan().repairs} == found - {"i0", "i6"}


@pytest.mark.requirement("S4.35")
def test_a_repair_ends_with_all_its_jobs_and_well_only_if_they_have() -> None:
    cluster = MaintainedCluster(template=MIRRORED)
    cluster.commit(ChangeMaintenance(values={"repair_instances": True}))
    tagged(cluster, "i0", f"{PREFIX}pending:fix-storage:{'a' * 8}:5:7+8")
    assert sorted(repairs.awaited(cluster.config)) == [7, 8]
    assert repairs.ended(cluster.config, {7: "success", 8: "running"}, 9) == []
    for status, result in (("success", "success"), ("error", "failure")):
        [(_, [tag], _)] = repairs.ended(cluster.config, {7: "success", 8: status}, 9)
        assert f":9:{result}:7+8" in tag


def test_an_instance_with_tags_that_contradict_each_other_is_left_to_a_person() -> None:
    cluster = MaintainedCluster(template=MIRRORED)
    cluster.commit(ChangeMaintenance(values={"repair_instances": True}))
    pending = [f"{PREFIX}pending:fix-storage:{uuid * 8}:{moment}:5" for uuid, moment in (("a", 1), ("b", 2))]
    tagged(cluster, "i0", PREFIX + "reinstall", *pending)
    cluster.set_node("n1", offline=True)
    assert not cluster.plan().repairs


@pytest.mark.requirement("S4.41")
def test_instances_on_a_node_with_a_defect_are_not_repaired_beside_it() -> None:
    cluster = MaintainedCluster(template=MIRRORED)
    cluster.commit(ChangeMaintenance(values={"repair_instances": True, "nodes_at_once": 0}))
    tagged(cluster, "i0", PREFIX + "fix-storage")
    cluster.defects["n0"] = {"status": "evacuate"}
    steps(cluster, 2)
    cluster.set_node("n1", offline=True)
    steps(cluster, 3)
    assert not cluster.opcodes("OP_INSTANCE_REPLACE_DISKS")


@pytest.mark.requirement("S4.36", "S4.41")
def test_balancing_leaves_nodes_with_a_defect_alone() -> None:
    cluster = MaintainedCluster()
    for number in range(3, 12):
        cluster._put_guest(cluster.config.find_instance(f"i{number}"), "n0", "")
    cluster.commit(ChangeMaintenance(values={"balance": True, "balance_threshold": 0.01, "nodes_at_once": 0}))
    cluster.defects["n5"] = {"status": "evacuate"}
    question = balance_question(cluster.config, None, cluster.now_s)
    assert question is not None and question.load is None
    steps(cluster, 2)
    question = balance_question(cluster.config, None, cluster.now_s)
    assert question is not None and question.without == ["n5"]
    before = len(cluster.config.primary_instances("n0"))
    steps(cluster, 12)
    moved = {opcode.get("target_node") for opcode in cluster.opcodes("OP_INSTANCE_MIGRATE")}
    assert moved and "n5" not in moved and len(cluster.config.primary_instances("n0")) < before
    jobs = len(cluster.jobs)
    steps(cluster, 5)
    assert len(cluster.jobs) == jobs, "an even cluster is left alone"


@pytest.mark.requirement("S4.37")
@pytest.mark.parametrize("disk_moves", [False, True])
def test_balancing_copies_disks_only_where_it_may(disk_moves: bool) -> None:
    """All instances are on two of six nodes, with their mirrored disks."""
    cluster = MaintainedCluster(template=MIRRORED)
    for number, guest in enumerate(cluster.config.instances()):
        cluster._put_guest(guest, *(("n1", "n2") if number % 3 else ("n2", "n1")))
    cluster.commit(
        ChangeMaintenance(values={"balance": True, "balance_threshold": 0.01, "balance_disk_moves": disk_moves})
    )
    question = balance_question(cluster.config, None, cluster.now_s)
    assert question is not None and question.disk_moves is disk_moves
    steps(cluster, 12)
    assert cluster.opcodes("OP_INSTANCE_MIGRATE"), "instances go to where their other copy is at least"
    allowed = [each["allow_failover"] for each in cluster.opcodes("OP_INSTANCE_MIGRATE")]
    assert not any(allowed), "nobody asked for a guest to be stopped"
    assert bool(cluster.opcodes("OP_INSTANCE_REPLACE_DISKS")) is disk_moves


def move(name: str, target: str) -> tuple[str, list[dict[str, str]]]:
    return name, [{"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": name, "target_node": target}]


@pytest.mark.requirement("S4.41")
def test_an_instance_that_moves_in_a_round_is_not_mended_in_it() -> None:
    """Not even by an answer of the allocator about an instance that has left the node since."""
    cluster = MaintainedCluster(template=MIRRORED)
    cluster.commit(ChangeMaintenance(values={"repair_instances": True, "nodes_at_once": 0}))
    tagged(cluster, "i0", PREFIX + "fix-storage")
    cluster.defects["n3"] = {"status": "evacuate"}
    steps(cluster, 2)
    cluster.commit(ChangeMaintenance(values={"nodes_at_once": 1}))
    cluster.set_node("n1", offline=True)
    assert [each.instance for each in plan_round(cluster.config, Answers(), cluster.now_s).repairs] == ["i0"]
    rooms = {"n3": NodeRoom("n3", jobs=[move("i0", "n4")])}
    planned = plan_round(cluster.config, Answers(rooms), cluster.now_s)
    assert [task.moves for task in planned.tasks] == [("i0",)] and not planned.repairs


@pytest.mark.requirement("S4.41")
def test_a_group_that_a_node_leaves_is_not_balanced_in_the_same_round() -> None:
    cluster = MaintainedCluster()
    cluster.commit(ChangeMaintenance(values={"nodes_at_once": 0}))
    cluster.defects["n3"] = {"status": "evacuate"}
    steps(cluster, 2)
    cluster.commit(ChangeMaintenance(values={"nodes_at_once": 1}))
    balance = [NodeRoom("default", jobs=[move("i1", "n2")]), NodeRoom("other", jobs=[move("i7", "n5")])]
    rooms = {"n3": NodeRoom("n3", jobs=[move("i3", "n4")])}
    planned = plan_round(cluster.config, Answers(rooms, balance), cluster.now_s)
    assert [task.moves for task in planned.tasks] == [("i3",), ("i7",)]
    planned = plan_round(cluster.config, Answers({}, balance), cluster.now_s)
    assert [task.moves for task in planned.tasks] == [("i1",), ("i7",)], "nobody leaves in this round"


@pytest.mark.requirement("S4.41")
def test_of_several_open_incidents_the_most_invasive_leads_and_an_instance_moves_once() -> None:
    cluster = MaintainedCluster(template=MIRRORED)
    asked = [("u1", "n3", "evacuate"), ("u2", "n3", "evacuate-failover"), ("u3", "n3", "evacuate")]
    asked += [("u4", "n4", "evacuate"), ("u5", "n5", "evacuate")]
    noted = [(uuid, node, action, {"status": action}) for uuid, node, action in asked]
    cluster.commit(RecordIncidents(noted=noted, confirmed=[uuid for uuid, *_ in asked]))
    cluster.commit(RecordIncidents(ended=[("u5", FAILED)]))
    cluster.commit(ChangeMaintenance(values={"nodes_at_once": 2}))
    assert {node: each.uuid for node, each in leading(cluster.config).items()} == {"n3": "u2", "n4": "u4"}
    assert affected(cluster.config) == {"n3", "n4", "n5"}, "one that has failed is left alone"
    rooms = {
        "n3": NodeRoom("n3", jobs=[move("i3", "n1"), move("i9", "n1")]),
        "n4": NodeRoom("n4", jobs=[move("i3", "n1"), move("i4", "n2")]),
    }
    cluster.set_node("n4", offline=True)
    planned = plan_round(cluster.config, Answers(rooms), cluster.now_s)
    assert [task.moves for task in planned.tasks] == [("i3", "i9"), ("i4",)]
    kinds = [opcode["OP_ID"] for task in planned.tasks for job in task.jobs for opcode in job]
    assert kinds == ["OP_NODE_SET_PARAMS", *["OP_INSTANCE_FAILOVER"] * 3], "nothing moves live from an offline node"


def test_the_allocator_is_asked_about_no_node_that_may_not_leave() -> None:
    cluster = MaintainedCluster()
    cluster.commit(ChangeMaintenance(values={"nodes_at_once": 0}))
    for name in ("n0", "n3"):
        cluster.defects[name] = {"status": "evacuate"}
    steps(cluster, 2)
    assert cluster.config.cluster.master_node == "n0"
    assert room_question(cluster.config) is None, "the limit lets nobody leave"
    cluster.commit(ChangeMaintenance(values={"nodes_at_once": 2}))
    assert room_question(cluster.config) == EmptyNodes(begun=[], nodes=["n3"]), "the master stays"


def test_a_cluster_that_would_gain_little_is_not_balanced() -> None:
    cluster = MaintainedCluster()
    cluster._put_guest(cluster.config.find_instance("i1"), "n0", "")
    cluster.commit(ChangeMaintenance(values={"balance": True, "balance_threshold": 50.0}))
    steps(cluster, 3)
    assert not cluster.jobs


def test_by_measured_load_only_where_it_is_known() -> None:
    cluster = MaintainedCluster()
    cluster.commit(ChangeMaintenance(values={"balance": True, "balance_dynamic": True}))
    assert balance_question(cluster.config, None, cluster.now_s) is None
    question = balance_question(cluster.config, {"i0": 0.5}, cluster.now_s)
    assert question is not None and question.load == {"i0": 0.5}
    assert question.load_threshold == 0.1 and question.stay == []


def test_what_was_changed_stays_by_measured_load_until_its_load_is_known_anew() -> None:
    cluster = MaintainedCluster()
    cluster.commit(ChangeMaintenance(values={"balance": True, "balance_dynamic": True, "cool_down_s": 100}))
    newest = max(each.mtime for each in cluster.config.instances())
    names = sorted(each.name for each in cluster.config.instances() if each.mtime == newest)
    for passed_s, stay in ((99, names), (101, [])):
        question = balance_question(cluster.config, {"i0": 0.5}, newest + passed_s)
        assert question is not None and question.stay == stay
    cluster.commit(ChangeMaintenance(values={"balance_dynamic": False}))
    question = balance_question(cluster.config, {"i0": 0.5}, newest)
    assert question is not None and question.stay == [] and question.load is None, "nobody wants it any more"


@pytest.mark.requirement("S4.40")
def test_a_round_begins_when_the_jobs_of_the_last_have_ended_and_its_time_is_over() -> None:
    cluster = MaintainedCluster(template=LOCAL)
    assert is_due(cluster.config, cluster.now_s)
    cluster.commit(BeginRound(token="t"))
    assert not is_due(cluster.config, cluster.now_s + 1000), "nobody knows what was submitted"
    cluster.commit(RecordRound(token="another", jobs=[1]))
    assert cluster.maintenance.submitting == "t", "a token of another round says nothing"
    cluster.commit(RecordRound(token="t", jobs=[1]))
    assert not is_due(cluster.config, cluster.now_s + 1000), "a job of it runs"
    cluster.commit(ChangeMaintenance(values={"jobs": []}))
    assert not is_due(cluster.config, cluster.now_s + 59) and waits_s(cluster.config, cluster.now_s + 59) == 1
    assert is_due(cluster.config, cluster.now_s + 60)
    assert is_due(cluster.config, cluster.now_s - 86400), "a clock that was set back makes nobody wait for a day"


@pytest.mark.requirement("S4.18")
def test_every_opcode_says_who_submitted_it_and_for_what() -> None:
    task = Task(("u1", "u2"), "n1", "n1 asks for it", [[{"OP_ID": "A"}, {"OP_ID": "B"}]])
    for opcode in with_reason(task.jobs, task, "token", 5)[0]:
        assert [SOURCE, "u1", 5] in opcode["reason"] and [SOURCE, "u2", 5] in opcode["reason"]
        assert "token" in opcode["reason"][-1][1]


@pytest.mark.requirement("S4.33")
def test_the_entry_of_the_configuration_begins_as_the_design_says() -> None:
    plain = Maintenance().to_plain()
    assert plain == {
        "roundDelay": 300,
        "jobs": [],
        "balance": False,
        "balanceThreshold": 0.1,
        "evacuated": [],
        "incidents": [],
        "serial_no": 1,
        "ctime": 0.0,
        "mtime": 0.0,
    }
    cluster = MaintainedCluster()
    cluster.defects["n3"] = {"status": "evacuate"}
    steps(cluster, 2)
    [incident] = cluster.maintenance.to_plain()["incidents"]
    assert {
        "original",
        "action",
        "jobs",
        "node",
        "repair-status",
        "tag",
        "uuid",
        "ctime",
        "mtime",
        "serial_no",
    } <= incident.keys()
    assert Maintenance.from_plain(cluster.maintenance.to_plain()) == cluster.maintenance
