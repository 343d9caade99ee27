# SPDX-License-Identifier: BSD-2-Clause
"""Forged, replayed, cut-off and too long messages at every port and socket: none is accepted, none ends a daemon.

A few of each in `make test`; 100,000 at each place under GANETI_CAMPAIGN=1.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.node.certificates import create_authority, issue_node_certificate
from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
FORGER = Path(__file__).parent / "programs/forger.py"
CAMPAIGN = bool(os.environ.get("GANETI_CAMPAIGN"))
COUNT = 100_000 if CAMPAIGN else 120
WARM = 4_000 if CAMPAIGN else 96
"""Sent before the memory is looked at for the first time."""
GROWTH_MAX_KIB = 8 * 1024
MORE_DESCRIPTORS_MAX = 16
DAEMONS = {
    "noded": "ganeti-noded",
    "caller": "ganeti-noded",
    "mirrord": "ganeti-mirrord",
    "disk": "ganeti-mirrord",
    "rapi": "ganeti-rapi",
    "mond": "ganeti-mond",
    "luxid": "ganeti-luxid",
    "wconfd": "ganeti-wconfd",
    "confd": "ganeti-confd",
    "maintd": "ganeti-maintd",
    "token": ":1817 ",
    "master": "ganeti-luxid",
    "mirror-control": "ganeti-mirrord",
}
"""Kinds of the forger, with whom each writes to: a daemon, or who listens on a port. The caller has a
true certificate."""
SOCKETS = {"ganeti-query", "ganeti-master", "ganeti-wconfd", "control"}
OF_A_DISK = re.compile(r"/mirror/[0-9a-f-]+\.(nbd|cmd)$")
"""Those of its storage daemon."""
DATA = "/var/lib/ganeti"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("forged").resolve(), 3, "fake", watcher_interval_s=86400)
    try:
        found = FakeBed(layout)
        *words, name = cluster.init_command(layout)
        found.run(*words, "--candidate-pool-size=1", name)
        found.wait(lambda: ":22 " in found.run("ss", "-ltn", node="node2"), "sshd of node2 listens")
        found.run(*cluster.add_command(layout.node("node2")))
        cluster.wait_for_answering(layout, [layout.node("node2")])
        found.run("sh", "-c", f"umask 027; mkdir -p {DATA}/rapi && echo 'jack open-sesame write' >{DATA}/rapi/users")
        for daemon in ("ganeti-rapi", "ganeti-maintd"):
            found.run("daemon-util", "start", daemon)
        disk = ("-t", "mirror", "--disk", "0:size=8m", "-n", "node1:node2")
        found.run("gnt-instance", "add", *disk, "-o", "noop+default", "inst1")  # ganeti-mirrord ends without one
        stranger = issue_node_certificate(create_authority("cluster"), "node1", "cluster")
        regular = (found.data("node2") / "client.pem").read_text()
        for file, text in (("stranger.pem", stranger), ("regular.pem", regular)):
            found.run("sh", "-c", f"umask 077; cat >{DATA}/{file} <<'END'\n{text}END")
        waiting = machine.popen(layout, "node1", *cluster.token_command(layout.node("node3"), "--timeout=86400"))
        found.wait(lambda: ":1817 " in found.run("ss", "-ltn"), "gnt-node token waits")
        yield found
        assert waiting.poll() is None, "strangers have ended gnt-node token"
        waiting.kill()
        waiting.wait()
    finally:
        testbed.down(layout)


def forge(bed: FakeBed, kind: str, count: int, seed: str) -> dict:
    words = (sys.executable, str(FORGER), kind, str(count), seed, DATA)
    done = machine.run(bed.layout, "node1", *words, timeout_s=None if CAMPAIGN else 300.0)
    assert done.returncode == 0, done.stderr
    found: dict = json.loads(done.stdout)
    return found


def process(bed: FakeBed, daemon: str) -> tuple[int, int, int]:
    """(process id, resident KiB, open descriptors) of a daemon on node1."""
    if daemon.startswith(":"):
        (line,) = (line for line in bed.run("ss", "-Hltnp").splitlines() if daemon in line)
        pid = int(line.partition("pid=")[2].partition(",")[0])
    else:
        pid = int(bed.run("cat", f"/run/ganeti/{daemon}.pid"))
    status = bed.run("cat", f"/proc/{pid}/status")
    return pid, int(status.split("VmRSS:")[1].split()[0]), len(bed.run("ls", f"/proc/{pid}/fd").split())


@pytest.mark.parametrize("kind", DAEMONS)
def test_nothing_forged_is_accepted(bed: FakeBed, kind: str) -> None:
    warm = forge(bed, kind, WARM, "warm")
    pid, before_kib, descriptors = process(bed, DAEMONS[kind])
    begun_s = time.monotonic()
    told = forge(bed, kind, COUNT, "forged")
    now, after_kib, _ = process(bed, DAEMONS[kind])
    took_s = time.monotonic() - begun_s
    print(
        f"{kind}: {told['sent']} in {took_s:.0f} s, {len(told['accepted'])} accepted, {before_kib} to {after_kib} KiB"
    )
    assert warm["accepted"] == told["accepted"] == []
    assert told["sent"] == COUNT
    assert now == pid
    assert after_kib - before_kib < GROWTH_MAX_KIB, f"{kind} grew from {before_kib} to {after_kib} KiB"
    bed.wait(  # the last connections may be closed only now
        lambda: process(bed, DAEMONS[kind])[2] - descriptors < MORE_DESCRIPTORS_MAX,
        f"{kind} closes the connections of those who have gone",
    )


def test_everything_works_afterwards_and_nobody_crashed(bed: FakeBed) -> None:
    bed.run("gnt-debug", "delay", "-n", "node1", "-n", "node2", "0.01")
    assert "node2" in bed.run("gnt-node", "list")
    for log in (bed.layout.node("node1").upper / "var/log/ganeti").glob("*-daemon.log"):
        assert "Traceback" not in log.read_text(errors="replace"), log.name


@pytest.mark.parametrize("kind", [kind for kind in DAEMONS if kind not in ("mirrord", "disk", "token")])
def test_the_forger_sees_what_is_accepted(bed: FakeBed, kind: str) -> None:
    """A true message at the same place is; for a disk only that of the other node, a token once (test_token.py)."""
    assert bed.run(sys.executable, str(FORGER), kind, "true", "", DATA).strip() == "true"


def test_there_is_no_other_socket(bed: FakeBed) -> None:
    paths = re.findall(r"\s(/\S+)\s", bed.run("ss", "-Hlxn"))
    ours = {path.rpartition("/")[2] for path in paths if "/run/ganeti/" in path and not OF_A_DISK.search(path)}
    assert ours == SOCKETS


def test_only_the_documented_ports_are_listened_on(bed: FakeBed) -> None:
    """And each by the daemon of the table in docs/operator/security.md."""
    table = (Path(__file__).parents[2] / "docs/operator/security.md").read_text().partition("## Ports")[2]
    rows = [line.split("|") for line in table.splitlines() if re.match(r"\| \d+ (?:TCP|UDP) \|", line)]
    documented = {tuple(row[1].split()): row[2] for row in rows}
    found = re.findall(r"^(tcp|udp)\s.*?\s\S+:(\d+)\s.*?\(\(\"([^\"]+)\"", bed.run("ss", "-Hlntup"), re.M)
    ours = {(port, kind.upper()): name for kind, port, name in found if name not in ("sshd", "node-init")}
    assert len(ours) >= 5
    for place, name in ours.items():
        assert place in documented, f"{name} listens on {place}"
        assert f"`{name[:15]}" in documented[place], f"{name} listens on {place}, which is for {documented[place]}"
