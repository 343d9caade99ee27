# SPDX-License-Identifier: BSD-2-Clause
"""Nodes without root: processes that share a directory and an address, ended, stopped and found by that."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.fakes import bed_addresses

from ganeti.base.errors import PrerequisiteError
from ganeti.tools.testbed import bed, cluster, command, loopback, machine, processes

pytestmark = [pytest.mark.daemons, bed_addresses.of_ipv4_alone("nodes on loopback addresses have nothing else")]


@pytest.fixture(scope="module")
def testbed(tmp_path_factory):
    made = bed.up(
        tmp_path_factory.mktemp("bed").resolve(), 2, "fake", watcher_interval_s=300, unprivileged=True, ip="4"
    )
    try:
        yield made
    finally:
        bed.down(made)
    assert [loopback.members(node) for node in made.nodes] == [[], []]
    assert not made.directory.exists()


@pytest.fixture
def second(testbed):
    node = testbed.node("node2")
    yield node
    now = machine.state(testbed, node)
    if now == machine.STOPPED:
        machine.resume(testbed, node)
    elif now == machine.OFF:
        machine.start(testbed, node)


def said(testbed, node, *words):
    done = machine.run(testbed, node, *words, timeout_s=30)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_testbed_has_addresses_of_its_own(testbed):
    assert all(node.address.startswith("127.") for node in testbed.nodes)
    assert len({node.address for node in testbed.nodes} | {testbed.cluster_address}) == 3
    assert said(testbed, "node1", "getent", "ahostsv4", "cluster").split()[0] == testbed.cluster_address
    assert said(testbed, "node1", "getent", "ahostsv4", "inst1").split()[0] == "10.78.0.1"


def test_commands_know_which_node_they_are_on(testbed):
    assert said(testbed, "node2", "printenv", "GANETI_HOSTNAME") == "node2"
    assert said(testbed, "node2", "printenv", "GANETI_ROOTDIR") == str(loopback.root(testbed.node("node2")))


def test_ssh_runs_words_in_the_other_node_as_a_shell_does(testbed):
    words = (
        "ssh",
        "-o",
        "BatchMode=yes",
        "-p",
        "22",
        "-l",
        "root",
        "node2",
        "--",
        "echo",
        "$GANETI_HOSTNAME;",
        "exit",
        "3",
    )
    done = machine.run(testbed, "node1", *words)
    assert (done.returncode, done.stdout) == (3, "node2\n")
    done = machine.run(testbed, "node1", "ssh", "root@node2", "cat", text="given")
    assert done.stdout == "given"
    assert machine.run(testbed, "node1", "ssh", "elsewhere", "true").returncode == 255


def test_pulling_the_plug_ends_every_process_of_the_node(testbed, second):
    waiting = machine.popen(testbed, "node2", "sh", "-c", "setsid sleep 60 & wait")
    processes.wait_for(lambda: len(loopback.members(second)) >= 3, 10, "the start of the processes")
    others = loopback.members(testbed.node("node1"))
    machine.kill(testbed, second)
    assert waiting.wait(10) != 0
    assert loopback.members(second) == []
    assert loopback.members(testbed.node("node1")) == others
    assert machine.run(testbed, "node1", "ssh", "node2", "true").returncode == 255
    with pytest.raises(PrerequisiteError, match="node2 is off"):
        machine.run(testbed, "node2", "true")


def test_a_stopped_node_is_refused_and_goes_on(testbed, second):
    machine.stop(testbed, second)
    assert machine.state(testbed, second) == machine.STOPPED
    machine.resume(testbed, second)
    assert machine.state(testbed, second) == machine.RUNNING


def test_there_is_no_cable_to_cut(testbed, capsys):
    assert command.main(["partition", str(testbed.directory), "node2"]) == 1
    assert "have no cable" in capsys.readouterr().err


def test_real_guests_need_root(tmp_path):
    with pytest.raises(PrerequisiteError, match="without root only --hypervisor fake"):
        bed.up(tmp_path / "bed", 1, "kvm", unprivileged=True, ip="4")
    assert not (tmp_path / "bed").exists()


REACHABLE = """
hold=$(mktemp -d -p /var/tmp)
mount --bind "$1" "$hold"
mount -t tmpfs -o mode=755 tmpfs "$2"
mkdir -p "$1"
mount --move "$hold" "$1"
rmdir "$hold"
shift 2
exec "$@"
"""


def reachable(tree: Path) -> list[str]:
    """Words before a command that let everybody reach *tree*, also below a closed directory such as /root."""
    closed = [parent for parent in reversed(tree.parents) if not parent.stat().st_mode & 0o001]
    if not closed:
        return []
    return ["unshare", "--mount", "sh", "-ec", REACHABLE, "sh", str(tree), str(closed[0])]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_nobody_can_put_one_up(testbed):
    """Run as a user without any right."""
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    place.chmod(0o777)
    become = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env", "HOME=/nonexistent")
    tree = testbed.commands.parent.parent
    program = (*reachable(tree), *become, testbed.commands / "python", "-m", "ganeti.tools.testbed.command")
    directory = place / "bed"

    def run(*words):
        return subprocess.run([*map(str, program), *words], capture_output=True, text=True, check=False)

    started = run("up", str(directory), "--nodes", "1", "--hypervisor", "fake", "--unprivileged", "--no-cluster")
    assert started.returncode == 0, started.stderr
    try:
        assert run("exec", str(directory), "node1", "id", "-u").stdout == "65534\n"
    finally:
        ended = run("down", str(directory))
    assert ended.returncode == 0, ended.stderr
    place.rmdir()  # refuses if anything was left there


def test_a_cluster_lives_there(testbed):
    cluster.create(testbed)
    said(testbed, "node1", "gnt-instance", "add", *("-t", "diskless", "-o", "noop+default", "-n", "node1", "inst1"))
    said(testbed, "node1", "gnt-instance", "migrate", "-f", "-n", "node2", "inst1")
    assert said(testbed, "node1", "gnt-instance", "list", "--no-headers", "-o", "name,pnode,status").split() == [
        *("inst1", "node2", "running")
    ]
    copy = Path(f"{loopback.root(testbed.node('node2'))}/var/lib/ganeti/config.data")
    processes.wait_for(copy.exists, 20.0, "the second candidate has its copy of the configuration")
