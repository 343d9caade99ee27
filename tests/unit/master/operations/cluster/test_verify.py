# SPDX-License-Identifier: BSD-2-Clause
"""Verification: silent about a healthy cluster, one line with the right code about each fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace as replace_dataclass
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import LOCAL_DIR, SHARED_DIR, add_instance, catalogue, configuration

from ganeti.base.errors import GanetiError, NodeUnreachableError, OtherReleaseError, PrerequisiteError
from ganeti.master.operations.cluster.verify import VerifyCluster
from ganeti.master.operations.cluster.verify_config import VerifyConfiguration
from ganeti.master.operations.cluster.verify_group import VerifyGroup
from ganeti.master.verify.findings import CODES
from ganeti.model.copies import Copy
from ganeti.model.objects import CLUSTER_KEY, CONFIG_VERSION, NodeGroup

Answer = dict[str, Any]
AUTHORITY_KEY = "/var/lib/ganeti/ca.key"
OS = {
    "name": "noop",
    "path": "/srv/ganeti/os/noop",
    "valid": True,
    "message": "",
    "variants": ["default"],
    "parameters": [],
    "api_versions": [20],
    "trusted": True,
}

CAPACITY = {"memory_total": 200000, "memory_free": 100000, "memory_dom0": 1000, "cpu_total": 8}


def guest(name: str) -> Answer:
    return {"name": name, "hypervisor": "pretend", "memory_mib": 1, "vcpus": 1, "state": "running", "cpu_time_s": 0.0}


class Cluster:
    """A healthy cluster of three nodes and two instances whose nodes' answers can be spoiled."""

    def __init__(self) -> None:
        self.ctx = FakeContext(configuration(), catalogue())
        self.ctx.outstanding_undo = list  # type: ignore[attr-defined]
        config = self.config = self.ctx.config.config
        for index in (1, 2, 3):
            node = config.node(f"uuid-node{index}")
            config.put("nodes", node.uuid, replace(node, master_candidate=index < 3))
        self.set_cluster(
            candidate_certs={"uuid-node1": "digest-node1", "uuid-node2": "digest-node2"},
            hvparams={"pretend": {"kernel": "/boot/k", "port": 80}},
            candidate_pool_size=2,
        )
        self.web1 = add_instance(config, "web1", "uuid-node1")
        self.web2 = add_instance(config, "web2", "uuid-node2", template="local", admin_state="down")
        self.spoil: Callable[[str, Answer], None] = lambda name, answer: None
        self.hooks: Callable[[str], list[list[Any]]] = lambda name: []
        self.asked: dict[str, Answer] = {}
        self.ctx.nodes.handlers["node_verify"] = self.answer
        self.ctx.nodes.handlers["hooks_runner"] = lambda name, **_: self.hooks(name)

    def set_cluster(self, **values: Any) -> None:
        self.config.put("cluster", CLUSTER_KEY, replace(self.config.cluster, **values))

    def set_instance(self, instance: Any, **values: Any) -> None:
        self.config.put("instances", instance.uuid, replace(self.config.instance(instance.uuid), **values))

    def answer(self, name: str, checks: Answer) -> Answer:
        self.asked[name] = checks
        disks = [str(disk.logical_id[1]) for disk in self.config.disks()]
        whole: Answer = {
            "version": [CONFIG_VERSION, "3.1"],
            "time": [1000, 0],
            "client-cert": f"digest-{name}",
            "certificates": {path: 1e10 for path in checks.get("certificates", [])},
            "filelist": {
                path: None if name == "node3" and path == AUTHORITY_KEY else "same"
                for path in checks.get("filelist", [])
            },
            "config-copy": {"serial_no": 9, "fingerprint": "print9"},
            "node-net-test": {},
            "master-ip": True,
            "bridges": [],
            "hypervisor": {"pretend": []},
            "hvparms": [],
            "hvinfo": {"pretend": dict(CAPACITY)},
            "storage": {f"local {LOCAL_DIR}": [], f"common {SHARED_DIR}": []},
            "disks": {f"common {SHARED_DIR}": disks[:1], f"local {LOCAL_DIR}": disks[1:] if name == "node2" else []},
            "disk-status": {},
            "allowed-file-storage-paths": [],
            "instances": [guest("web1")] if name == "node1" else [],
            "oslist": [dict(OS)],
            "oob-paths": [],
            "user-scripts": [],
            "file-modes": [],
        }
        self.spoil(name, whole)
        return whole if "version" in checks else {key: value for key, value in whole.items() if key in checks}

    def group(self, **fields: Any) -> tuple[bool, list[str]]:
        good = run(VerifyGroup(group_name="default", error_codes=True, **fields), self.ctx)
        return good, [line for line in self.ctx.lines if line.startswith("  - ")]


def on(node: str, **values: Any) -> Callable[[str, Answer], None]:
    def spoil(name: str, answer: Answer) -> None:
        if name == node:
            answer.update({key.replace("_", "-"): value for key, value in values.items()})

    return spoil


def test_a_healthy_cluster_is_told_in_the_lines_of_3_1() -> None:
    cluster = Cluster()
    assert run(VerifyGroup(group_name="default"), cluster.ctx) is True
    assert cluster.ctx.lines == [
        "* Verifying group 'default'",
        "* Gathering data (3 nodes)",
        "* Gathering information about nodes (3 nodes)",
        "* Gathering disk information (3 nodes)",
        "* Verifying configuration file consistency",
        "* Verifying node status",
        "* Verifying instance status",
        "* Verifying orphan volumes",
        "* Verifying N+1 Memory redundancy",
        "* Other Notes",
        "  - NOTICE: 1 non-redundant instance(s) found.",
        "* Hooks Results",
    ]


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (on("node2", version=[2030000, "2.3"]), "ENODEVERSION:node:node2:incompatible protocol versions"),
        (on("node2", time=[700, 0]), "ENODETIME:node:node2:Node time diverges by at least 300.0s"),
        (on("node2", time=[1200, 0]), "ENODETIME:node:node2:Node time diverges by at least 200.0s"),
        (on("node3", bridges=["br0", "br1"]), "ENODENET:node:node3:missing bridges: br0, br1"),
        (on("node3", node_net_test={"node1": "no route"}), "ENODENET:node:node3:tcp communication with node 'node1'"),
        (on("node3", master_ip=False), "ENODENET:node:node3:the master node's IP"),
        (on("node3", held_addresses=["10.77.0.100"]), "ENODENET:node:node3:has the cluster's address 10.77.0.100"),
        (on("node2", client_cert="other"), "ECLUSTERCLIENTCERT:cluster:None:the certificate of node node2"),
        (on("node3", client_cert=""), "ECLUSTERCLIENTCERT:cluster:None:node node3 has no client certificate"),
        (on("node3", hypervisor={"pretend": ["no emulator"]}), "ENODEHV:node:node3:hypervisor pretend verify failure"),
        (
            on("node1", hvparms=[["instance web1", "pretend", "no such file"]]),
            "ENODEHV:node:node1:hypervisor pretend parameter verify failure (source instance web1)",
        ),
        (
            on("node2", storage={f"local {LOCAL_DIR}": ["it is not there"]}),
            "ENODEFILESTORAGEPATHUNUSABLE:node:node2:The configured file storage path is unusable: it is not there",
        ),
        (
            on("node2", storage={f"common {SHARED_DIR}": ["read-only"]}),
            "ENODESHAREDFILESTORAGEPATHUNUSABLE:node:node2:",
        ),
        (on("node2", allowed_file_storage_paths=["/etc"]), "ENODEFILESTORAGEPATHS:node:node2:Found forbidden"),
        (on("node1", oob_paths=["/bin/oob: missing"]), "ENODEOOBPATH:node:node1:"),
        (
            on("node1", file_modes=["/var/lib/ganeti/hmac.key (-r--r--r--, owner 0:0)"]),
            "ENODEFILECHECK:node:node1:files with wrong owners or modes: /var/lib/ganeti/hmac.key",
        ),
        (on("node1", user_scripts=["/etc/x"]), "ENODEUSERSCRIPTS:node:node1:"),
        (
            on("node2", oslist=[]),
            "ENODEOS:node:node2:OSes present on reference node node1 but missing",
        ),
        (on("node2", oslist=[OS, OS | {"name": "x"}]), "ENODEOS:node:node2:Extra OS x not present on reference node"),
        (on("node2", oslist=[OS | {"variants": []}]), "ENODEOS:node:node2:OS noop for variants list differs"),
        (on("node2", oslist=[OS | {"valid": False, "message": "no create"}]), "ENODEOS:node:node2:Invalid OS noop"),
        (
            on("node2", bridges=None, failures={"bridges": "no /sys"}),
            "ENODERPC:node:node2:the check 'bridges' failed: no /sys",
        ),
        (on("node1", instances=[]), "EINSTANCEDOWN:instance:web1:instance not running on its primary node node1"),
        (
            on("node3", instances=[guest("web1")]),
            "EINSTANCEWRONGNODE:instance:web1:instance should not run on node node3",
        ),
        (on("node3", instances=[guest("ghost")]), "ENODEORPHANINSTANCE:node:node3:"),
    ],
)
def test_each_fault_is_one_error(spoil: Callable[[str, Answer], None], line: str) -> None:
    cluster = Cluster()
    cluster.spoil = spoil
    good, lines = cluster.group()
    errors = [text for text in lines if text.startswith("  - ERROR")]
    assert len(errors) == 1, errors
    assert errors[0].startswith(f"  - ERROR:{line}")
    assert good is False


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (None, "EINSTANCEMISSINGDISK:instance:web2:disk/0 {path} is missing on node node2"),
        (
            "x has 1 MiB of its 9 MiB",
            "EINSTANCEFAULTYDISK:instance:web2:disk/0 on node node2: x has 1 MiB of its 9 MiB",
        ),
    ],
)
def test_a_disk_that_is_missing_or_faulty(fault: str | None, line: str) -> None:
    cluster = Cluster()
    disk = cluster.config.disk(cluster.web2.disks[0])
    cluster.spoil = on("node2", disk_status={disk.uuid: fault})
    good, lines = cluster.group()
    assert [text for text in lines if "ERROR" in text] == [f"  - ERROR:{line.format(path=disk.logical_id[1])}"]
    assert good is False
    assert [each["uuid"] for each in cluster.asked["node2"]["disk-status"]] == [disk.uuid]
    assert cluster.asked["node3"]["disk-status"] == []


def test_what_guests_lack_on_a_node_is_a_warning() -> None:
    cluster = Cluster()
    cluster.spoil = on("node3", hypervisor_cautions={"pretend": ["a guard is off"]})
    good, lines = cluster.group()
    assert good and "  - WARNING:ENODEHV:node:node3:hypervisor pretend: a guard is off" in lines
    assert cluster.asked["node3"]["hypervisor-cautions"] == ["pretend"]


def test_a_node_that_does_not_answer_is_one_error() -> None:
    cluster = Cluster()
    cluster.ctx.nodes.dead.add("node3")
    good, lines = cluster.group()
    assert not good
    assert [line for line in lines if "ERROR" in line] == [
        "  - ERROR:ENODERPC:node:node3:while contacting node: Node node3 does not answer"
    ]


def test_a_node_that_does_not_know_what_it_is_asked_is_told_as_one_of_another_release() -> None:
    cluster = Cluster()
    refused = OtherReleaseError(
        "Node node3 runs another release than the master (…): install the master's package there"
    )

    def answer(name: str, checks: Answer) -> Answer:
        if name == "node3":
            raise refused
        return cluster.answer(name, checks)

    cluster.ctx.nodes.handlers["node_verify"] = answer
    good, lines = cluster.group()
    assert not good
    assert [line for line in lines if "ERROR" in line] == [f"  - ERROR:ENODEVERSION:node:node3:{refused}"]


def test_files_that_differ_are_looked_at_twice() -> None:
    cluster = Cluster()
    counts = {"node2": 0}

    def once(name: str, answer: Answer) -> None:
        if name == "node2":
            counts[name] += 1
            if counts[name] == 1:  # a change was on its way
                answer["filelist"]["/var/lib/ganeti/ssconf_node_list"] = "older"

    cluster.spoil = once
    assert cluster.group()[0] is True
    assert counts["node2"] == 2


def copy_of(serial: int, fingerprint: str = "") -> Answer:
    return {"serial_no": serial, "fingerprint": fingerprint or f"print{serial}"}


def keys(*let_in: str, **known: list[str]) -> Answer:
    return {"let-in": list(let_in), "known": {f"uuid-{name}": digests for name, digests in known.items()}}


def test_a_node_that_does_not_let_in_root_of_a_candidate_is_named() -> None:
    """node3 is no candidate, and is let in nowhere."""
    cluster = Cluster()
    cluster.set_cluster(modify_ssh_setup=True)
    known = {"node1": ["k1"], "node2": ["old", "k2"], "node3": ["k3"]}
    found = {"node1": keys("mine", "k1", "k2", **known), "node2": keys("k1"), "node3": keys("k2", "k1")}
    cluster.spoil = lambda name, answer: answer.update({"ssh-keys": found[name]})
    assert cluster.group()[0]
    found |= {"node1": keys("mine", "k1", **known), "node3": keys("k9")}
    good, lines = cluster.group()
    assert not good
    assert [line for line in lines if "ENODESSH" in line] == [
        "  - ERROR:ENODESSH:node:node1:root of master candidate(s) node2 is not let in over ssh: "
        "gnt-node add --readd node2 enters what is missing",
        "  - ERROR:ENODESSH:node:node3:root of master candidate(s) node1, node2 is not let in over ssh: "
        "gnt-node add --readd node3 enters what is missing",
    ]


@pytest.mark.parametrize("lost", ["list", "answer"])
def test_without_the_masters_list_nothing_is_said_of_keys(lost: str) -> None:
    cluster = Cluster()
    cluster.set_cluster(modify_ssh_setup=True)
    given = {"list": keys(), "answer": None}[lost]
    cluster.spoil = lambda name, answer: answer.update({"ssh-keys": given})
    lines = cluster.group()[1]
    assert "ssh-keys" in cluster.asked["node1"]
    assert not any("ENODESSH" in line for line in lines)


def test_where_the_cluster_leaves_ssh_alone_nobody_is_asked_about_keys() -> None:
    cluster = Cluster()
    cluster.set_cluster(modify_ssh_setup=False)
    assert cluster.group()[0]
    assert not any("ssh-keys" in checks for checks in cluster.asked.values())


def test_the_configuration_is_with_all_candidates_before_its_copies_are_compared() -> None:
    """A large one is sent to a node now and then only: what is under way would be taken for a difference."""
    cluster = Cluster()
    copies = {"node1": copy_of(9), "node2": copy_of(8)}

    def flush() -> None:
        copies["node2"] = copies["node1"]

    cluster.ctx.config.on_flush = flush
    cluster.spoil = lambda name, answer: answer.update({"config-copy": copies[name]} if name in copies else {})
    assert cluster.group()[0]
    assert cluster.ctx.story[0] == "flush" and cluster.ctx.story.count("flush") == 1
    assert cluster.ctx.config.flushed == ["uuid-group1"], "the nodes of other groups are not waited for"


def test_a_commit_while_verification_asks_is_on_all_candidates_at_the_second_look() -> None:
    cluster = Cluster()
    copies = {"node1": copy_of(9), "node2": copy_of(8)}

    def flush() -> None:
        if cluster.ctx.story.count("flush") == 2:
            copies["node2"] = copies["node1"]

    cluster.ctx.config.on_flush = flush
    cluster.spoil = lambda name, answer: answer.update({"config-copy": copies[name]} if name in copies else {})
    assert cluster.group()[0]


def config_copies(second_look: dict[str, Answer], **first_look: Answer) -> tuple[Cluster, list[str]]:
    """Verify where *first_look* and then *second_look* is in the files of the nodes; give what is said of files."""
    cluster = Cluster()
    looks = dict.fromkeys(first_look, 0)

    def spoil(name: str, answer: Answer) -> None:
        if name in first_look:
            looks[name] += 1
            answer["config-copy"] = (first_look | second_look if looks[name] > 1 else first_look)[name]

    cluster.spoil = spoil
    lines = cluster.group()[1]
    return cluster, [line.split(":", 4)[4] for line in lines if "FILECHECK" in line]


def test_a_copy_that_does_not_follow_is_told() -> None:
    _, told = config_copies({}, node1=copy_of(9), node2=copy_of(7))
    assert told == [
        "File /var/lib/ganeti/config.data of node node2 (serial number 7) does not hold what the master's does "
        "(serial number 9)"
    ]
    _, told = config_copies({"node1": copy_of(11)}, node1=copy_of(9), node2=copy_of(9, "other"))
    assert told == [
        "File /var/lib/ganeti/config.data of node node2 (serial number 9) does not hold what the master's does "
        "(serial number 11)"
    ]


def test_a_copy_that_follows_while_jobs_go_on_is_well() -> None:
    """At no moment need both be looked at with the same in them."""
    assert config_copies({"node1": copy_of(11), "node2": copy_of(10)}, node1=copy_of(9), node2=copy_of(8))[1] == []
    assert config_copies({"node1": copy_of(11)}, node1=copy_of(9), node2=copy_of(8))[1] != []
    assert config_copies({"node1": copy_of(11), "node2": copy_of(9)}, node1=copy_of(9), node2=copy_of(8))[1] == []


def test_a_copy_that_is_missing_or_none_is_told() -> None:
    path = "/var/lib/ganeti/config.data"
    assert config_copies({}, node1=copy_of(9), node2={})[1] == [f"File {path} is missing from node(s) node2"]
    broken = {"serial_no": None, "fingerprint": ""}
    assert config_copies({}, node1=copy_of(9), node2=broken)[1] == [f"File {path} of node node2 is no configuration"]
    assert config_copies({}, node1={}, node2=copy_of(9))[1] == [f"File {path} is missing from node(s) node1"]


def test_of_candidates_that_are_not_in_sync_no_file_is_expected() -> None:
    cluster = Cluster()
    cluster.ctx.config.not_in_sync = {"uuid-node2": Copy(state="behind", reason="disk")}
    cluster.spoil = lambda name, answer: answer.update({"config-copy": copy_of(3)} if name == "node2" else {})
    assert cluster.group()[0]
    cluster.ctx.config.not_in_sync = {}
    assert not cluster.group()[0]
    cluster.ctx.config.copies_error = GanetiError("WConfD is not there")
    assert not cluster.group()[0], "where nobody can say who is in sync, all are expected to be"


def test_a_candidate_that_falls_out_between_the_looks_is_no_fault_of_its_file() -> None:
    cluster = Cluster()
    cluster.spoil = lambda name, answer: answer.update({"config-copy": copy_of(3)} if name == "node2" else {})

    def flush() -> None:
        if cluster.ctx.story.count("flush") == 2:
            cluster.ctx.config.not_in_sync = {"uuid-node2": Copy(state="away")}

    cluster.ctx.config.on_flush = flush
    assert cluster.group()[0]


def test_candidates_of_other_groups_are_held_against_the_master_too() -> None:
    cluster = Cluster()
    cluster.config.put("nodegroups", "uuid-group2", NodeGroup(uuid="uuid-group2", name="blue"))
    cluster.config.put("nodes", "uuid-node1", replace(cluster.config.node("uuid-node1"), group="uuid-group2"))
    copies = {"node1": copy_of(9), "node2": copy_of(7)}
    cluster.spoil = lambda name, answer: answer.update({"config-copy": copies[name]} if name in copies else {})
    assert [line for line in cluster.group()[1] if "FILECHECK" in line] == [
        "  - ERROR:ECLUSTERFILECHECK:cluster:None:File /var/lib/ganeti/config.data of node node2 (serial number 7) "
        "does not hold what the master's does (serial number 9)"
    ]


def test_files_that_stay_different_or_missing_are_told() -> None:
    cluster = Cluster()

    def spoil(name: str, answer: Answer) -> None:
        files = answer["filelist"]
        if name == "node2":
            files["/var/lib/ganeti/ca.key"] = "other"
            files["/etc/ganeti/file-storage-paths"] = None
        if name == "node3":
            files["/var/lib/ganeti/known_hosts"] = None

    cluster.spoil = spoil
    good, lines = cluster.group()
    assert not good
    assert [line for line in lines if "FILECHECK" in line] == [
        "  - ERROR:ECLUSTERFILECHECK:cluster:None:File /var/lib/ganeti/known_hosts is missing from node(s) node3",
        "  - ERROR:ECLUSTERFILECHECK:cluster:None:File /var/lib/ganeti/ca.key found with 2 different checksums "
        "(variant 1 on node1; variant 2 on node2)",
        "  - ERROR:ECLUSTERFILECHECK:cluster:None:File /etc/ganeti/file-storage-paths is optional, but it must exist "
        "on all or no nodes (not found on node2)",
    ]
    assert "config-copy" not in cluster.asked["node3"]


def test_what_only_candidates_have_is_with_all_of_them_and_nobody_else() -> None:
    cluster = Cluster()
    cluster.set_cluster(modify_ssh_setup=True)

    def spoil(name: str, answer: Answer) -> None:
        files = answer["filelist"]
        if name == "node2":
            files[AUTHORITY_KEY] = files["/var/lib/ganeti/ganeti_pub_keys"] = None
        if name == "node3":
            assert "/var/lib/ganeti/ganeti_pub_keys" not in files
            files[AUTHORITY_KEY] = "same"

    cluster.spoil = spoil
    good, lines = cluster.group()
    assert not good
    start = "  - ERROR:ECLUSTERFILECHECK:cluster:None:File"
    assert [line for line in lines if "FILECHECK" in line] == [
        f"{start} {AUTHORITY_KEY} is missing from node(s) node2",
        f"{start} /var/lib/ganeti/ganeti_pub_keys is missing from node(s) node2",
        f"{start} {AUTHORITY_KEY} should not exist on node(s) node3: only master candidates may have it; remove it "
        "there, or add the node with gnt-node add --readd",
    ]


DAY_S = 86400.0


@pytest.mark.parametrize(
    ("expiry", "told"),
    [
        (1000.0 + 31 * DAY_S, []),
        (
            1000.0 + 29 * DAY_S,
            ["WARNING:ECLUSTERCERT:cluster:None:certificate PATH of node node3 expires on 1970-01-30"],
        ),
        (999.0, ["ERROR:ECLUSTERCERT:cluster:None:certificate PATH of node node3 expired on 1970-01-01"]),
        (
            {"error": "holds no certificate"},
            ["ERROR:ECLUSTERCERT:cluster:None:certificate file PATH of node node3 holds"],
        ),
        (None, []),
    ],
)
def test_certificates_have_a_last_day(expiry: Any, told: list[str]) -> None:
    cluster = Cluster()
    path = "/var/lib/ganeti/server.pem"
    cluster.spoil = on("node3", certificates={path: expiry})
    good, lines = cluster.group()
    lines = [line.replace(path, "PATH") for line in lines if "CERT" in line]
    assert len(lines) == len(told) and all(
        line.startswith(f"  - {words}") for line, words in zip(lines, told, strict=True)
    )
    assert good is not any("ERROR" in line for line in told)


def test_orphans_on_shared_storage_are_told_once() -> None:
    cluster = Cluster()

    def spoil(name: str, answer: Answer) -> None:
        for unit in answer.get("disks", {}):
            answer["disks"][unit] = [*answer["disks"][unit], f"{unit.split(' ')[1]}/lost/disk0"]

    cluster.spoil = spoil
    lines = [line for line in cluster.group()[1] if "ENODEORPHANLV" in line]
    assert sorted(lines) == [
        f"  - ERROR:ENODEORPHANLV:node:node1:volume {LOCAL_DIR}/lost/disk0 is unknown",
        f"  - ERROR:ENODEORPHANLV:node:node1:volume {SHARED_DIR}/lost/disk0 is unknown",
        f"  - ERROR:ENODEORPHANLV:node:node2:volume {LOCAL_DIR}/lost/disk0 is unknown",
        f"  - ERROR:ENODEORPHANLV:node:node3:volume {LOCAL_DIR}/lost/disk0 is unknown",
    ]


def test_a_directory_of_several_templates_is_told_once() -> None:
    cluster = Cluster()
    cluster.spoil = on("node2", storage={f"local {LOCAL_DIR}": ["read-only"], f"local {LOCAL_DIR}/more": ["read-only"]})
    assert len([line for line in cluster.group()[1] if "PATHUNUSABLE" in line]) == 1


def test_the_disk_of_an_instance_on_a_node_it_has_left_is_unknown_there() -> None:
    cluster = Cluster()

    def spoil(name: str, answer: Answer) -> None:
        if name == "node3" and "disks" in answer:
            answer["disks"][f"local {LOCAL_DIR}"] = [left]

    left = str(cluster.config.disk(cluster.web2.disks[0]).logical_id[1])
    cluster.spoil = spoil
    assert [line for line in cluster.group()[1] if "ERROR" in line] == [
        f"  - ERROR:ENODEORPHANLV:node:node3:volume {left} is unknown"
    ]


def test_a_guest_on_a_node_of_another_group_is_told() -> None:
    """The instance's own group does not ask that node, and here the instance is known."""
    cluster = Cluster()
    cluster.config.put("nodegroups", "uuid-group2", NodeGroup(uuid="uuid-group2", name="blue"))
    cluster.config.put("nodes", "uuid-node1", replace(cluster.config.node("uuid-node1"), group="uuid-group2"))
    cluster.spoil = on("node3", instances=[guest("web1")])
    assert "  - ERROR:EINSTANCEWRONGNODE:instance:web1:instance should not run on node node3" in cluster.group()[1]


@pytest.mark.requirement("S1.33")
def test_what_the_configuration_says_of_instances() -> None:
    cluster = Cluster()
    cluster.set_cluster(tags=["htools:iextags:service"])
    twin = add_instance(cluster.config, "web3", "uuid-node1", template="none", admin_state="down")
    cluster.set_instance(twin, tags=["service:db"], beparams={"maxmem": 1_000_000})
    cluster.set_instance(cluster.web1, tags=["service:db"])
    cluster.config.put("nodegroups", "uuid-group2", NodeGroup(uuid="uuid-group2", name="blue"))
    cluster.config.put("nodes", "uuid-node3", replace(cluster.config.node("uuid-node3"), group="uuid-group2"))
    disk = cluster.config.disk(cluster.web1.disks[0])
    cluster.config.put("disks", disk.uuid, replace(disk, nodes=["uuid-node1", "uuid-node3"]))
    lines = [line for line in cluster.group()[1] if "ERROR" in line]
    assert [line.split(":")[1:4] for line in lines] == [
        ["EINSTANCESPLITGROUPS", "instance", "web1"],
        ["EINSTANCEPOLICY", "instance", "web3"],
        ["EEXTAGS", "node", "node1"],
    ]


def test_instances_that_are_marked_offline_are_counted() -> None:
    cluster = Cluster()
    web1 = cluster.config.find_instance("web1")
    cluster.config.put("instances", web1.uuid, replace(web1, admin_state="offline"))
    run(VerifyGroup(group_name="default"), cluster.ctx)
    assert "  - NOTICE: 1 offline instance(s) found." in cluster.ctx.lines


def test_instances_on_offline_nodes() -> None:
    cluster = Cluster()
    cluster.config.put(
        "nodes", "uuid-node1", replace(cluster.config.node("uuid-node1"), offline=True, master_candidate=False)
    )
    lines = cluster.group()[1]
    assert "  - ERROR:EINSTANCEBADNODE:instance:web1:instance lives on offline node(s) node1" in lines
    assert "  - NOTICE: 1 offline node(s) found." in lines
    assert "node1" not in cluster.asked


def test_memory_for_failovers() -> None:
    cluster = Cluster()
    disk = cluster.config.disk(cluster.web1.disks[0])
    cluster.config.put("disks", disk.uuid, replace(disk, nodes=["uuid-node1", "uuid-node3"]))
    cluster.spoil = on("node3", hvinfo={"pretend": CAPACITY | {"memory_free": 100}})
    good, lines = cluster.group()
    assert not good
    assert any("ENODEN1:node:node3:not enough memory" in line for line in lines)
    other = Cluster()
    other.config.put("disks", disk.uuid, replace(disk, nodes=["uuid-node1", "uuid-node3"]))
    other.spoil = cluster.spoil
    assert not any("ENODEN1" in line for line in other.group(skip_checks=["nplusone_mem"])[1])


def test_hooks_and_leftovers() -> None:
    cluster = Cluster()
    cluster.hooks = lambda name: [["cluster-verify-post.d/site", 1, "disk\nis full"]] if name == "node2" else []
    cluster.ctx.outstanding_undo = lambda: [(7, "remove disk 0 of web9 from node3", "unreachable")]  # type: ignore[attr-defined]
    lines = [line for line in cluster.group()[1] if "ERROR" in line]
    assert lines == [
        "  - ERROR:ECLUSTERCFG:cluster:None:job 7 left something behind; still to do: remove disk 0 of web9 from node3 "
        "(unreachable). Once that is done, archive the job: gnt-job archive 7",
        "  - ERROR:ENODEHOOKS:node:node2:Script cluster-verify-post.d/site failed, output: disk / is full",
    ]


def test_job_files_that_were_set_aside_are_named() -> None:
    cluster = Cluster()
    cluster.ctx.set_aside = [(17, "/var/lib/ganeti/queue/damaged-job-17")]
    assert run(VerifyConfiguration(error_codes=True), cluster.ctx) is False
    (line,) = [line for line in cluster.ctx.lines if "ERROR" in line]
    assert line.startswith(
        "  - ERROR:ECLUSTERFILECHECK:cluster:None:the file of job 17 is damaged and lies in /var/lib/"
    )
    assert line.endswith("submit it again if that is not done, and remove the file")


def test_ignored_codes_are_warnings() -> None:
    cluster = Cluster()
    cluster.spoil = on("node1", instances=[])
    good, lines = cluster.group(ignore_errors=["EINSTANCEDOWN"])
    assert good is True
    assert lines[0].startswith("  - WARNING:EINSTANCEDOWN:")


def test_without_codes_the_lines_name_the_object() -> None:
    cluster = Cluster()
    cluster.spoil = on("node3", bridges=["xen-br0"], client_cert=None)
    run(VerifyGroup(group_name="default"), cluster.ctx)
    assert "  - ERROR: node node3: missing bridges: xen-br0" in cluster.ctx.lines
    assert "  - ERROR: cluster : node node3 has no client certificate" in cluster.ctx.lines


def test_simulated_errors_show_every_code() -> None:
    good, lines = Cluster().group(debug_simulate_errors=True)
    assert not good
    assert {line.split(":")[1] for line in lines if "simulated" in line} == set(CODES)


@pytest.mark.requirement("S1.76")
def test_nodes_without_instances_are_not_asked_about_them() -> None:
    cluster = Cluster()
    cluster.config.put("nodes", "uuid-node3", replace(cluster.config.node("uuid-node3"), vm_capable=False))
    cluster.group()
    assert not {"hypervisor", "bridges", "oslist", "storage"} & set(cluster.asked["node3"])


def test_the_configuration_and_its_certificates() -> None:
    cluster = Cluster()
    operation = VerifyConfiguration()
    assert run(operation, cluster.ctx) is True
    assert cluster.ctx.lines == [
        "* Verifying cluster config",
        "* Verifying cluster certificate files",
        "* Verifying copies of the configuration",
        "* Verifying hypervisor parameters",
        "* Verifying all nodes belong to an existing group",
        "  - NOTICE: with two master candidates, the one that is left can become master with --no-voting only; a third "
        "candidate makes a fail-over possible without.",
    ]

    def spoil(name: str, answer: Answer) -> None:
        answer["filelist"]["/var/lib/ganeti/ca.pem"] = None

    cluster.spoil = spoil
    cluster.set_instance(cluster.web1, hvparams={"colour": "red"})
    cluster.set_cluster(candidate_pool_size=3)
    assert run(operation, cluster.ctx) is False
    faults = [line for line in cluster.ctx.lines if "ERROR" in line]
    assert len(faults) == 3
    assert "Not enough master candidates" in faults[0]
    assert faults[1] == "  - ERROR: cluster : certificate file /var/lib/ganeti/ca.pem is missing or cannot be read"
    assert "source instance web1" in faults[2]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"primary_node": "gone"},
            "ECLUSTERDANGLINGINST:node:web1:the instance has a primary node that does not exist",
        ),
        (
            {"primary_node": ""},
            "EINSTANCEMISSINGCFGPARAMETER:instance:web1:the configuration parameter 'primary_node' is missing",
        ),
        (
            {"hypervisor": ""},
            "EINSTANCEMISSINGCFGPARAMETER:instance:web1:the configuration parameter 'hypervisor' is missing",
        ),
    ],
)
def test_an_instance_that_points_nowhere_or_lacks_something(changes: Answer, line: str) -> None:
    cluster = Cluster()
    cluster.set_instance(cluster.web1, **changes)
    assert run(VerifyConfiguration(error_codes=True), cluster.ctx) is False
    assert f"  - ERROR:{line}" in cluster.ctx.lines
    assert cluster.group()[0] is False or changes.get("primary_node") == ""


def test_a_node_of_a_group_that_is_gone() -> None:
    cluster = Cluster()
    cluster.config.put("nodes", "uuid-node3", replace(cluster.config.node("uuid-node3"), group="gone"))
    assert run(VerifyConfiguration(error_codes=True), cluster.ctx) is False
    line = "  - ERROR:ECLUSTERDANGLINGNODES:node:node3:the node belongs to a group that does not exist"
    assert line in cluster.ctx.lines
    assert cluster.group()[0] is True, "the others are well"


def test_an_instance_of_nodes_that_the_configuration_lacks_keeps_no_other_from_being_looked_at() -> None:
    cluster = Cluster()
    cluster.config.put("nodes", "uuid-node3", replace(cluster.config.node("uuid-node3"), group="gone"))
    disk = cluster.config.disk(cluster.web1.disks[0])
    cluster.config.put("disks", disk.uuid, replace(disk, nodes=["uuid-node1", "uuid-node3", "gone"]))
    cluster.set_instance(cluster.web2, hypervisor="other")
    assert [line for line in cluster.group()[1] if "ERROR" in line or "WARNING" in line] == [
        "  - ERROR:EINSTANCEUNSUITABLENODE:instance:web2:its hypervisor other has no driver here",
    ]


def test_an_instance_of_three_nodes_or_of_a_hypervisor_that_is_off() -> None:
    cluster = Cluster()
    disk = cluster.config.disk(cluster.web1.disks[0])
    cluster.config.put("disks", disk.uuid, replace(disk, nodes=["uuid-node1", "uuid-node2", "uuid-node3"]))
    cluster.set_instance(cluster.web2, hypervisor="other")
    good, lines = cluster.group()
    assert not good
    assert lines[:2] == [
        "  - WARNING:EINSTANCELAYOUT:instance:web1:instance has multiple secondary nodes: node2, node3",
        "  - ERROR:EINSTANCEUNSUITABLENODE:instance:web2:its hypervisor other has no driver here",
    ]


def test_a_gluster_directory_that_cannot_be_used() -> None:
    cluster = Cluster()
    templates = cluster.ctx.catalogue.templates
    templates["gluster"] = replace_dataclass(
        templates["common"], name="gluster", directory_setting="gluster_storage_dir"
    )
    cluster.spoil = on("node2", storage={"gluster /run/gluster": ["it is not mounted"]})
    assert cluster.group()[1][0] == (
        "  - ERROR:ENODEGLUSTERSTORAGEPATHUNUSABLE:node:node2:The configured gluster storage path is unusable: "
        "it is not mounted"
    )


def test_a_master_that_does_not_answer_is_told() -> None:
    cluster = Cluster()
    cluster.ctx.nodes.handlers["node_verify"] = NodeUnreachableError("silence")
    assert run(VerifyConfiguration(), cluster.ctx) is False
    assert any("could not be looked at: silence" in line for line in cluster.ctx.lines)


def test_the_jobs_of_a_whole_verification() -> None:
    cluster = Cluster()
    cluster.config.put("nodegroups", "uuid-group2", NodeGroup(uuid="uuid-group2", name="blue"))
    answer = run(VerifyCluster(error_codes=True, skip_checks=["nplusone_mem"]), cluster.ctx)
    jobs = [[operation.to_plain() for operation in job] for job in answer.jobs]
    assert [job[0]["OP_ID"] for job in jobs] == [
        "OP_CLUSTER_VERIFY_CONFIG",
        "OP_CLUSTER_VERIFY_GROUP",
        "OP_CLUSTER_VERIFY_GROUP",
    ]
    assert [job[0]["depends"] for job in jobs] == [None, [[-1, []]], [[-2, []]]]
    assert jobs[1][0]["group_name"] == "uuid-group2"
    assert jobs[1][0]["skip_checks"] == ["nplusone_mem"]
    one = run(VerifyCluster(group_name="default"), cluster.ctx)
    assert [(job[0].op_id, job[0].depends) for job in one.jobs] == [("OP_CLUSTER_VERIFY_GROUP", None)]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"ignore_errors": ["ENOTHING"]}, "Unknown error code 'ENOTHING'"),
        ({"skip_checks": ["everything"]}, "'everything' cannot be skipped"),
        ({"group_name": "red"}, "Group 'red' not known"),
    ],
)
def test_refusals(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PrerequisiteError) as caught:
        run(VerifyCluster(**fields), Cluster().ctx)
    assert sentence in str(caught.value)


def test_verbose_names_each_node_and_instance() -> None:
    cluster = Cluster()
    node = cluster.config.node("uuid-node3")
    cluster.config.put("nodes", node.uuid, replace(node, offline=True))
    run(VerifyGroup(group_name="default", verbose=True), cluster.ctx)
    first = cluster.ctx.lines.index("* Verifying node status")
    assert cluster.ctx.lines[first + 1 : first + 7] == [
        "* Skipping offline node node3",
        "* Verifying node node1 (master)",
        "* Verifying node node2 (master candidate)",
        "* Verifying instance status",
        "* Verifying instance web1",
        "* Verifying instance web2",
    ]
    cluster.ctx.lines.clear()
    run(VerifyConfiguration(verbose=True), cluster.ctx)
    assert cluster.ctx.lines[0] == "* Objects: 1 node group(s), 3 node(s), 2 instance(s)"


def test_keys_of_nodes_that_are_gone_are_told_where_somebody_asks() -> None:
    cluster = Cluster()
    cluster.set_cluster(modify_ssh_setup=True)
    whole = keys("k1", "k2", "admin", node1=["k1"], node2=["k2"])
    marked = {"uuid-node1": ["k1"], "uuid-node2": ["old", "k2"], "uuid-node9": ["k9"]}
    cluster.spoil = lambda name, answer: answer.update(
        {"ssh-keys": whole | {"marked": marked if name == "node3" else {}}}
    )
    assert cluster.group()[0]
    cluster.ctx.lines.clear()
    good, lines = cluster.group(verify_clutter=True)
    assert not good
    assert [line for line in lines if "ERROR" in line] == [
        "  - ERROR:ENODESSH:node:node3:authorized_keys of root lets in 1 key(s) of node2 that it has no longer: remove "
        "the lines that end with ganeti-node:uuid-node2",
        "  - ERROR:ENODESSH:node:node3:authorized_keys of root lets in 1 key(s) of a node that is not in the cluster: "
        "remove the lines that end with ganeti-node:uuid-node9",
    ]


def test_where_the_cluster_leaves_ssh_alone_it_is_said_that_no_keys_are_looked_for() -> None:
    cluster = Cluster()
    cluster.set_cluster(modify_ssh_setup=False)
    assert cluster.group(verify_clutter=True)[1][0] == (
        "  - NOTICE: ssh is not set up by the cluster: no keys of nodes are looked for"
    )


def test_the_instances_are_gone_through_as_often_for_many_nodes_as_for_few() -> None:
    passes = []
    for more in (0, 20):
        cluster = Cluster()
        for number in range(more):
            node = cluster.config.node("uuid-node3")
            added = replace(node, uuid=f"more{number}", name=f"more{number}", primary_ip=f"10.77.1.{number}")
            cluster.config.put("nodes", added.uuid, added)
        passes.append(_passes(cluster))
        assert len(cluster.asked) == 3 + more
    assert passes[0]["instances"] == passes[1]["instances"]


def _passes(cluster: Cluster) -> Counter[str]:
    """How often all objects of a kind are read while a group is verified, but the guests of one node by the index."""
    found: Counter[str] = Counter()
    config: Any = cluster.config

    def read(kind: str) -> list[Any]:
        found[kind] += 1
        return type(config).all(config, kind)

    guests = {instance.primary_node: [instance] for instance in type(config).all(config, "instances")}
    config.all = read
    config.primary_instances = lambda *nodes: [guest for node in nodes for guest in guests.get(node, ())]
    assert cluster.group()
    return found
