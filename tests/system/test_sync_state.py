# SPDX-License-Identifier: BSD-2-Clause
"""What people see of the copies, on three real nodes: who is in sync, who is not and why, and that it mends itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed, cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
NO_CRON_S = 86400
ALL = {"node1": "master", "node2": "in-sync", "node3": "in-sync"}
VERIFY = ("gnt-cluster", "verify", "--error-codes")
CHANGE_OWNER = """
import json, sqlite3, sys
from ganeti.master.config.fingerprint import Fingerprint
database = sqlite3.connect("/var/lib/ganeti/config.sqlite", isolation_level=None)
(data,) = database.execute("SELECT data FROM objects WHERE kind = 'cluster'").fetchone()
plain = json.loads(data)
print(plain["uuid"])
plain["uuid"] = sys.argv[1]
text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False)
text = text.encode() if isinstance(data, bytes) else text
database.execute("UPDATE objects SET data = ? WHERE kind = 'cluster'", (text,))
# Another cluster's copy is a whole one: with a fingerprint of its own, or it would be a damaged copy of ours.
meta = dict(database.execute("SELECT key, value FROM meta"))
objects = {(kind, uuid): data for kind, uuid, data in database.execute("SELECT kind, uuid, data FROM objects")}
digest = Fingerprint(json.loads(meta["header"]), objects).now(int(meta["serial"]), float(meta["mtime"]))
last = (int(meta["epoch"]), int(meta["serial"]))
changed = database.execute("UPDATE commits SET digest = ? WHERE epoch = ? AND serial = ?", (digest, *last))
if not changed.rowcount:
    position, digests = json.loads(meta["published"])
    published = json.dumps([position, [*digests[:-1], digest]])
    database.execute("UPDATE meta SET value = ? WHERE key = 'published'", (published,))
database.close()
"""
ROT = """
path = "/var/lib/ganeti/config.sqlite"
with open(path, "r+b") as file:
    size = file.seek(0, 2)
    for place in range(4096 + 100, size, 4096):
        file.seek(place)
        file.write(b"rotten" * 100)
"""
OTHER_CLUSTER = "11111111-2222-4333-8444-555555555555"


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = bed.up(tmp_path_factory.mktemp("sync").resolve(), 3, "fake", watcher_interval_s=NO_CRON_S)
    try:
        cluster.create(layout)
        yield FakeBed(layout)
    finally:
        bed.down(layout)


def states(fake_bed: FakeBed) -> dict[str, str]:
    lines = fake_bed.run("gnt-node", "list", "--no-headers", "--separator=|", "-o", "name,sync_state").splitlines()
    return dict(line.split("|", 1) for line in lines)


def settle(fake_bed: FakeBed) -> None:
    fake_bed.wait(lambda: states(fake_bed) == ALL, "all candidates are in sync")


def leave_out(fake_bed: FakeBed, node: str) -> None:
    """End a node daemon; the next change shows who takes it."""
    fake_bed.run("daemon-util", "stop", "ganeti-noded", node=node)
    change(fake_bed)
    fake_bed.wait(lambda: not states(fake_bed)[node].startswith("in-sync"), f"{node} is left out")


def bring_back(fake_bed: FakeBed, node: str) -> None:
    fake_bed.run("daemon-util", "start", "ganeti-noded", node=node)
    change(fake_bed)


def change(fake_bed: FakeBed) -> None:
    for number in (21, 20):
        fake_bed.run("gnt-cluster", "modify", f"--max-running-jobs={number}")


def test_every_candidate_comes_in_sync_and_verification_has_nothing_to_say(fake_bed: FakeBed) -> None:
    settle(fake_bed)
    change(fake_bed)
    positions = fake_bed.run("gnt-node", "list", "--no-headers", "-o", "sync_position").split()
    assert len(positions) == 3 and len(set(positions)) == 1, positions
    told = fake_bed.run(*VERIFY)
    assert not [line for line in told.splitlines() if "ERROR" in line or "WARNING" in line]
    assert fake_bed.run("gnt-cluster", "info").endswith(
        "Copies of the configuration: \n  node1: master\n  node2: in-sync\n  node3: in-sync\n"
    )


def test_a_node_whose_daemon_is_down_is_named_and_comes_back_by_itself(fake_bed: FakeBed) -> None:
    settle(fake_bed)
    leave_out(fake_bed, "node3")
    try:
        assert states(fake_bed) == {**ALL, "node3": "away"}
        told = fake_bed.run(*VERIFY, expect=1)
        assert "  - WARNING:ENODERPC:node:node3:its copy of the configuration and the queue has been left out" in told
        assert "ECLUSTERFILECHECK" not in told, "nothing is expected of the files of a node that is left out"
    finally:
        bring_back(fake_bed, "node3")
    settle(fake_bed)
    fake_bed.run(*VERIFY)


def test_a_copy_of_another_cluster_is_refused_and_named(fake_bed: FakeBed) -> None:
    settle(fake_bed)
    leave_out(fake_bed, "node3")

    def own(uuid: str) -> str:
        """Make it the copy of another cluster; gives whose it was."""
        return fake_bed.run(sys.executable, "-c", CHANGE_OWNER, uuid, node="node3").strip()

    own_uuid = own(OTHER_CLUSTER)
    bring_back(fake_bed, "node3")
    fake_bed.wait(lambda: states(fake_bed)["node3"].startswith("behind: "), "node3 refuses")
    assert "another cluster" in states(fake_bed)["node3"]
    told = fake_bed.run(*VERIFY, expect=1)
    assert "  - ERROR:ENODESETUP:node:node3:its copy of the configuration and the queue has been behind" in told
    fake_bed.run("daemon-util", "stop", "ganeti-noded", node="node3")
    assert own(own_uuid) == OTHER_CLUSTER, "what belongs to others is left as it is"
    bring_back(fake_bed, "node3")
    settle(fake_bed)


def test_a_damaged_copy_is_kept_and_made_anew(fake_bed: FakeBed) -> None:
    settle(fake_bed)
    leave_out(fake_bed, "node3")
    fake_bed.run(sys.executable, "-c", ROT, node="node3")
    bring_back(fake_bed, "node3")
    settle(fake_bed)
    fake_bed.run("test", "-f", "/var/lib/ganeti/config.sqlite.damaged", node="node3")
    fake_bed.run(*VERIFY)


def test_a_file_that_somebody_edited_is_named(fake_bed: FakeBed) -> None:
    settle(fake_bed)
    path = "/var/lib/ganeti/config.data"
    fake_bed.run("cp", path, "/root/sound", node="node2")
    try:
        fake_bed.run("sed", "-i", 's/"max_running_jobs":20/"max_running_jobs":77/', path, node="node2")
        told = fake_bed.run(*VERIFY, expect=1)
        assert f"  - ERROR:ECLUSTERFILECHECK:cluster:None:File {path} of node node2 (serial number" in told
        fake_bed.run("sh", "-c", f"echo nonsense > {path}", node="node2")
        assert "config.data of node node2 is no configuration" in fake_bed.run(*VERIFY, expect=1)
    finally:
        fake_bed.run("sh", "-c", f"cat /root/sound > {path}", node="node2")
    fake_bed.run(*VERIFY)
