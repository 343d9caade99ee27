# SPDX-License-Identifier: BSD-2-Clause
"""Another Ganeti is installed on the machine: nothing of it is started, and no cluster is made beside its daemons."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.base.errors import CommandError
from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
FOREIGN = ("/usr/sbin/ganeti-rapi", "/usr/local/sbin/ganeti-rapi", "/usr/sbin/ganeti-noded", "/usr/bin/daemon-util")
PROGRAM = """#!/usr/bin/python3 -IS
import fcntl, os, sys
os.makedirs("/run/ganeti", exist_ok=True)
with open("/run/foreign-started", "a") as file:
    print(*sys.argv, file=file)
if "wait" in sys.argv:
    file = open("/run/ganeti/ganeti-rapi.pid", "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    print(os.getpid(), file=file, flush=True)
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("foreign").resolve(), 1, "fake", watcher_interval_s=86400)
    try:
        for path in FOREIGN:
            words = ("sh", "-c", f"mkdir -p $(dirname {path}) && rm -f {path} && cat > {path} && chmod 755 {path}")
            done = machine.run(layout, "node1", *words, text=PROGRAM)
            assert done.returncode == 0, done.stderr
        yield FakeBed(layout)
    finally:
        testbed.down(layout)


def test_no_cluster_is_made_on_the_directories_of_a_daemon_that_runs(bed: FakeBed) -> None:
    with machine.popen(bed.layout, "node1", FOREIGN[0], "wait", stdin=-1) as foreign:
        assert foreign.stdout is not None and foreign.stdout.readline() == "ready\n"
        with pytest.raises(CommandError) as caught:
            cluster.create(bed.layout)
        foreign.communicate("")
    said = " ".join(str(caught.value).split())
    assert "/usr/sbin/ganeti-rapi (process " in said and "of another Ganeti on this machine" in said, said
    bed.run("rm", "/run/foreign-started", "/run/ganeti/ganeti-rapi.pid")


def test_only_our_own_programs_are_started(bed: FakeBed) -> None:
    cluster.create(bed.layout)
    bed.run("daemon-util", "stop-all")
    bed.run("daemon-util", "start-all")
    bed.run("daemon-util", "start-master")
    assert "ganeti-kvmd" not in bed.run("daemon-util", "list-start-daemons")
    bed.run("gnt-cluster", "master-ping")
    bed.run("ganeti-watcher")
    assert "No such file" in bed.run("cat", "/run/foreign-started", expect=1)
