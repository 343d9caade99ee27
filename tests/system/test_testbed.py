# SPDX-License-Identifier: BSD-2-Clause
"""The testbed itself, with real namespaces: nodes lose power, hang, are cut off, and the host sees nothing of it."""

import hashlib
import os
import select
import subprocess
import time
from pathlib import Path

import pytest
from tests.fakes import bed_addresses

from ganeti.base.errors import PrerequisiteError
from ganeti.tools.testbed import bed, command, layout, machine, network, processes, watching

pytestmark = [
    pytest.mark.daemons,
    bed_addresses.of_ipv4_alone("it types such addresses; test_addresses.py has those of IPv6"),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
HOST_FILES = ("/etc/hosts", "/etc/hostname", "/etc/ssh", "/root/.ssh", "/var/lib/ganeti", "/etc/ganeti")


def host_files() -> str:
    """Give one hash over names, modes, times and contents of what a testbed must never touch."""
    digest = hashlib.sha256()
    for top in map(Path, HOST_FILES):
        for path in [top, *sorted(top.rglob("*"))]:
            if path.exists():
                status = path.lstat()
                digest.update(f"{path} {status.st_mode} {status.st_mtime_ns}".encode())
                digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


def traces(directory: Path) -> list[str]:
    """Give what names the testbed's directory: mounts, processes, cgroups."""
    found = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(directory) in line]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "node-init" in words and str(directory) in words:
            found.append(words)
    tag = layout.Layout(directory, directory, "fake", 1).tag
    found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{tag}*")]
    return found


@pytest.fixture(scope="module")
def testbed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("bed").resolve()
    before = host_files()
    made = bed.up(directory, 2, "fake", watcher_interval_s=300, ip="4")
    try:
        yield made
    finally:
        bed.down(made)
    assert host_files() == before
    assert traces(directory) == []
    assert not directory.exists()


def said(testbed, node, *words):
    done = machine.run(testbed, node, *words, timeout_s=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def second(testbed):
    """The node tests may treat badly; it runs again afterwards."""
    node = testbed.node("node2")
    yield node
    now = machine.state(testbed, node)
    if now == machine.STOPPED:
        machine.resume(testbed, node)
    elif now == machine.OFF:
        machine.start(testbed, node)
    network.set_lan(testbed, node, up=True)


def reaches(testbed, origin, target) -> bool:
    return machine.run(testbed, origin, "busybox", "ping", "-c", "1", "-W", "1", target).returncode == 0


def wait_for_ssh(testbed, target):
    processes.wait_for(
        lambda: machine.run(testbed, "node1", "ssh", "-o", "ConnectTimeout=1", target, "true").returncode == 0,
        20,
        f"sshd of {target}",
    )


def test_a_node_has_its_own_name_address_and_files(testbed):
    assert said(testbed, "node2", "hostname") == "node2"
    assert "10.77.0.2/24" in said(testbed, "node2", "ip", "-brief", "address", "show", "dev", "eth0")
    assert said(testbed, "node2", "getent", "ahostsv4", "inst7").startswith("10.78.0.7 ")
    assert said(testbed, "node2", "cat", "/etc/ganeti/file-storage-paths").splitlines() == [
        "/srv/ganeti/file-storage",
        "/srv/ganeti/shared-file-storage",
    ]
    assert said(testbed, "node2", "ls", "/srv/ganeti/os").split() == ["heartbeat", "noop"]
    said(testbed, "node2", "mkdir", "/srv/ganeti/os/own")
    assert (
        not (testbed.checkout / "os/own").exists()
        and said(testbed, "node1", "ls", "/srv/ganeti/os") == "heartbeat\nnoop"
    )
    assert said(testbed, "node2", "ls", "-A", "/var/lib/ganeti") == ""


def test_the_administrator_reaches_every_node_by_key(testbed):
    wait_for_ssh(testbed, "node2")
    assert said(testbed, "node1", "ssh", "-o", "BatchMode=yes", "node2", "hostname") == "node2"


def test_the_shared_directory_is_one_and_the_other_is_not(testbed):
    said(testbed, "node1", "touch", "/srv/ganeti/shared-file-storage/seen", "/srv/ganeti/file-storage/mine")
    assert said(testbed, "node2", "ls", "/srv/ganeti/shared-file-storage") == "seen"
    assert said(testbed, "node2", "ls", "/srv/ganeti/file-storage") == ""


def test_status_and_input_pass_through(testbed):
    assert machine.run(testbed, "node1", "sh", "-c", "exit 7").returncode == 7
    assert machine.run(testbed, "node1", "cat", text="given\n").stdout == "given\n"


def test_pulling_the_plug_keeps_the_disk_only(testbed, second):
    said(testbed, "node2", "touch", "/var/lib/ganeti/kept", "/run/gone", "/tmp/gone")
    waiting = machine.popen(testbed, "node2", "sleep", "60")
    machine.kill(testbed, second)
    assert waiting.wait(10) != 0
    assert machine.state(testbed, second) == machine.OFF
    assert not reaches(testbed, "node1", "node2")
    with pytest.raises(PrerequisiteError, match="node2 is off"):
        machine.run(testbed, "node2", "true")
    with pytest.raises(PrerequisiteError, match="off already"):
        machine.kill(testbed, second)
    machine.start(testbed, second)
    assert said(testbed, "node2", "sh", "-c", "ls -d /var/lib/ganeti/kept /run/gone /tmp/gone 2>/dev/null; true") == (
        "/var/lib/ganeti/kept"
    )
    wait_for_ssh(testbed, "node2")


def test_a_stopped_node_answers_nobody_and_goes_on(testbed, second):
    counting = machine.popen(testbed, "node2", "sh", "-c", "while echo; do sleep 0.05; done")
    assert counting.stdout is not None
    output = counting.stdout.fileno()
    os.read(output, 1)
    machine.stop(testbed, second)
    assert machine.state(testbed, second) == machine.STOPPED
    with pytest.raises(PrerequisiteError, match="node2 is stopped"):
        machine.run(testbed, "node2", "true")
    while select.select([output], [], [], 0)[0]:
        os.read(output, 65536)
    reached = machine.run(testbed, "node1", "timeout", "1", "ssh", "-o", "BatchMode=yes", "node2", "true")
    assert reached.returncode == 124
    assert not select.select([output], [], [], 0)[0]
    machine.resume(testbed, second)
    assert machine.state(testbed, second) == machine.RUNNING
    assert select.select([output], [], [], 20)[0]
    counting.kill()
    counting.communicate()


def test_a_stopped_node_can_lose_its_power(testbed, second):
    machine.stop(testbed, second)
    machine.kill(testbed, second)
    assert machine.state(testbed, second) == machine.OFF


def test_a_partition_cuts_the_cluster_lan_only(testbed, second):
    assert reaches(testbed, "node1", "10.77.0.2")
    network.set_lan(testbed, second, up=False)
    assert network.partitioned(testbed) == {"node2"}
    assert not reaches(testbed, "node1", "10.77.0.2")
    assert said(testbed, "node2", "hostname") == "node2"
    network.set_lan(testbed, second, up=True)
    assert network.partitioned(testbed) == set()
    processes.wait_for(lambda: reaches(testbed, "node1", "10.77.0.2"), 10, "the end of the partition")


def test_nothing_is_put_up_twice(testbed, capsys):
    assert command.main(["up", str(testbed.directory)]) == 1
    assert "is a testbed already" in capsys.readouterr().err


def test_the_command_tells_the_state(testbed, second, capsys):
    machine.kill(testbed, second)
    assert command.main(["status", str(testbed.directory)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "node1    10.77.0.1    running",
        "node2    10.77.0.2    off",
    ]


def test_exec_becomes_the_command(testbed):
    program = testbed.checkout / ".venv/bin/python"
    words = [
        program,
        "-m",
        "ganeti.tools.testbed.command",
        "exec",
        testbed.directory,
        "node2",
        "sh",
        "-c",
        "hostname; exit 9",
    ]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (9, "node2\n")


def test_a_failed_start_leaves_nothing(tmp_path, monkeypatch):
    def refuse(*_):
        raise PrerequisiteError("no power")

    monkeypatch.setattr(machine, "start", refuse)
    with pytest.raises(PrerequisiteError, match="no power"):
        bed.up(tmp_path / "bed", 1, "fake")
    assert not (tmp_path / "bed").exists()
    assert traces(tmp_path / "bed") == []


def test_the_observer_sees_beats_and_replies_at_the_hub(testbed):
    address = "10.78.0.1"
    said(testbed, "node1", "ip", "address", "add", f"{address}/24", "dev", layout.GUEST_BRIDGE)
    with watching.watching(testbed, [address]) as watch:
        began = time.monotonic()
        talk = machine.popen(
            testbed, "node1", "busybox", "nc", *watching.ack(testbed).rsplit(":", 1), stdin=subprocess.PIPE
        )
        talk.stdin.write("inst1 1\ninst1 2\ninst1 4\n")
        talk.stdin.flush()
        assert watch.wait_for_beat("inst1", began, 20)[1] == 1
        processes.wait_for(lambda: watch.last_beat("inst1") == 4, 20, "the last beat")
        assert watch.lost_beats("inst1", began) == 1
        processes.wait_for(lambda: watch.longest_gap_s(address, began, began + 5) < 5, 20, "a reply")
        talk.kill()
        talk.communicate()
