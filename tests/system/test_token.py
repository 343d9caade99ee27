# SPDX-License-Identifier: BSD-2-Clause
"""A machine joins with a one-time token a cluster that does not look after ssh between its nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine

pytestmark = pytest.mark.daemons


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("token").resolve(), 2, "fake", watcher_interval_s=86400)
    words = cluster.init_command(layout)
    made = FakeBed(layout)
    made.run(*words[:2], "--no-ssh-init", *words[2:])
    yield made
    testbed.down(layout)


def offered(bed: FakeBed, *options: str) -> tuple[machine.subprocess.Popen[str], list[str]]:
    """Let the master wait; gives that process, and the words that it says are to be typed on the machine."""
    waiting = machine.popen(bed.layout, "node1", *cluster.token_command(bed.layout.node("node2"), *options))
    assert waiting.stdout is not None
    lines = [waiting.stdout.readline() for _ in range(2)]
    assert lines[0].startswith("Run on node2"), waiting.communicate()
    return waiting, lines[1].split()


HOOK = "/etc/ganeti/hooks/node-add-pre.d/refuse"
STATE = "ls -A /var/lib/ganeti; /usr/lib/ganeti/daemon-util check ganeti-noded && echo noded; true"


def test_a_machine_whose_job_fails_is_as_it_was(bed: FakeBed) -> None:
    before = bed.run("sh", "-c", STATE, node="node2")
    script = f"mkdir -p $(dirname {HOOK}); printf '#!/bin/sh\\necho not today; exit 1\\n' >{HOOK}; chmod 755 {HOOK}"
    bed.run("sh", "-c", script)
    waiting, words = offered(bed)
    told = bed.run("gnt-node", "join", "node1", words[3], node="node2", expect=1)
    assert "has not taken this machine in" in told
    out, errors = waiting.communicate(timeout=60)
    assert waiting.returncode and "not today" in out + errors
    assert bed.run("sh", "-c", STATE, node="node2") == before
    bed.run("rm", HOOK)


def test_a_machine_joins_with_a_token_and_no_ssh(bed: FakeBed) -> None:
    bed.run("sh", "-c", "kill $(cat /run/sshd.pid)", node="node2")
    waiting, words = offered(bed)
    wrong = bed.run("gnt-node", "join", "node1", "A" * 64, node="node2", expect=1)
    assert "is not the master that has given this token" in wrong
    bed.run("sh", "-c", f"echo {words[3]} | gnt-node join node1", node="node2")
    out, errors = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, out + errors
    assert bed.run("gnt-node", "list", "--no-headers", "-o", "name,role").split() == ["node1", "M", "node2", "C"]
    bed.run("gnt-instance", "add", "-t", "diskless", "-o", "noop+default", "-n", "node2", "inst1")
    again = bed.run("gnt-node", "join", "node1", words[3], node="node2", expect=1)
    assert "does gnt-node token still wait there" in again


def test_what_would_be_refused_is_refused_before_anybody_waits(bed: FakeBed) -> None:
    assert "already in the cluster" in bed.run("gnt-node", "token", "node2", expect=1)
    assert "not in the cluster" in bed.run("gnt-node", "token", "--readd", "inst2", expect=1)


def test_nobody_waits_for_ever(bed: FakeBed) -> None:
    begun_s = time.monotonic()
    assert "has not joined in time" in bed.run("gnt-node", "token", "--timeout=1", "--readd", "node2", expect=1)
    assert time.monotonic() - begun_s < 30
