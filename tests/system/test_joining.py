# SPDX-License-Identifier: BSD-2-Clause
"""gnt-node add on real machines: one that is refused is as it was, and several join at the same time."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed, cluster, machine, processes

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
FILES = "find /var/lib/ganeti /etc/ssh /root/.ssh -type f | sort | xargs sha256sum; ls -A /var/lib/ganeti"
DAEMONS = "for name in noded confd mond; do /usr/lib/ganeti/daemon-util check ganeti-$name && echo $name; done; true"
START_WITHIN_S = 60.0
HELPERS_AND_DAEMONS = f"pgrep -f '[n]ode-daemon-setup'; {DAEMONS}"
SSH = """
name=$(cat /var/lib/ganeti/ssconf_cluster_name)
exec ssh -o BatchMode=yes -o HostKeyAlias=$name -o UserKnownHostsFile=/var/lib/ganeti/known_hosts "$1" true
"""
HOOK = "/etc/ganeti/hooks/node-add-pre.d/refuse"


WAITING_HOOK = """
mkdir -p $(dirname $1)
printf '#!/bin/sh\ntouch /root/waits; while [ ! -e /root/goes ]; do sleep 0.1; done; exit 1\n' >$1
chmod 755 $1
"""


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    """The master alone."""
    layout = bed.up(tmp_path_factory.mktemp("joining").resolve(), 3, "fake", watcher_interval_s=86400)
    try:
        done = machine.run(layout, "node1", *cluster.init_command(layout))
        assert done.returncode == 0, done.stderr
        yield FakeBed(layout)
    finally:
        bed.down(layout)


def test_a_joining_that_is_killed_leaves_nothing_and_the_next_one_works(fake_bed: FakeBed) -> None:
    """Three times: with the keys of ssh written, while its job runs, and while the node daemon starts."""
    layout, before = fake_bed.layout, fake_bed.run("sh", "-c", FILES, node="node2")
    record = fake_bed.data("node2") / "joining"

    adding = machine.popen(layout, "node1", *_add(fake_bed))
    fake_bed.wait(lambda: "host keys" in _told(record), "other host keys are written down")
    fake_bed.wait(lambda: fake_bed.run("sh", "-c", FILES, node="node2") != before, "the first file is another one")
    _kill(fake_bed, "node-daemon-setup --join")
    assert "node-daemon-setup on node2" in adding.communicate(timeout=60)[1] and adding.returncode == 1
    fake_bed.run("ganeti-watcher", node="node2")
    assert fake_bed.run("sh", "-c", FILES, node="node2") == before

    fake_bed.run("sh", "-c", WAITING_HOOK, "sh", HOOK)
    adding = machine.popen(layout, "node1", *_add(fake_bed))
    fake_bed.wait((layout.node("node1").upper / "root/waits").exists, "its job runs")
    _kill(fake_bed, "node-daemon-setup --join")
    fake_bed.run("touch", "/root/goes")
    adding.communicate(timeout=60)
    assert adding.returncode == 1 and "asked" in _told(record)
    fake_bed.run("rm", HOOK, "/root/goes", "/root/waits")
    fake_bed.run(*_add(fake_bed))
    assert fake_bed.run("gnt-node", "list", "--no-headers", "-o", "name").split() == ["node1", "node2"]
    assert not record.exists()
    fake_bed.run("gnt-node", "remove", "node2")
    before = fake_bed.run("sh", "-c", FILES, node="node2")

    waiting = machine.popen(layout, "node1", *cluster.token_command(layout.node("node2")))
    assert waiting.stdout is not None
    words = [waiting.stdout.readline() for _ in range(2)][1].split()
    joining = machine.popen(layout, "node2", *words)
    fake_bed.wait(lambda: bool(_processes(fake_bed, "ganeti-noded")), "the node daemon is started")
    _kill(fake_bed, words[-1])
    joining.communicate(timeout=60)
    fake_bed.wait(lambda: not _processes(fake_bed, "start-stop-daemon"), "nobody starts it any more")
    fake_bed.run("ganeti-watcher", node="node2")
    fake_bed.wait(lambda: not _processes(fake_bed, "ganeti-noded"), "one that still came up without keys has ended")
    assert fake_bed.run("sh", "-c", FILES, node="node2") == before
    assert fake_bed.run("sh", "-c", DAEMONS, node="node2") == ""
    fake_bed.run(*words, node="node2")
    out, errors = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, out + errors
    assert not record.exists()
    fake_bed.run("gnt-node", "remove", "node2")


def test_a_machine_that_waits_for_a_master_that_was_without_power_can_be_added_at_once(fake_bed: FakeBed) -> None:
    """Its connection stays open for hours; here ssh is stopped, which sends as little as a machine without power."""
    layout, record = fake_bed.layout, fake_bed.data("node2") / "joining"
    fake_bed.run("sh", "-c", WAITING_HOOK, "sh", HOOK)
    adding = machine.popen(layout, "node1", *_add(fake_bed))
    fake_bed.wait((layout.node("node1").upper / "root/waits").exists, "its job runs")
    (ssh,) = _processes(fake_bed, "ssh -o", node="node1")
    os.kill(ssh, signal.SIGSTOP)
    try:
        for pid in _processes(fake_bed, "gnt-node add", node="node1"):
            os.kill(pid, signal.SIGKILL)
        adding.communicate(timeout=60)
        fake_bed.run("touch", "/root/goes")
        fake_bed.wait(lambda: not fake_bed.run("gnt-job", "list", "--no-headers", "--running").strip(), "its job's end")
        assert "asked" in _told(record) and _processes(fake_bed, "node-daemon-setup --join")
        fake_bed.run("rm", HOOK, "/root/goes", "/root/waits")
        fake_bed.run(*_add(fake_bed))
    finally:
        os.kill(ssh, signal.SIGKILL)
    assert fake_bed.run("gnt-node", "list", "--no-headers", "-o", "name").split() == ["node1", "node2"]
    assert not record.exists()
    fake_bed.run("gnt-node", "remove", "node2")
    fake_bed.check()


def test_a_node_whose_job_is_killed_is_taken_out_again_and_the_next_try_works(fake_bed: FakeBed) -> None:
    """Killed when the configuration has the node; the command does not know then how that ends."""
    record = fake_bed.data("node2") / "joining"
    pauses = ",".join(f"job-committed-{step}" for step in range(1, 20))
    fake_bed.run("daemon-util", "stop", "ganeti-luxid")
    fake_bed.run("env", f"GANETI_PAUSE_AT={pauses}", "daemon-util", "start", "ganeti-luxid")
    adding = machine.popen(fake_bed.layout, "node1", *_add(fake_bed))
    fake_bed.wait(lambda: bool(list(fake_bed.stopped())), "its job has entered the node")
    fake_bed.wait(lambda: len(fake_bed.config()["nodes"]) == 2, "config.data has it, too")
    os.kill(next(iter(fake_bed.stopped())), signal.SIGKILL)

    def has_ended() -> bool:
        fake_bed.let_go_on()
        return adding.poll() is not None

    fake_bed.wait(has_ended, "the end of the command")
    adding.communicate(timeout=60)
    assert adding.returncode
    fake_bed.run("daemon-util", "stop", "ganeti-luxid")
    fake_bed.run("daemon-util", "start", "ganeti-luxid")
    fake_bed.wait(lambda: len(fake_bed.config()["nodes"]) == 1, "the node is taken out again")
    assert fake_bed.run("gnt-node", "list", "--no-headers", "-o", "name").split() == ["node1"]
    fake_bed.run(*_add(fake_bed))
    assert not record.exists()
    fake_bed.run("gnt-node", "remove", "node2")
    fake_bed.check()


def _add(fake_bed: FakeBed, node: str = "node2") -> list[str]:
    return cluster.add_command(fake_bed.layout.node(node))


def _told(record: Path) -> str:
    """What a joining has written down; nothing where there is none."""
    try:
        return record.read_text()
    except FileNotFoundError:
        return ""


def _kill(fake_bed: FakeBed, words: str) -> None:
    found = _processes(fake_bed, words)
    assert found, f"nothing runs {words} on node2"
    for pid in found:
        with contextlib.suppress(ProcessLookupError):  # it was another's child
            os.kill(pid, signal.SIGKILL)


def _processes(fake_bed: FakeBed, words: str, node: str = "node2") -> list[int]:
    """Those of *node* whose command line has *words*, but for the shell that sshd starts them in."""
    init = machine.running_pid(fake_bed.layout, fake_bed.layout.node(node))
    found = []
    for pid in processes.in_namespace("pid", Path(f"/proc/{init}/ns/pid")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            if words in line and "sh -c" not in line and "daemon-util" not in line:
                found.append(pid)
    return found


def test_a_refused_machine_is_as_it_was_and_two_join_at_once(fake_bed: FakeBed) -> None:
    before = fake_bed.run("sh", "-c", FILES, node="node2")
    script = f"mkdir -p $(dirname {HOOK}); printf '#!/bin/sh\\necho not today; exit 1\\n' >{HOOK}; chmod 755 {HOOK}"
    fake_bed.run("sh", "-c", script)
    assert "not today" in fake_bed.run(*_add(fake_bed), expect=1)
    assert fake_bed.run("sh", "-c", FILES, node="node2") == before
    assert fake_bed.run("sh", "-c", DAEMONS, node="node2") == ""
    assert fake_bed.run("gnt-node", "list", "--no-headers", "-o", "name").split() == ["node1"]
    fake_bed.run("rm", HOOK)

    layout = fake_bed.layout
    running = [machine.popen(layout, "node1", *_add(fake_bed, name)) for name in ("node2", "node3")]
    for process in running:
        out, errors = process.communicate(timeout=240)
        assert process.returncode == 0, out + errors
    assert fake_bed.run("gnt-node", "list", "--no-headers", "-o", "name,role").split() == [
        *("node1", "M"),
        *("node2", "C"),
        *("node3", "C"),
    ]
    for node in ("node2", "node3"):
        _wait_for_daemons(fake_bed, node)
    fake_bed.run("sh", "-c", SSH, "sh", "node3", node="node2")
    fake_bed.run("sh", "-c", SSH, "sh", "node2", node="node3")
    fake_bed.run("gnt-cluster", "verify")
    fake_bed.check()


def test_a_machine_that_leaves_while_its_daemons_start_has_none(fake_bed: FakeBed) -> None:
    """ConfD and MonD are started after the command has ended."""
    fake_bed.run("gnt-node", "remove", "node2")
    fake_bed.run(*_add(fake_bed))
    fake_bed.run("gnt-node", "remove", "node2")
    end_s = time.monotonic() + START_WITHIN_S
    while fake_bed.run("sh", "-c", HELPERS_AND_DAEMONS, node="node2"):
        assert time.monotonic() < end_s
        time.sleep(0.1)
    fake_bed.run(*_add(fake_bed))
    _wait_for_daemons(fake_bed, "node2")
    fake_bed.check()


def _wait_for_daemons(fake_bed: FakeBed, node: str) -> None:
    """The command has waited for the node daemon alone."""
    end_s = time.monotonic() + START_WITHIN_S
    while (running := fake_bed.run("sh", "-c", DAEMONS, node=node).split()) != ["noded", "confd", "mond"]:
        assert running[:1] == ["noded"] and time.monotonic() < end_s
        time.sleep(0.1)
