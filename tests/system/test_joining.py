# SPDX-License-Identifier: BSD-2-Clause
"""gnt-node add on real machines: one that is refused is as it was, and several join at the same time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed, cluster, machine

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
ADD = ("gnt-node", "add", "--no-ssh-key-check")
FILES = "find /var/lib/ganeti /etc/ssh /root/.ssh -type f | sort | xargs sha256sum; ls -A /var/lib/ganeti"
DAEMONS = "for name in noded confd mond; do /usr/lib/ganeti/daemon-util check ganeti-$name && echo $name; done; true"
START_WITHIN_S = 60.0
HELPERS_AND_DAEMONS = f"pgrep -f '[n]ode-daemon-setup'; {DAEMONS}"
SSH = """
name=$(cat /var/lib/ganeti/ssconf_cluster_name)
exec ssh -o BatchMode=yes -o HostKeyAlias=$name -o UserKnownHostsFile=/var/lib/ganeti/known_hosts "$1" true
"""
HOOK = "/etc/ganeti/hooks/node-add-pre.d/refuse"


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


def test_a_refused_machine_is_as_it_was_and_two_join_at_once(fake_bed: FakeBed) -> None:
    before = fake_bed.run("sh", "-c", FILES, node="node2")
    script = f"mkdir -p $(dirname {HOOK}); printf '#!/bin/sh\\necho not today; exit 1\\n' >{HOOK}; chmod 755 {HOOK}"
    fake_bed.run("sh", "-c", script)
    assert "not today" in fake_bed.run(*ADD, "node2", expect=1)
    assert fake_bed.run("sh", "-c", FILES, node="node2") == before
    assert fake_bed.run("sh", "-c", DAEMONS, node="node2") == ""
    assert fake_bed.run("gnt-node", "list", "--no-headers", "-o", "name").split() == ["node1"]
    fake_bed.run("rm", HOOK)

    layout = fake_bed.layout
    running = [machine.popen(layout, "node1", *ADD, name) for name in ("node2", "node3")]
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
    fake_bed.run(*ADD, "node2")
    fake_bed.run("gnt-node", "remove", "node2")
    end_s = time.monotonic() + START_WITHIN_S
    while fake_bed.run("sh", "-c", HELPERS_AND_DAEMONS, node="node2"):
        assert time.monotonic() < end_s
        time.sleep(0.1)
    fake_bed.run(*ADD, "node2")
    _wait_for_daemons(fake_bed, "node2")
    fake_bed.check()


def _wait_for_daemons(fake_bed: FakeBed, node: str) -> None:
    """The command has waited for the node daemon alone."""
    end_s = time.monotonic() + START_WITHIN_S
    while (running := fake_bed.run("sh", "-c", DAEMONS, node=node).split()) != ["noded", "confd", "mond"]:
        assert running[:1] == ["noded"] and time.monotonic() < end_s
        time.sleep(0.1)
