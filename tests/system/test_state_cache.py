# SPDX-License-Identifier: BSD-2-Clause
"""The cache of the cluster's state on real daemons: lists that show what jobs did, and how much more fits."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator

import pytest
from tests.fakes.master_daemons import Master, running_master
from tests.system.fake_bed import FakeBed
from tests.system.test_tags import run

from ganeti.tools.testbed import bed, cluster, machine
from ganeti.wire.job_file import FINAL_STATUSES

pytestmark = pytest.mark.daemons
HOME = "/run/ganeti/fake-hypervisor"
ADD = ("gnt-instance", "add", "-t", "sharedfile", "--disk", "0:size=1g", "-o", "noop+default", "-B", "memory=1g")
CAPACITY = ("gnt-group", "capacity", "--no-headers", "--separator=:")
SPEC = ("--max-spec", "memory=1g,disk=1g,vcpus=1")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    with running_master(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def test_without_nodes_there_is_no_room_and_it_is_said(master: Master) -> None:
    assert run(master, *CAPACITY, "-I", "hail") == "default:-:-:-:0:0\n"
    said = run(master, "gnt-group", "capacity", "-I", "hail").splitlines()
    assert said[0].split() == ["Group", "Memory", "Disk", "VCPUs", "Count", "Total"]
    assert said[-2].startswith(
        "Node group default has no room: none of its nodes may be used: node1.example.com is not"
    )
    assert said[-1].startswith("Counted at ")
    assert "add -I ALLOCATOR" in run(master, "gnt-group", "capacity", status=1)
    assert "mars" in run(master, "gnt-group", "capacity", "-I", "hail", "mars", status=1)


def test_the_result_of_the_opcode(master: Master) -> None:
    job = master.wait(master.submit({"OP_ID": "OP_COMPUTE_CAPACITY", "iallocator": "hail", "max_cpu_ratio": 2.0}))
    (op,) = job.ops
    assert (job.status, sorted(op.result)) == ("success", ["cluster", "ctime", "node_groups"])
    (group,) = op.result["node_groups"].values()
    assert sorted(group) == ["default_template", "max_cpu_ratio", "max_disk_usage", "max_inst_spec", "tspecs"]
    assert group["max_cpu_ratio"] == 2.0
    assert time.time() - 60 < op.result["ctime"] <= time.time()


def test_a_query_takes_a_fourth_argument_and_needs_none(master: Master) -> None:
    question = ["node", ["name"], None]
    plain = master.luxi("Query", *question)
    for how in (None, {}, {"cache": "on"}, {"cache": "off"}):
        assert master.luxi("Query", *question, how) == plain
    for wrong in (True, "off", {"cache": False}, {"cache": "maybe"}, {"more": 1}):
        done, said = master.raw_luxi("Query", *question, wrong)
        assert not done and "fourth argument" in str(said)


def give_memory(fake_bed: FakeBed, node: str) -> None:
    """The same amount on every machine; to be said again after a node was without power."""
    capacity = json.dumps({"memory_total": 8192, "memory_dom0": 0})
    fake_bed.run("sh", "-c", f"mkdir -p {HOME} && echo '{capacity}' > {HOME}/.capacity", node=node)


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory) -> Iterator[FakeBed]:
    layout = bed.up(tmp_path_factory.mktemp("state").resolve(), 2, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        for node in layout.nodes:
            give_memory(found, node.name)
        yield found
    finally:
        bed.down(layout)


need_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")


def room(fake_bed: FakeBed, *options: str) -> int:
    """How many instances of 1 GiB fit, by the first line: the largest size."""
    return int(fake_bed.run(*CAPACITY, *SPEC, *options).splitlines()[0].rpartition(":")[2])


@need_root
def test_capacity_falls_with_what_is_created_and_is_kept_otherwise(fake_bed):
    before = room(fake_bed)
    assert before > 1

    def counted_at() -> str:
        return fake_bed.run("gnt-group", "capacity", *SPEC).splitlines()[-1]

    first = counted_at()
    time.sleep(1.1)  # what is told has seconds
    assert counted_at() == first, "nothing happened"
    fake_bed.run(*ADD, "web1")
    after = room(fake_bed)
    assert after < before
    assert room(fake_bed, "--cache=off") == after
    assert counted_at() != first
    fake_bed.run("gnt-instance", "remove", "-f", "web1")
    assert room(fake_bed) == before


@need_root
def test_what_if_nodes_came_or_were_lost(fake_bed):
    before = room(fake_bed)
    assert room(fake_bed, "--if-added=2:like=node2") == 3 * before, "one of four may fail, as one of two did"
    assert room(fake_bed, "--if-added=1:memory=8g,disk=100g,cpus=64") > before
    fake_bed.run(*ADD, "web1")
    after = room(fake_bed)
    lost = fake_bed.run("gnt-instance", "list", "--no-headers", "-o", "pnode", "web1").strip()
    told = fake_bed.run("gnt-group", "capacity", *SPEC, f"--if-lost={lost}")
    assert "If this were lost, 1 instance would move, none would stay down" in told
    nothing = room(fake_bed, "--if-lost=default", "--no-headers")
    assert (nothing, room(fake_bed)) == (0, after), "nothing of that is kept"
    assert after < before
    for wrong, sentence in (
        ("--if-lost=mars", "mars"),
        ("--if-added=2:like=mars", "There is no node mars"),
        ("--if-added=many", "New nodes cannot be 'many'"),
    ):
        assert sentence in fake_bed.run("gnt-group", "capacity", *SPEC, wrong, expect=1)
    fake_bed.run("gnt-instance", "remove", "-f", "web1")


@pytest.mark.requirement("S1.66")
@need_root
def test_parameters_are_those_of_the_group_and_then_the_clusters(fake_bed):
    def ratio() -> float:
        fake_bed.run(*CAPACITY)
        newest = max(fake_bed.data("node1").glob("queue/job-*[0-9]"), key=lambda path: int(path.name[4:]))
        (group,) = json.loads(newest.read_text())["ops"][0]["result"]["node_groups"].values()
        return float(group["max_cpu_ratio"])

    usual = ratio()
    fake_bed.run("gnt-cluster", "modify", "--capacity-parameters", "cpu_ratio=3")
    assert ratio() == 3.0 != usual
    fake_bed.run("gnt-group", "modify", "--capacity-parameters", "cpu_ratio=2", "default")
    assert ratio() == 2.0
    fake_bed.run("gnt-group", "modify", "--capacity-parameters=", "default")
    fake_bed.run("gnt-cluster", "modify", "--capacity-parameters=")
    assert ratio() == usual
    assert "capacity_params" not in json.dumps(fake_bed.config())


@need_root
def test_what_capacity_is_counted_in_is_shown_and_taken_away_again(fake_bed):
    before = fake_bed.run("gnt-group", "info")
    assert before.startswith("- Node group: default\n") and "Capacity" not in before
    fake_bed.run("gnt-cluster", "modify", "--capacity-parameters", "cpu_ratio=3,disk_usage=0.5")
    fake_bed.run("gnt-group", "modify", "--capacity-parameters", "memory=4g,disk=20g,vcpus=2,cpu_ratio=2", "default")
    assert "Capacity parameters: \n  cpu_ratio: 3\n  disk_usage: 0.5\n" in fake_bed.run("gnt-cluster", "info")
    lines = ["cpu_ratio: 2", "disk: 20480", "disk_usage: default (0.5)", "memory: 4096", "vcpus: 2"]
    shown = "".join(f"    {line}\n" for line in lines)
    assert fake_bed.run("gnt-group", "info", "default") == f"{before}  Capacity parameters: \n{shown}"
    fake_bed.run("gnt-group", "modify", "--capacity-parameters=default", "default")
    fake_bed.run("gnt-cluster", "modify", "--capacity-parameters=default")
    assert fake_bed.run("gnt-group", "info") == before
    assert "mars" in fake_bed.run("gnt-group", "info", "mars", expect=1)
    assert "capacity_params" not in json.dumps(fake_bed.config())


@pytest.fixture
def web3(fake_bed: FakeBed) -> Iterator[str]:
    """An instance that runs on node2, for one test."""
    fake_bed.run(*ADD, "-n", "node2", "web3")
    yield "web3"
    fake_bed.run("gnt-instance", "remove", "-f", "web3")


PROGRAM = """#!/usr/bin/python3
import json, sys
message = json.load(open(sys.argv[1]))
request = message["request"]
assert request["type"] == "capacity" and request["node_groups"] == list(message["nodegroups"]), request
with open("/tmp/counted", "a") as file:
    file.write("x")
entry = {"tspecs": [[1024, 2048, 1, len(message["nodes"])]]}
result = {"node_groups": dict.fromkeys(request["node_groups"], entry)}
print(json.dumps({"success": True, "info": "", "result": result}))
"""


@need_root
def test_a_program_is_asked_once(fake_bed):
    directory = "/usr/local/lib/ganeti/iallocators"
    fake_bed.run(
        "sh",
        "-c",
        f"mkdir -p {directory} && cat > {directory}/mine <<'END' && chmod 755 {directory}/mine\n{PROGRAM}END",
    )
    for _ in range(3):
        assert fake_bed.run(*CAPACITY, "-I", "mine") == "default:1024:2048:1:2:2\n"
    assert fake_bed.run("cat", "/tmp/counted") == "x"
    fake_bed.run(*CAPACITY, "-I", "mine", "--cache=off")
    assert fake_bed.run("cat", "/tmp/counted") == "xx"
    fake_bed.run("sh", "-c", f"printf '#!/bin/sh\necho {{}}\n' > {directory}/mine")
    assert "breaks the protocol" in fake_bed.run(*CAPACITY, "-I", "mine", "--cache=off", expect=1)


def statuses(fake_bed: FakeBed, *options: str) -> str:
    return fake_bed.run("gnt-instance", "list", "--no-headers", *options, "-o", "status").strip()


@pytest.mark.requirement("S1.51")
@need_root
def test_a_list_shows_what_a_job_did_and_may_be_seconds_behind_the_rest(fake_bed):
    fake_bed.run(*ADD, "-n", "node2", "web2")
    for _ in range(3):
        assert statuses(fake_bed) == "running"
        fake_bed.run("gnt-instance", "shutdown", "web2")
        assert statuses(fake_bed) == "ADMIN_down"
        fake_bed.run("gnt-instance", "startup", "web2")
    free = ("gnt-node", "list", "--no-headers", "--units", "m", "-o", "mfree", "node2")
    with_guest = int(fake_bed.run(*free))
    assert statuses(fake_bed) == "running"
    fake_bed.run("rm", f"{HOME}/web2", node="node2")
    assert statuses(fake_bed, "--cache=off") == "ERROR_down"
    fake_bed.wait(lambda: statuses(fake_bed) == "ERROR_down", "the list notices by itself", within_s=10)
    fake_bed.run("gnt-instance", "remove", "-f", "web2")
    assert int(fake_bed.run(*free)) == with_guest + 1024


@pytest.mark.requirement("S1.38")
@need_root
def test_what_the_master_remembers_of_nodes_lies_in_no_file(fake_bed):
    """A size that only node2's report can tell is in lists, and in no file of the master's machine."""
    mark = 98765431  # no part of a time
    capacity = json.dumps({"memory_total": mark, "memory_dom0": 0})
    fake_bed.run("sh", "-c", f"echo '{capacity}' > {HOME}/.capacity", node="node2")
    try:
        columns = ("gnt-node", "list", "--no-headers", "--units", "m", "-o", "mtotal", "node2")
        fake_bed.wait(lambda: fake_bed.run(*columns).strip() == str(mark), "the list shows it", within_s=10)
        places = "/var/lib/ganeti /run/ganeti /var/log/ganeti /var/cache /tmp"
        found = fake_bed.run("sh", "-c", f"grep -rlsI -e {mark} {places}; true").split()
        assert found == []
    finally:
        give_memory(fake_bed, "node2")


ASK = """
import json, socket, sys
with socket.socket(socket.AF_UNIX) as luxi:
    luxi.connect("/run/ganeti/socket/ganeti-master")
    luxi.sendall(sys.argv[1].encode() + b"\\x03")
    answer = b""
    while not answer.endswith(b"\\x03"):
        answer += luxi.recv(1 << 16)
    print(answer[:-1].decode())
"""
RENEW = "OP_UPDATE_NODE_GROUP_CACHE"


def submit(fake_bed: FakeBed, op_id: str, **fields: object) -> int:
    call = json.dumps({"method": "SubmitJob", "args": [[{"OP_ID": op_id, **fields}]]})
    answer = json.loads(fake_bed.run("python3", "-c", ASK, call))
    assert answer["success"], answer
    return int(answer["result"])


def ended(fake_bed: FakeBed, job: int) -> dict:
    """The entry of the one opcode of a job that comes to its end."""
    fake_bed.wait(lambda: fake_bed.job_status(job) in FINAL_STATUSES, f"job {job} ends")
    (entry,) = json.loads((fake_bed.data("node1") / f"queue/job-{job}").read_text())["ops"]
    return entry


def renew(fake_bed: FakeBed, group: str = "default") -> dict:
    return ended(fake_bed, submit(fake_bed, RENEW, group_name=group))


@pytest.mark.requirement("S1.48", "S1.54")
@need_root
@pytest.mark.usefixtures("web3")
def test_a_job_renews_a_group_and_lists_show_what_it_heard(fake_bed):
    counted = fake_bed.run("gnt-group", "capacity", *SPEC).splitlines()[-1]
    time.sleep(1.1)  # what is told has seconds
    for _ in range(3):
        assert statuses(fake_bed) == "running"
        fake_bed.run("mv", f"{HOME}/web3", "/tmp/web3", node="node2")
        entry = renew(fake_bed)
        assert statuses(fake_bed) == "ERROR_down", "at once, although the list before is not two seconds old"
        assert entry["result"]["instances"] == {
            "web3": {"pnode": "node2", "status": "ERROR_down", "admin_state": "up", "oper_ram": None}
        }
        fake_bed.run("mv", "/tmp/web3", f"{HOME}/web3", node="node2")
        entry = renew(fake_bed)
        assert statuses(fake_bed) == "running"
        assert entry["result"]["instances"]["web3"]["oper_ram"] == 1024
    listed = fake_bed.run("gnt-node", "list", "--no-headers", "--separator=|", "--units=m", "-o", "name,bootid,mtotal")
    nodes = entry["result"]["nodes"]
    assert listed.splitlines() == [f"{name}|{node['bootid']}|{node['mtotal']}" for name, node in nodes.items()]
    assert fake_bed.run("gnt-group", "capacity", *SPEC).splitlines()[-1] != counted, "capacity was counted anew (S1.48)"


@need_root
def test_a_group_that_does_not_exist_is_named(fake_bed):
    entry = renew(fake_bed, "mars")
    assert entry["status"] == "error"
    assert "mars" in str(entry["result"])


@need_root
@pytest.mark.usefixtures("web3")
def test_what_changes_while_the_job_waits_is_seen_and_waits_for_nothing(fake_bed):
    """With low priority it keeps no other job waiting, although it wants all locks of the group."""
    wait = {"duration": 600, "on_master": False, "on_nodes": ["node1"], "no_locks": False}
    delay = submit(fake_bed, "OP_TEST_DELAY", **wait)
    fake_bed.wait(lambda: fake_bed.job_status(delay) == "running", "node1 is locked")
    fake_bed.run(*ADD, "-n", "node2", "web4")
    waiting = submit(fake_bed, RENEW, group_name="default", priority=10)
    fake_bed.wait(lambda: f"job {delay} " in fake_bed.run("gnt-job", "why", str(waiting)), "it waits for the lock")
    fake_bed.run("gnt-instance", "remove", "-f", "web4")
    fake_bed.run(*ADD, "-n", "node2", "web5")
    assert fake_bed.job_status(waiting) == "queued"
    fake_bed.run("gnt-job", "cancel", "--kill", "--yes-do-it", str(delay))
    entry = ended(fake_bed, waiting)
    assert entry["status"] == "success"
    assert list(entry["result"]["instances"]) == ["web3", "web5"]
    fake_bed.run("gnt-instance", "remove", "-f", "web5")


def renewals(fake_bed: FakeBed, *options: str) -> list[str]:
    rows = fake_bed.run("gnt-job", "list", "--no-headers", "--separator=|", "-o", "status,summary", *options)
    return [row for row in rows.splitlines() if "UPDATE_NODE_GROUP_CACHE" in row]


@pytest.mark.requirement("S1.57", "S1.62")
@need_root
@pytest.mark.usefixtures("web3")
def test_the_watcher_has_the_group_renewed_and_starts_what_is_down(fake_bed):
    log = ("sh", "-c", "cat /var/log/ganeti/watcher.log 2>/dev/null || true")
    before, logged = len(renewals(fake_bed, "--filter", "archived")), len(fake_bed.run(*log))
    fake_bed.run("rm", f"{HOME}/web3", node="node2")
    fake_bed.run("ganeti-watcher")
    assert statuses(fake_bed, "--cache=off") == "running"
    assert len(renewals(fake_bed, "--filter", "archived")) == before, "nothing is kept of what it told"
    shown = fake_bed.run("sh", "-c", "cat /run/ganeti/instance-status.group-*; cat /run/ganeti/instance-status")
    assert shown == "web3 running\n" * 2
    assert "asked without a job" not in fake_bed.run(*log)[logged:]


@pytest.mark.requirement("S1.60")
@need_root
@pytest.mark.usefixtures("web3")
def test_a_group_at_which_a_long_job_is_at_work_is_watched_all_the_same(fake_bed):
    """The job that should tell how the group is waits for a lock; it is taken back, and the nodes are asked."""
    wait = {"duration": 600, "on_master": False, "on_nodes": ["node1"], "no_locks": False}
    delay = submit(fake_bed, "OP_TEST_DELAY", **wait)
    fake_bed.wait(lambda: fake_bed.job_status(delay) == "running", "node1 is locked")
    fake_bed.run("rm", f"{HOME}/web3", node="node2")
    fake_bed.run("ganeti-watcher")
    try:
        assert statuses(fake_bed, "--cache=off") == "running"
        assert renewals(fake_bed)[-1] == f"canceled|UPDATE_NODE_GROUP_CACHE({group_uuid(fake_bed)})"
        assert "its nodes are asked without a job: job" in fake_bed.run("cat", "/var/log/ganeti/watcher.log")
    finally:
        fake_bed.run("gnt-job", "cancel", "--kill", "--yes-do-it", str(delay))
        ended(fake_bed, delay)


def group_uuid(fake_bed: FakeBed) -> str:
    (uuid,) = fake_bed.config()["nodegroups"]
    return str(uuid)


def node2_is_unknown(fake_bed: FakeBed) -> None:
    entry = renew(fake_bed)
    assert entry["status"] == "success"
    assert entry["result"]["nodes"]["node1"]["bootid"]
    assert set(entry["result"]["nodes"]["node2"].values()) == {False, None}
    assert entry["result"]["instances"]["web3"]["status"] == "ERROR_nodedown"
    assert "Node node2 did not answer" in str(entry["log"])
    fake_bed.run("ganeti-watcher")
    assert fake_bed.run("cat", "/run/ganeti/instance-status") == "web3 ERROR_nodedown\n"


@need_root
@pytest.mark.usefixtures("web3")
def test_a_node_that_hangs_and_one_without_power_are_no_error(fake_bed):
    layout, node2 = fake_bed.layout, fake_bed.layout.node("node2")
    machine.stop(layout, node2)
    try:
        node2_is_unknown(fake_bed)
    finally:
        machine.resume(layout, node2)
    fake_bed.wait(lambda: statuses(fake_bed, "--cache=off") == "running", "the node answers again")
    machine.kill(layout, node2)
    try:
        node2_is_unknown(fake_bed)
    finally:
        machine.start(layout, node2)
        give_memory(fake_bed, "node2")
    fake_bed.wait(lambda: statuses(fake_bed, "--cache=off") == "ERROR_down", "the node answers again")
    fake_bed.run("ganeti-watcher")
    assert statuses(fake_bed, "--cache=off") == "running"
