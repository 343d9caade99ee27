# SPDX-License-Identifier: BSD-2-Clause
"""Commands that are more than one job or one table."""

import json
import os

import pytest
from fake_master import Failed, Turns

from ganeti.cli import confirm, environment
from ganeti.cli.commands.cluster import setup as cluster_setup
from ganeti.cli.commands.cluster.info import romanized
from ganeti.cli.commands.instance.console import ssh_command
from ganeti.cli.commands.instance.info import describe
from ganeti.cli.commands.node import setup as node_setup
from ganeti.cli.infotext import render


def ssconf(tmp_path, **values):
    directory = tmp_path / "root/var/lib/ganeti"
    directory.mkdir(parents=True)
    for key, text in values.items():
        (directory / f"ssconf_{key}").write_text(text + "\n")


def cells(*rows):
    return {"fields": [], "data": [[[0, value] for value in row] for row in rows]}


def test_watch_tells_the_fate_of_the_job(gnt, master):
    master.job(["OpExecError", ["boom"]], status="error")
    ran = gnt("gnt-job watch 3")
    assert (ran.status, ran.out) == (1, "Output from job 3 follows\n-------------------------\n")
    assert ran.err == "Job 3 failed: Failure: command execution error:\nboom\n"


def test_wait_is_silent(gnt, master):
    master.job(log=([1, [1, 0], "message", "x"],))
    ran = gnt("gnt-job wait 3")
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    master.job(["OpExecError", ["boom"]], status="error")
    assert gnt("gnt-job wait 3").status == 1


@pytest.mark.parametrize("command", ["watch", "wait"])
def test_an_unknown_job(gnt, master, command):
    master.answers["QueryJobs"] = lambda ids, fields: [[None] * len(fields)]
    ran = gnt(f"gnt-job {command} 99")
    assert (ran.status, ran.out, ran.err) == (1, "", "Job ID 99 not found\n")


def test_information_about_an_unknown_job_is_no_error(gnt, master):
    """It stands among that of the others, where scripts of 3.1 look for it."""
    master.answers["QueryJobs"] = lambda ids, fields: [[None] * len(fields)]
    ran = gnt("gnt-job info 99")
    assert (ran.status, ran.out, ran.err) == (0, "- Job ID 99 not found\n", "")


def test_archive(gnt, master):
    master.answers["ArchiveJob"] = Turns(True, False)
    ran = gnt("gnt-job archive 1 2")
    assert ran.status == 1
    assert "ID '2'" in ran.err
    assert master.calls("ArchiveJob") == [[1], [2]]


def test_cancel_says_what_the_cluster_says(gnt, master):
    master.answers["CancelJob"] = Turns([True, "Dequeued job 1"], [False, "Job 2 not found in queue"])
    master.answers["QueryJobs"] = [[None]]
    ran = gnt("gnt-job cancel 1 2")
    assert (ran.status, ran.out, ran.err) == (1, "Dequeued job 1\nJob 2 not found in queue\n", "")
    gnt("gnt-job cancel --kill --yes-do-it 7")
    assert master.calls("CancelJob") == [[1, False], [2, False], [7, True]]


def test_cancel_by_state_asks(gnt, master, monkeypatch):
    master.answers["Query"] = cells([3], [4])
    master.answers["CancelJob"] = [True, "ok"]
    monkeypatch.setattr(confirm, "ask", lambda question: False)
    assert gnt("gnt-job cancel --queued").status == 13
    assert not master.calls("CancelJob")
    assert gnt("gnt-job cancel -f --queued").status == 0
    assert master.calls("CancelJob") == [[3, False], [4, False]]
    master.answers["Query"] = cells()
    ran = gnt("gnt-job cancel --waiting")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.endswith("No jobs with the requested status have been found\n")


def test_getmaster_reads_ssconf(gnt, tmp_path):
    assert gnt("gnt-cluster getmaster").status == 5
    ssconf(tmp_path, master_node="node1.example.com")
    ran = gnt("gnt-cluster getmaster")
    assert (ran.status, ran.out) == (0, "node1.example.com\n")


def test_who_may_not_read_is_told_so(gnt, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError

    monkeypatch.setattr(environment, "open", refuse, raising=False)
    ran = gnt("gnt-cluster getmaster")
    assert ran.status == 1
    assert ran.err.endswith("ssconf_master_node: run this as root\n")


def test_version_works_on_every_node(gnt, tmp_path, monkeypatch):
    ssconf(tmp_path, master_node="node1")
    monkeypatch.setenv("GANETI_HOSTNAME", "node2")
    ran = gnt("gnt-cluster version")
    assert ran.status == 0
    assert ran.out.splitlines()[:3] == [
        "Software version: 3.1.0",
        "Internode protocol: 3010000",
        "Configuration format: 3010000",
    ]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("--to 3.1", 0, "is at version 3.1 already"),
        ("--to 3.2", 1, "Version 3.2 is not installed, 3.1 is"),
        ("--to 3", 1, "'3' is not a version"),
        ("--resume", 1, "none to resume"),
        ("", 1, "needs either --to VERSION or --resume"),
        ("--to 3.1 --resume", 1, "needs either --to VERSION or --resume"),
    ],
)
def test_an_upgrade_knows_one_version(gnt, words, status, said):
    ran = gnt(f"gnt-cluster upgrade {words}")
    assert ran.status == status and said in ran.out + ran.err


def test_no_cluster_and_not_the_master(gnt, tmp_path, monkeypatch):
    ran = gnt("gnt-node list")
    assert ran.status == 5
    assert "gnt-cluster init" in ran.err
    ssconf(tmp_path, master_node="node1.example.com")
    monkeypatch.setenv("GANETI_HOSTNAME", "node2.example.com")
    ran = gnt("gnt-node list")
    assert ran.status == 11
    assert "connect to node 'node1.example.com'" in ran.err
    monkeypatch.setenv("GANETI_HOSTNAME", "node1")
    ran = gnt("gnt-node list")
    assert ran.status == 1
    assert "daemon-util start-master" in ran.err


def test_a_lost_name_of_the_master_is_found_in_the_configuration(gnt, tmp_path, monkeypatch):
    ssconf(tmp_path, cluster_name="cluster")
    data = tmp_path / "root/var/lib/ganeti"
    monkeypatch.setenv("GANETI_HOSTNAME", "node1")
    ran = gnt("gnt-node list")
    assert ran.status == 11
    assert "No file of this node says who is the master" in ran.err and "gnt-cluster getmaster" in ran.err
    nodes = {f"uuid-{name}": {"name": name} for name in ("node1", "node2")}
    (data / "config.data").write_text(json.dumps({"cluster": {"master_node": "uuid-node1"}, "nodes": nodes}))
    ran = gnt("gnt-node list")
    assert (ran.status, "daemon-util start-master" in ran.err) == (1, True)
    assert gnt("gnt-cluster getmaster").out == "node1\n"
    monkeypatch.setenv("GANETI_HOSTNAME", "node2")
    ran = gnt("gnt-node list")
    assert ran.status == 11
    assert "connect to node 'node1'" in ran.err


def test_who_has_begun_to_become_the_master_is_not_sent_elsewhere(gnt, tmp_path, monkeypatch):
    ssconf(tmp_path, cluster_name="cluster", master_node="node1")
    data = tmp_path / "root/var/lib/ganeti"
    nodes = {f"uuid-{name}": {"name": name} for name in ("node1", "node2")}
    (data / "config.data").write_text(json.dumps({"cluster": {"master_node": "uuid-node1"}, "nodes": nodes}))
    (data / "noded-epoch.json").write_text(json.dumps({"epoch": 2, "attempts": {}, "holder": "uuid-node2"}))
    for host, told in (("node2", "run 'daemon-util start-master' here"), ("node1", "connect to node 'node2'")):
        monkeypatch.setenv("GANETI_HOSTNAME", host)
        ran = gnt("gnt-node list")
        assert (ran.status, told in ran.err) == (11, True), ran.err


def test_init_hands_its_options_to_the_bootstrap(gnt, master, monkeypatch):
    given = []
    monkeypatch.setattr(cluster_setup, "make_cluster", given.append)
    master.job(True)
    line = (
        "gnt-cluster init --enabled-hypervisors fake,kvm --enabled-disk-templates=sharedfile --no-etc-hosts "
        "--no-ssh-init -C 5 -s 10.1.0.1 --master-netdev lo -H fake:migration_mode=non-live -B vcpus=2 -N link=br0 "
        "--uid-pool 1-5 --ipolicy-bounds-specs min:disk-size=1g/max:disk-size=2g --specs-mem-size min=64m cluster"
    )
    assert gnt(line).status == 0
    assert given == [
        {
            "cluster_name": "cluster",
            "enabled_hypervisors": ["fake", "kvm"],
            "enabled_disk_templates": ["sharedfile"],
            "modify_etc_hosts": False,
            "modify_ssh_setup": False,
            "candidate_pool_size": 5,
            "secondary_ip": "10.1.0.1",
            "master_netdev": "lo",
            "hvparams": {"fake": {"migration_mode": "non-live"}},
            "beparams": {"vcpus": "2"},
            "nicparams": {"link": "br0"},
            "uid_pool": [[1, 5]],
            "ipolicy": {"minmax": [{"min": {"disk-size": 1024}, "max": {"disk-size": 2048}}]},
            "specs_mem_size": {"min": "64m"},
        }
    ]
    assert master.submitted() == [{"OP_ID": "OP_CLUSTER_POST_INIT"}]


def test_init_refuses_a_second_cluster(gnt, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_setup, "make_cluster", lambda options: pytest.fail("made a cluster"))
    ssconf(tmp_path, master_node="node1", cluster_name="old")
    ran = gnt("gnt-cluster init new")
    assert ran.status == 1
    assert "(old)" in ran.err


def test_errors_of_the_bootstrap_read_like_those_of_jobs(gnt, monkeypatch):
    from ganeti.base.errors import PrerequisiteError

    def refuse(options):
        raise PrerequisiteError("No such address", "resolver_error")

    monkeypatch.setattr(cluster_setup, "make_cluster", refuse)
    ran = gnt("gnt-cluster init new")
    assert ran.status == 1
    assert ran.err.endswith("error type: resolver_error, error details:\nNo such address\n")


def test_destroy_takes_the_node_down_after_the_cluster_agreed(gnt, master, monkeypatch):
    left = []
    monkeypatch.setattr(cluster_setup, "leave_cluster", left.append)
    master.job("uuid-of-master")
    assert gnt("gnt-cluster destroy --yes-do-it").status == 0
    assert left == ["uuid-of-master"]
    master.job(["OpPrereqError", ["There are still 2 instances", "wrong_state"]], status="error")
    assert gnt("gnt-cluster destroy --ya-rly").status == 1
    assert left == ["uuid-of-master"]


class Joining:
    """What `gnt-node add` asks of the machine."""

    def __init__(self) -> None:
        self.options: list[dict] = []
        self.asked: list[str] = []

    def begin(self, options: dict) -> "Joining":
        self.options.append(options)
        return self

    def __getattr__(self, what: str):
        return lambda: self.asked.append(what)


@pytest.fixture
def joining(master, monkeypatch):
    made = Joining()
    monkeypatch.setattr(node_setup, "begin_joining", made.begin)
    master.answers["Query"] = cells(["node1.example.com"])
    master.answers["QueryConfigValues"] = ["cluster"]
    return made


def test_node_add_joins_then_submits(gnt, master, joining):
    master.job()
    line = "gnt-node add -s 10.1.0.2 -g rack1 --node-parameters ssh_port=2222 --vm-capable no --no-ssh-key-check node2"
    assert gnt(line).status == 0
    assert joining.options == [
        {
            "node_name": "node2",
            "cluster_name": "cluster",
            "readd": False,
            "force_join": False,
            "node_setup": True,
            "ssh_key_check": False,
            "ssh_port": 2222,
            "verbose": False,
            "debug": False,
        }
    ]
    assert joining.asked == ["set_up", "asks_cluster", "keep", "close"]
    opcode = {
        "OP_ID": "OP_NODE_ADD",
        "node_name": "node2",
        "secondary_ip": "10.1.0.2",
        "group": "rack1",
        "ndparams": {"ssh_port": "2222"},
        "vm_capable": False,
        "readd": False,
        "node_setup": True,
    }
    assert master.submitted() == [{**opcode, "dry_run": True}, opcode]


def test_node_add_leaves_the_machine_alone_if_the_master_refuses(gnt, master, joining):
    master.job(["OpPrereqError", ["Group 'rack9' not known", "unknown_entity"]], status="error")
    ran = gnt("gnt-node add -g rack9 node2")
    assert ran.status == 1 and "rack9" in ran.err
    assert joining.asked == ["close"]


@pytest.mark.parametrize(
    ("error", "options", "is_node", "is_taken_back"),
    [
        ("OpExecError", "", False, True),
        ("OpExecError", "", True, False),
        ("JobCanceled", "", False, True),
        ("OpPrereqError", "--readd", True, True),
        ("OpExecError", "--readd", True, False),
    ],
)
def test_a_machine_is_taken_back_only_if_it_is_no_node(gnt, master, joining, error, options, is_node, is_taken_back):
    """A job may fail after the commit that takes the node in."""
    before = cells(["node1.example.com"], *([["node2.example.com"]] if options else []))
    after = cells(["node1.example.com"], *([["node2.example.com"]] if is_node else []))
    master.answers["Query"] = Turns(before, after)
    master.job([error, ["node2 does not answer"]], status="error")
    failed = master.answers["QueryJobs"]
    master.answers["QueryJobs"] = Turns([["success", ["success"], [None]]], failed)
    master.answers["WaitForJobChange"] = Turns([["success"], []], [["error"], []])
    assert gnt(f"gnt-node add {options} node2").status == 1
    assert ("take_back" in joining.asked) == is_taken_back
    assert joining.asked[-1] == "close"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("gnt-node add node1", "please retry with '--readd'"),
        ("gnt-node add --readd node9", "please retry without '--readd'"),
        ("gnt-node add --node-parameters ssh_port=x node9", "'x' is not a whole number"),
    ],
)
def test_node_add_refuses_before_anything_changes(gnt, master, joining, line, message):
    ran = gnt(line)
    assert joining.options == []
    assert ran.status != 0
    assert message in ran.err
    assert master.submitted() == []


CONSOLE = {"instance": "web1", "kind": "ssh", "host": "node1", "user": "root", "port": None, "command": ["a", "b c"]}


def test_console_by_ssh(gnt, master, tmp_path, monkeypatch):
    ssconf(tmp_path, cluster_name="cluster")
    master.job(CONSOLE)
    shown = gnt("gnt-instance console --show-cmd web1").out
    assert shown.startswith("ssh -q -o EscapeChar=none")
    assert "HostKeyAlias=cluster" in shown
    assert shown.endswith("-t root@node1 -- 'a '\"'\"'b c'\"'\"''\n")
    started = []
    monkeypatch.setattr(os, "execvp", lambda program, words: started.append((program, words)))
    gnt("gnt-instance console web1")
    assert started == [("ssh", ssh_command(CONSOLE, "cluster"))]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            {"kind": "vnc", "instance": "web1", "host": "h", "port": 5901, "display": 1},
            "Instance web1 has VNC listening on h:5901, display :1\n",
        ),
        (
            {"kind": "vnc", "instance": "web1", "host": "fd77::1", "port": 5901, "display": 1},
            "Instance web1 has VNC listening on [fd77::1]:5901, display :1\n",
        ),
        (
            {"kind": "spice", "instance": "web1", "host": "h", "port": 5902},
            "Instance web1 has SPICE listening on h:5902\n",
        ),
    ],
)
def test_consoles_to_look_at(gnt, master, answer, text):
    master.job(answer)
    assert gnt("gnt-instance console web1").out == text


def test_console_needs_root(gnt, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("GANETI_ROOTDIR")
    ran = gnt("gnt-instance console web1")
    assert (ran.status, ran.err) == (1, "gnt-instance console must be run as root: log in as root or use sudo\n")


def test_roman():
    assert romanized({"a": 1994, "b": [4, 0, "x", True], "ctime": 7}) == {
        "a": "MCMXCIV",
        "b": ["IV", 0, "x", True],
        "ctime": 7,
    }


def instance(**more):
    data = {
        "name": "web1",
        "uuid": "u",
        "serial_no": 1,
        "ctime": 0,
        "mtime": 0,
        "config_state": "down",
        "run_state": None,
        "pnode": "node1",
        "pnode_group_name": "default",
        "pnode_group_uuid": "g",
        "snodes": [],
        "snodes_group_names": [],
        "snodes_group_uuids": [],
        "os": "noop",
        "os_instance": {},
        "os_actual": {},
        "network_port": None,
        "hypervisor": "kvm",
        "hv_instance": {},
        "hv_actual": {},
        "be_instance": {},
        "be_actual": {},
        "nics": [],
        "disk_template": "plain",
        "disks": [],
    }
    return render(describe(data | more)).splitlines()


DISK = {
    "iv_name": "disk/0",
    "dev_type": "plain",
    "logical_id": ["xenvg", "lv0"],
    "drbd_info": None,
    "pstatus": ["/dev/xenvg/lv0", 254, 0, None, None, False, 1],
    "sstatus": None,
    "children": [],
    "mode": "rw",
    "size": 1536,
    "spindles": None,
    "name": None,
    "uuid": "d0",
}


def test_a_plain_disk():
    lines = instance(disks=[DISK])
    assert lines[lines.index("Disks: ") + 1 :] == [
        "  - disk/0: plain, size 1.5G",
        "    access mode: rw",
        "    logical_id: xenvg/lv0",
        "    on primary: /dev/xenvg/lv0 (254:0)",
        "    name: None",
        "    UUID: d0",
    ]


def test_a_disk_in_a_file_shows_driver_and_path():
    lines = instance(disks=[DISK | {"logical_id": ["loop", "/srv/a"], "pstatus": None}])
    assert "    logical_id: [loop, /srv/a]" in lines


def test_a_mirrored_disk_shows_both_sides_and_its_children():
    mirror = {"primary_node": "a", "primary_minor": 0, "secondary_node": "b", "secondary_minor": 1, "port": 11000}
    disk = DISK | {
        "dev_type": "drbd",
        "drbd_info": mirror,
        "pstatus": ["/dev/drbd0", 147, 0, None, None, False, 1],
        "sstatus": ["/dev/drbd1", 147, 1, 12.344, 5, True, 4],
        "children": [DISK | {"iv_name": ""}],
    }
    lines = instance(disks=[disk], snodes=[["b", False]], snodes_group_names=["g2"], snodes_group_uuids=["u2"])
    assert "    nodeA: a, minor=0" in lines
    assert "    nodeB: b, minor=1" in lines
    assert "    port: 11000" in lines
    assert "    on primary: /dev/drbd0 (147:0) in sync, status ok" in lines
    assert "    on secondary: /dev/drbd1 (147:1) *RECOVERING* 12.34%, ETA 5s, status *DEGRADED* *MISSING DISK*" in lines
    assert "      - child 0: plain, size 1.5G" in lines
    assert "  - secondaries: b (group g2, group UUID u2)" in lines


@pytest.mark.parametrize(
    ("bind", "place"),
    [("eth0", "node1:11005 (display 5105)"), ("192.0.2.1", "192.0.2.1:11005"), ("fd00::1", "[fd00::1]:11005")],
)
def test_where_a_display_is(bind: str, place: str) -> None:
    lines = instance(network_port=11005, hv_actual={"vnc_bind_address": bind})
    assert f"console connection: vnc to {place}" in lines


def test_nics_consoles_and_own_values():
    nic = [None, "n0", None, "aa:00:00:00:00:01", "bridged", "br0", "", "net-uuid", {"name": "lan"}]
    lines = instance(
        nics=[nic],
        network_port=11005,
        hv_instance={"acpi": False},
        hv_actual={"acpi": False, "vnc_bind_address": "0.0.0.0"},
        be_instance={"maxmem": 256},
        be_actual={"maxmem": 256, "vcpus": 1},
    )
    assert "console connection: vnc to node1:11005 (display 5105)" in lines
    assert "  acpi: False" in lines
    assert "  vnc_bind_address: default (0.0.0.0)" in lines
    assert "  memory: 256" in lines
    assert "  vcpus: default (1)" in lines
    start = lines.index("  - nic/0: ")
    assert lines[start + 1 : start + 9] == [
        "    MAC: aa:00:00:00:00:01",
        "    IP: None",
        "    mode: bridged",
        "    link: br0",
        "    vlan: ",
        "    network: lan",
        "    UUID: n0",
        "    name: None",
    ]


def test_offline_node_with_power_control(gnt, master):
    known = ["node1", "10.0.0.1", "10.0.0.1", False, False, True, True, True, False, [], [], {"ssh_port": 22}]
    master.answers["Query"] = lambda what, *_: cells(["rack1"] if what == "group" else [*known, {"ssh_port": 22}])
    lines = gnt("gnt-node info -g rack1 node1").out.splitlines()
    assert "  powered: True" in lines
    assert not any("instances" in line for line in lines)
    assert "    ssh_port: 22" in lines
    assert master.calls("Query")[1][2] == ["&", ["|", ["==", "name", "node1"]], ["==", "group", "rack1"]]


def test_a_job_that_still_runs(gnt, master):
    row = [5, "running", [{"OP_ID": "OP_X"}], [None], ["running"], [[]], [[1, 0]], [None], [None], [1, 0], [1, 0], None]
    master.answers["QueryJobs"] = [row]
    lines = gnt("gnt-job info 5").out.splitlines()
    assert "  Total processing time: N/A" in lines
    assert "  Processing end:   N/A" in lines
    assert "      Execution start:  N/A" in lines


def test_a_failed_query_is_one_failure(gnt, master):
    master.answers["Query"] = Failed("GenericError", "Query 'x' not supported")
    ran = gnt("gnt-job list")
    assert (ran.status, ran.err) == (1, "Failure: Query 'x' not supported\n")


def test_a_directory_is_not_copied_to_nodes(gnt, master, tmp_path):
    ran = gnt(f"gnt-cluster copyfile {tmp_path}")
    assert (ran.status, ran.err) == (1, f"'{tmp_path}' is a directory: name the files in it, one at a time\n")
    assert "name one that is on the master" in gnt(f"gnt-cluster copyfile {tmp_path}/gone").err
