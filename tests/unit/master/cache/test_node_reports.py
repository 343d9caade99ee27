# SPDX-License-Identifier: BSD-2-Clause
"""How long what a node said counts."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.master.cache.node_reports import EXPIRY_S, FRESH_S, SILENT_S, NodeReport, NodeReports, nodes_changed, silent
from ganeti.model.objects import Disk

FREE = NodeReport(memory_free_mib=1)


def test_a_report_grows_old() -> None:
    reports = NodeReports()
    assert reports.stale(["a", "b"], 0.0) == ["a", "b"]
    reports.take("a", FREE, reports.begin(), 0.0)
    assert reports.stale(["a", "b"], FRESH_S - 1) == ["b"]
    assert reports.stale(["a"], FRESH_S) == ["a"]
    assert reports.stale(["a"], 3.0, fresh_s=2.0) == ["a"]


def test_a_silent_node_is_left_alone_for_a_while() -> None:
    reports = NodeReports()
    reports.take("a", silent("no\nroute"), reports.begin(), 0.0)
    reports.changed(["a"])
    assert reports.stale(["a"], SILENT_S - 1, fresh_s=1.0) == []
    assert reports.stale(["a"], SILENT_S) == ["a"]
    assert reports.since(0) and next(reports.since(0))[1].silence == "no route"


def test_what_happened_while_a_node_was_asked_is_not_in_its_answer() -> None:
    reports = NodeReports()
    begun = reports.begin()
    reports.changed(["a"])
    reports.take("a", FREE, begun, 0.0)
    reports.take("b", FREE, begun, 0.0)
    assert reports.stale(["a", "b"], 0.0) == ["a"]
    reports.take("a", FREE, reports.begin(), 0.0)
    assert reports.stale(["a", "b"], 0.0) == []


def test_only_newer_reports_are_told() -> None:
    reports = NodeReports()
    for name in ("a", "b"):
        reports.take(name, FREE, 0, 0.0)
    assert [name for name, _ in reports.since(1)] == ["b"]


def test_nothing_is_kept_of_a_node_that_is_gone() -> None:
    there = ["a", "b"]
    reports = NodeReports(there.__contains__)
    for name in there:
        reports.take(name, FREE, 0, 0.0)
        reports.changed([name])
    there.remove("b")
    reports.forget_gone()
    assert [name for name, _ in reports.since(0)] == ["a"]
    reports.take("b", FREE, reports.begin(), 1.0)
    reports.changed(["b"])
    assert (reports.report("b"), list(reports._changed)) == (None, ["a"]), "it was being asked meanwhile"


def test_what_was_void_is_not_compared_with_what_is_new() -> None:
    """Who builds on a report that does not count any more was told so when it became void."""
    reports, renewed = NodeReports(), []
    reports.renewed.append(lambda *told: renewed.append(told))
    reports.take("a", FREE, reports.begin(), 0.0)
    reports.changed(["a"])
    reports.take("a", FREE, reports.begin(), 1.0)
    assert renewed == []
    reports.take("a", FREE, reports.begin(), 2.0)
    assert renewed == [("a", FREE, FREE)]


def test_a_later_answer_to_an_earlier_question_is_dropped() -> None:
    reports = NodeReports()
    reports.take("a", FREE, 0, 2.0)
    reports.take("a", NodeReport(memory_free_mib=2), 0, 1.0)
    assert reports.report("a") == FREE


@pytest.mark.requirement("S1.49")
def test_nothing_counts_after_an_hour() -> None:
    reports = NodeReports()
    reports.take("a", FREE, 0, 0.0)
    assert reports.expired(["a", "b"], EXPIRY_S - 1) == []
    assert reports.expired(["a", "b"], EXPIRY_S) == ["a"], "who was never asked has nothing to expire"


def test_other_guests_than_reported_make_a_report_void() -> None:
    reports = NodeReports()
    guests = [("web1", 512, "running"), ("web2", 128, "running")]
    reports.take("a", NodeReport(guests=guests), reports.begin(), 0.0)
    reports.compare_guests("a", guests[::-1])
    reports.compare_guests("unknown", guests)
    assert reports.stale(["a"], 0.0) == []
    reports.compare_guests("a", [*guests[:1], ("web2", 129, "running")])
    assert reports.stale(["a"], 0.0) == ["a"]


def commit(*puts: Any, remove: Any = ()) -> dict[str, Any]:
    put = [[kind, obj.uuid, obj.to_plain()] for kind, obj in puts]
    return {"event": "commit", "position": [1, 2], "put": put, "remove": list(remove)}


def test_which_nodes_a_commit_changes() -> None:
    config = configuration()
    web1 = add_instance(config, "web1", "uuid-node1")
    disk = config.instance_disks(web1)[0]
    assert nodes_changed(config, commit(("instances", replace(web1, tags=["x"], admin_state="down")))) == []
    assert nodes_changed(config, commit(("disks", replace(disk, name="x")))) == []
    moved = commit(
        ("disks", replace(disk, nodes=["uuid-node3"])), ("instances", replace(web1, primary_node="uuid-node3"))
    )
    assert sorted(nodes_changed(config, moved)) == ["uuid-node1", "uuid-node3"]
    assert nodes_changed(config, commit(("disks", replace(disk, size=65)))) == ["uuid-node1"]
    assert nodes_changed(config, commit(remove=[["instances", web1.uuid], ["disks", disk.uuid]])) == ["uuid-node1"]
    new = replace(disk, uuid="new", nodes=["uuid-node2", "uuid-node3"])
    assert nodes_changed(config, commit(("disks", new))) == ["uuid-node2", "uuid-node3"]


def test_disks_of_an_instance_being_created_must_be_reported_when_it_is_complete() -> None:
    """Until then they are counted as reserved, whatever the nodes say."""
    config = configuration()
    web1 = replace(add_instance(configuration(), "web1", "uuid-node1"), disks=["d1"], forthcoming=True)
    disk = Disk(uuid="d1", dev_type="common", size=64, nodes=["uuid-node1", "uuid-node2"])
    begins = commit(("disks", disk), ("instances", web1))
    assert nodes_changed(config, begins) == []
    config.put("disks", disk.uuid, disk)
    config.put("instances", web1.uuid, web1)
    complete = commit(("instances", replace(web1, forthcoming=None)))
    assert nodes_changed(config, complete) == ["uuid-node1", "uuid-node2"]
    bare = replace(web1, disks=[])
    config.put("instances", web1.uuid, bare)
    assert nodes_changed(config, commit(("instances", replace(bare, forthcoming=None)))) == []
