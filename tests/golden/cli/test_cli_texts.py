# SPDX-License-Identifier: BSD-2-Clause
"""What commands print, letter by letter as 3.1 printed it for the same cluster."""

import time

import pytest
import recorded_answers as recorded
from fake_master import Failed, Turns
from recorded_answers import golden


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("line", "method", "answer", "text"),
    [
        ("gnt-node list", "Query", recorded.NODE_LIST, "node-list"),
        (
            "gnt-node list --no-headers --separator=| -o name,role,group,pip,sip",
            "Query",
            recorded.NODE_ROLES,
            "node-list-separator",
        ),
        ("gnt-node info node1", "Query", recorded.NODE_INFO, "node-info"),
        ("gnt-instance list", "Query", recorded.INSTANCE_LIST, "instance-list"),
        ("gnt-instance list -o +uuid", "Query", recorded.INSTANCE_LIST_UUID, "instance-list-uuid"),
        ("gnt-job list", "Query", recorded.JOB_LIST, "job-list"),
        ("gnt-job info 9", "QueryJobs", [recorded.NODE_ADD_JOB], "job-info-9"),
        ("gnt-cluster info", "QueryClusterInfo", recorded.CLUSTER, "cluster-info"),
        ("gnt-debug locks", "Query", recorded.LOCKS, "debug-locks"),
    ],
)
def test_one_answer_one_text(gnt, master, line, method, answer, text):
    master.answers[method] = answer
    ran = gnt(line)
    assert ran.out == golden(text)
    assert (ran.status, ran.err) == (0, "")


def test_cluster_info_says_at_its_end_who_has_copies(gnt, master):
    cells = [("node1", 0, "master"), ("node2", 0, "in-sync"), ("node3", 0, "behind: disk is full"), ("node4", 2, None)]
    master.answers["QueryClusterInfo"] = recorded.CLUSTER
    master.answers["Query"] = {"data": [[[0, name], [status, value]] for name, status, value in cells]}
    assert gnt("gnt-cluster info").out == golden("cluster-info") + (
        "Copies of the configuration: \n  node1: master\n  node2: in-sync\n  node3: behind, disk is full\n"
    )


def test_instance_info(gnt, master):
    master.job(recorded.INSTANCE_DATA)
    ran = gnt("gnt-instance info inst1")
    assert ran.out == golden("instance-info")
    assert ran.status == 0


def test_console_of_a_guest_without_one(gnt, master):
    master.job({"instance": "inst1", "kind": "msg", "message": "Console not available for fake hypervisor"})
    assert gnt("gnt-instance console --show-cmd inst1").out == golden("instance-console")


def test_unknown_instance(gnt, master):
    master.answers["Query"] = Failed("OpPrereqError", "Instance name nosuch not found", "unknown_entity")
    ran = gnt("gnt-instance list nosuch")
    assert (ran.status, ran.out, ran.err) == (1, "", golden("instance-list-nosuch"))


def test_watch_shows_what_a_job_has_said(gnt, master):
    lines = golden("job-watch-4").splitlines()
    master.job(True, log=tuple(recorded.log_of(lines[2:])))
    assert gnt("gnt-job watch 4").out == golden("job-watch-4")


def test_verify_follows_the_jobs_it_made(gnt, master):
    lines = golden("cluster-verify").splitlines()
    second = lines.index("Waiting for job 15 ...")
    logs = {14: recorded.log_of(lines[2:second]), 15: recorded.log_of(lines[second + 1 :])}
    made = {"jobs": [[True, 14], [True, 15]]}
    results = {13: made, 14: True, 15: False}
    master.answers["SubmitJob"] = 13
    master.answers["WaitForJobChange"] = lambda job, *_: [["success"], logs.get(job, [])]
    master.answers["QueryJobs"] = lambda ids, _: [["success", ["success"], [results[ids[0]]]]]
    ran = gnt("gnt-cluster verify")
    assert ran.out == golden("cluster-verify")
    assert (ran.status, ran.err) == (1, "")


def test_verify_of_a_healthy_cluster_succeeds(gnt, master):
    master.answers["SubmitJob"] = 13
    master.answers["WaitForJobChange"] = [["success"], []]
    master.answers["QueryJobs"] = Turns(
        [["success", ["success"], [{"jobs": [[True, 14]]}]]], [["success", ["success"], [True]]]
    )
    assert gnt("gnt-cluster verify").status == 0
