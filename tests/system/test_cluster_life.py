# SPDX-License-Identifier: BSD-2-Clause
"""A cluster from its first to its last command, on three nodes with real daemons and pretended guests.

One testbed, one story: the tests of this file run in order, each from where the one before has left the cluster.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine
from ganeti.tools.testbed.layout import Layout
from ganeti.wire.config_fingerprint import fingerprint_of

pytestmark = [pytest.mark.daemons, pytest.mark.story]
NO_CRON_S = 86400
WITHIN_S = 30.0
HEALTHY = (
    "* Verifying cluster config",
    "* Verifying node status",
    "* Verifying instance status",
    "* Hooks Results",
)


@pytest.fixture(scope="module")
def bed() -> Iterator[Layout]:
    """Three nodes on a disk's file system, without a cluster, and without a cron that runs the watcher."""
    place = Path(tempfile.mkdtemp(prefix="cluster-life-", dir="/var/tmp"))
    made = testbed.up(place / "bed", 3, "fake", watcher_interval_s=NO_CRON_S)
    yield made
    testbed.down(made)
    shutil.rmtree(place)


class Master:
    """Commands on the first node."""

    def __init__(self, bed: Layout) -> None:
        self.bed = bed

    def run(self, *words: str, node: str = "node1", text: str | None = None) -> subprocess.CompletedProcess[str]:
        return machine.run(self.bed, node, *words, text=text, timeout_s=120)

    def good(self, *words: str, node: str = "node1") -> str:
        done = self.run(*words, node=node)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def refused(self, *words: str) -> str:
        """Run what must be refused; gives the sentence."""
        done = self.run(*words)
        assert done.returncode == 1, f"{words}: {done.returncode} {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stderr

    def roles(self) -> dict[str, str]:
        lines = self.good("gnt-node", "list", "--no-headers", "--separator=|", "-o", "name,role").split()
        return dict(line.split("|") for line in lines)

    def configuration(self) -> bytes:
        return Path(f"{self.bed.node('node1').upper}/var/lib/ganeti/config.data").read_bytes()

    def pid(self, daemon: str, node: str = "node1") -> str:
        return self.good("cat", f"/run/ganeti/{daemon}.pid", node=node).strip()

    def verify(self) -> subprocess.CompletedProcess[str]:
        return self.run("gnt-cluster", "verify")


@pytest.fixture(scope="module")
def master(bed: Layout) -> Master:
    return Master(bed)


def eventually(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < deadline, f"{what} did not happen within {WITHIN_S:g} seconds"
        time.sleep(0.1)


def files_of(bed: Layout, node: str, *directories: str) -> dict[str, bytes]:
    top = Path(bed.node(node).upper)
    return {
        str(path.relative_to(top)): path.read_bytes()
        for directory in directories
        for path in sorted((top / directory).rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def test_an_init_that_is_refused_leaves_the_machine_alone(bed: Layout, master: Master) -> None:
    words = cluster.init_command(bed)
    before = files_of(bed, "node1", "etc", "root", "var/lib/ganeti")
    for changed, sentence in (
        ({"eth0": "eth7"}, "master network device 'eth7' does not exist"),
        ({"fake": "nothing"}, "Unknown hypervisor 'nothing'"),
        ({"cluster": "node2"}, "is in use already"),
        ({"cluster": "no.such.name.invalid"}, f"has no IPv{'4' if bed.ip == '4' else '6'} address"),
        ({cluster.DISK_TEMPLATES: "diskless,papyrus"}, "Unknown disk template 'papyrus'"),
        ({"/srv/ganeti/file-storage": "/etc"}, "cannot hold a disk"),
    ):
        told = master.refused(*(changed.get(word, word) for word in words))
        assert sentence in told, told
    assert files_of(bed, "node1", "etc", "root", "var/lib/ganeti") == before
    assert master.run("daemon-util", "check", "ganeti-noded").returncode == 1


def test_an_init_whose_daemons_fail_takes_everything_back(bed: Layout, master: Master) -> None:
    before = files_of(bed, "node1", "etc", "root", "var/lib/ganeti")
    squatter = machine.popen(bed, "node1", "python3", "-c", "import http.server as h; h.test(port=1811)")
    try:
        eventually(lambda: master.run("sh", "-c", "ss -ltn | grep -q :1811").returncode == 0, "taking the port")
        told = master.refused(*cluster.init_command(bed))
    finally:
        squatter.kill()
        squatter.communicate()
    assert "ganeti-noded" in told
    assert files_of(bed, "node1", "etc", "root", "var/lib/ganeti") == before


def test_init(bed: Layout, master: Master) -> None:
    eventually(lambda: master.run("sh", "-c", "ss -ltn | grep -q :1811").returncode == 1, "freeing the port")
    master.good(*cluster.init_command(bed))
    assert master.good("gnt-cluster", "getmaster") == "node1\n"
    assert "CLUSTER_POST_INIT" in master.good("gnt-job", "list")
    assert f"{bed.cluster_address}/{'24' if bed.ip == '4' else '64'}" in master.good("ip", "addr", "show", "eth0")
    assert "already" in master.refused(*cluster.init_command(bed))
    plain = json.loads(master.configuration())
    assert plain["version"] == 3010000


def holds_what_the_master_holds(path: Path, master: Master) -> bool:
    """Each candidate lays its own file out."""
    return path.exists() and fingerprint_of(path.read_bytes()) == fingerprint_of(master.configuration())


def add(bed: Layout, node: str) -> tuple[str, ...]:
    """The command that asks the node's host key; where a node has a secondary address, it must be named."""
    return ("gnt-node", "add", *cluster.secondary_words(bed.node(node)), node)


@pytest.mark.requirement("S3.1")
def test_nodes_join(bed: Layout, master: Master) -> None:
    master.good(*add(bed, "node2"))
    master.good(*cluster.add_command(bed.node("node3")))
    assert master.roles() == {"node1": "M", "node2": "C", "node3": "C"}
    for node in ("node2", "node3"):
        here = Path(f"{bed.node(node).upper}/var/lib/ganeti")
        holds = partial(holds_what_the_master_holds, here / "config.data", master)
        eventually(holds, f"writing a copy of its own on {node}")
        assert (here / "hmac.key").stat().st_mode & 0o777 == 0o440
    host_key = "/etc/ssh/ssh_host_ed25519_key.pub"
    assert master.good("cat", host_key, node="node2") == master.good("cat", host_key)
    known = "-oUserKnownHostsFile=/var/lib/ganeti/known_hosts"
    words = ("ssh", "-oBatchMode=yes", "-oHostKeyAlias=cluster", known, "-i", "/root/.ssh/id_rsa")
    assert master.good(*words, "node3", "hostname") == "node3\n"


def test_joining_is_refused(bed: Layout, master: Master) -> None:
    before, secondary = master.configuration(), cluster.secondary_words(bed.node("node3"))
    assert "already in the cluster" in master.refused("gnt-node", "add", "node2")
    assert "'no.such.name.invalid' has no" in master.refused("gnt-node", "add", *secondary, "no.such.name.invalid")
    assert "without '--readd'" in master.refused("gnt-node", "add", "--readd", "inst1")
    joining = ("gnt-node", "add", *(["-s", "10.77.0.9"] if secondary else []))  # no node has this one
    assert "cannot be reached as root over ssh" in master.refused(*joining, "inst7")
    assert master.configuration() == before


@pytest.mark.requirement("S1.2")
def test_a_healthy_cluster_verifies_clean(master: Master) -> None:
    done = master.verify()
    assert done.returncode == 0, done.stdout
    for line in HEALTHY:
        assert line in done.stdout
    assert "ERROR" not in done.stdout
    assert "WARNING" not in done.stdout


def test_roles_change(master: Master) -> None:
    told = master.good("gnt-node", "modify", "--offline", "yes", "node3")
    assert " - offline -> True" in told
    assert master.roles()["node3"] == "O"
    master.good("gnt-node", "modify", "--offline", "no", "node3")
    assert master.roles()["node3"] == "C"
    before = master.configuration()
    assert "master-failover" in master.refused("gnt-node", "modify", "-O", "yes", "node1")
    assert "more than one state" in master.refused("gnt-node", "modify", "-D", "yes", "-O", "yes", "node2")
    assert "at least one" in master.refused("gnt-node", "modify", "node2")
    assert "not known" in master.refused("gnt-node", "modify", "-D", "yes", "node9")
    assert master.configuration() == before
    master.good("gnt-node", "modify", "-D", "yes", "node2")
    assert master.roles() == {"node1": "M", "node2": "D", "node3": "C"}
    master.good("gnt-node", "modify", "-D", "no", "node2")
    assert master.roles()["node2"] == "C"
    master.good("gnt-node", "modify", "-C", "no", "node2")
    assert "Not enough master candidates" in master.refused("gnt-node", "modify", "-C", "no", "node3")
    master.good("gnt-node", "modify", "--auto-promote", "-C", "no", "node3")
    assert master.roles() == {"node1": "M", "node2": "C", "node3": "R"}
    master.good("gnt-node", "modify", "-C", "yes", "node3")


def test_dead_daemons_and_instances_come_back(master: Master) -> None:
    master.good("gnt-instance", "add", "-o", "noop+default", "-t", "diskless", "-n", "node2", "inst1")
    daemons = ("ganeti-noded", "ganeti-wconfd", "ganeti-luxid")
    old = {name: master.pid(name) for name in daemons}
    master.good("kill", "-9", *old.values())
    old_noded = master.pid("ganeti-noded", "node2")
    master.good("kill", "-9", old_noded, node="node2")
    master.good("rm", "/run/ganeti/fake-hypervisor/inst1", node="node2")
    master.good("ganeti-watcher", node="node2")
    assert master.pid("ganeti-noded", "node2") != old_noded
    master.good("ganeti-watcher")
    assert not set(old.values()) & {master.pid(name) for name in daemons}
    listed = master.good("gnt-instance", "list", "--no-headers", "--separator=|", "-o", "name,status")
    assert listed == "inst1|running\n"
    assert master.good("cat", "/run/ganeti/instance-status") == "inst1 running\n"
    jobs = master.good("gnt-job", "list", "--no-headers", "--separator=|", "-o", "summary")
    assert jobs.splitlines().count("INSTANCE_STARTUP(inst1)") == 1
    master.good("ganeti-watcher")
    assert master.good("gnt-job", "list", "--no-headers", "--separator=|", "-o", "summary") == jobs


def test_a_node_is_emptied_by_migration(master: Master) -> None:
    def places() -> str:
        return master.good("gnt-instance", "list", "--no-headers", "--separator=|", "-o", "name,pnode,status")

    master.good("gnt-node", "migrate", "-f", "-n", "node3", "node2")
    assert places() == "inst1|node3|running\n"
    assert "cannot be the target" in master.refused("gnt-node", "migrate", "-f", "-n", "node3", "node3")
    master.good("gnt-node", "migrate", "-f", "-n", "node2", "node3")
    assert places() == "inst1|node2|running\n"


def test_a_daemon_that_hangs_is_replaced(master: Master) -> None:
    hung = master.pid("ganeti-luxid")
    master.good("kill", "-STOP", hung)
    try:
        done = master.run("ganeti-watcher", "--daemon-timeout", "2")
    finally:
        master.run("kill", "-CONT", hung)
    assert done.returncode == 0, done.stderr
    assert master.pid("ganeti-luxid") != hung
    assert master.roles()["node1"] == "M"


def test_a_stopped_instance_stays_stopped_and_a_pause_is_kept(master: Master) -> None:
    master.good("rm", "/run/ganeti/fake-hypervisor/inst1", node="node2")
    master.good("sh", "-c", f"echo {int(time.time()) + 600} > /var/lib/ganeti/watcher.pause")
    master.good("ganeti-watcher")
    assert "ERROR_down" in master.good("gnt-instance", "list", "--cache=off")
    master.good("rm", "/var/lib/ganeti/watcher.pause")
    master.good("gnt-instance", "shutdown", "inst1")
    master.good("ganeti-watcher")
    assert "ADMIN_down" in master.good("gnt-instance", "list")


def test_faults_are_found_and_named(bed: Layout, master: Master) -> None:
    master.good("sh", "-c", "echo changed >> /var/lib/ganeti/known_hosts", node="node3")
    master.good("gnt-instance", "startup", "inst1")
    guests = "/run/ganeti/fake-hypervisor"
    master.good("sh", "-c", f"sed s/inst1/ghost/g {guests}/inst1 > {guests}/ghost", node="node2")
    master.good("sh", "-c", "echo x > /srv/ganeti/file-storage/lost", node="node2")
    master.good("mkdir", "-p", "/srv/ganeti/file-storage/web9", node="node2")
    master.good("touch", "/srv/ganeti/file-storage/web9/disk0", node="node2")
    done = master.verify()
    assert done.returncode == 1
    assert "ERROR: cluster : File /var/lib/ganeti/known_hosts found with 2 different checksums" in done.stdout
    assert "ERROR: node node2: instance ghost runs here, but is not in the configuration" in done.stdout
    assert "ERROR: node node2: volume /srv/ganeti/file-storage/web9/disk0 is unknown" in done.stdout
    master.good("sh", "-c", "sed -i /changed/d /var/lib/ganeti/known_hosts", node="node3")
    master.good("rm", "-r", f"{guests}/ghost", "/srv/ganeti/file-storage/web9", node="node2")
    machine.kill(bed, bed.node("node3"))
    done = master.run("gnt-cluster", "verify", "--error-codes")
    assert done.returncode == 1
    assert "ERROR:ENODERPC:node:node3:while contacting node" in done.stdout
    machine.start(bed, bed.node("node3"))
    eventually(
        lambda: master.run("daemon-util", "check", "ganeti-noded", node="node3").returncode == 0, "node3's start"
    )
    eventually(lambda: master.verify().returncode == 0, "a clean verification")


def test_a_node_leaves_and_comes_again(bed: Layout, master: Master) -> None:
    assert "still uses node node2" in master.refused("gnt-node", "remove", "node2")
    assert "is the master" in master.refused("gnt-node", "remove", "node1")
    master.good("gnt-node", "remove", "node3")
    assert master.roles() == {"node1": "M", "node2": "C"}
    assert list(Path(f"{bed.node('node3').upper}/var/lib/ganeti").glob("*")) == []
    eventually(lambda: "ganeti-" not in master.good("ps", "-eo", "args", node="node3"), "the end of node3's daemons")
    machines_that_are_not_right_are_refused(bed, master)
    master.good(*add(bed, "node3"))
    assert master.roles() == {"node1": "M", "node2": "C", "node3": "C"}
    assert master.verify().returncode == 0


def machines_that_are_not_right_are_refused(bed: Layout, master: Master) -> None:
    """Another cluster's node, a name that leads elsewhere, a full disk: both sides stay as they were."""
    before = master.configuration()
    data = "/var/lib/ganeti"

    def on_node3(script: str) -> None:
        master.good("sh", "-c", script, node="node3")

    def refuses(sentence: str) -> None:
        assert sentence in master.refused(*add(bed, "node3"))
        assert master.configuration() == before
        assert "ganeti-" not in master.good("ps", "-eo", "args", node="node3")

    on_node3(f"echo other >{data}/ssconf_cluster_name")
    refuses("belongs to the cluster 'other'")
    on_node3(f"test $(ls {data}) = ssconf_cluster_name && rm {data}/ssconf_cluster_name")
    hosts = master.good("cat", "/etc/hosts")
    for address, sentence in (
        (bed.node("node2").address, "which is the address of the node node2"),
        ("127.0.0.1" if bed.ip == "4" else "::1", "loopback"),
    ):
        master.good("sh", "-c", f"sed -i 's/^[0-9a-f.:]* *node3$/{address} node3/' /etc/hosts")
        assert f"{address} node3" in master.good("cat", "/etc/hosts")
        refuses(sentence)
    master.good("sh", "-c", f"cat >/etc/hosts <<'END'\n{hosts}END")
    on_node3(f"mount -t tmpfs -o size=16k tmpfs {data}")
    refuses("No space left on device")
    on_node3(f'test -z "$(ls -A {data})" && umount {data} && test -z "$(ls -A {data})"')


def test_a_node_is_added_again(bed: Layout, master: Master) -> None:
    uuid = master.good("gnt-node", "list", "--no-headers", "-o", "uuid", "node3")
    master.good("gnt-node", "modify", "-O", "yes", "node3")
    machine.kill(bed, bed.node("node3"))
    machine.start(bed, bed.node("node3"))
    master.good("gnt-node", "add", "--readd", "node3")
    assert master.roles()["node3"] == "C"
    assert master.good("gnt-node", "list", "--no-headers", "-o", "uuid", "node3") == uuid
    assert master.verify().returncode == 0


def test_destroy(bed: Layout, master: Master) -> None:
    assert "--yes-do-it" in master.refused("gnt-cluster", "destroy")
    assert "besides the master" in master.refused("gnt-cluster", "destroy", "--yes-do-it")
    master.good("gnt-instance", "remove", "-f", "inst1")
    master.good("gnt-node", "remove", "node3")
    master.good("gnt-node", "remove", "node2")
    master.good("gnt-cluster", "destroy", "--yes-do-it")
    assert list(Path(f"{bed.node('node1').upper}/var/lib/ganeti").glob("*")) == []
    assert bed.cluster_address not in master.good("ip", "addr", "show", "eth0")
    processes = master.good("ps", "-eo", "args")
    assert "ganeti-" not in processes
    assert master.run("gnt-cluster", "getmaster").returncode == 5
    master.good(*cluster.init_command(bed))
