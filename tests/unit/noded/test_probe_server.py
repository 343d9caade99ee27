# SPDX-License-Identifier: BSD-2-Clause
"""A MonD with a user of its own gets from the node daemon what it may not look at, and nothing else."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.errors import GanetiError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.daemons.node_daemon import ClusterKey
from ganeti.mond import noded_probes
from ganeti.mond.noded_probes import NodedProbes, asked_key
from ganeti.node.collectors import diagnose, storage
from ganeti.node.collectors.local_probes import LocalProbes
from ganeti.node.collectors.probes import Diagnosed, socket_path
from ganeti.node.collectors.report import UnreadableError
from ganeti.node.hypervisors.interface import Sighting
from ganeti.node.storage import image_io
from ganeti.noded.probe_server import Answers, ProbeServer
from ganeti.system.unix_socket import serve

GUEST = Sighting(name="web1", started_s=7.5, cpu_time_s=1.0, resident_bytes=4096, pid=12)


class Probes:
    async def seen(self, hypervisor: str) -> Sequence[Sighting]:
        return [GUEST] if hypervisor == "kvm" else []

    async def states(self, hypervisor: str) -> Mapping[str, str]:
        return {"web1": "paused"}

    async def volumes(self) -> str:
        raise UnreadableError("lvs cannot be started: No such file or directory")

    async def storage(self) -> list[dict[str, Any]]:
        return [{"path": "/srv", "size": 3, "used": 1, "free": 2}]

    async def diagnosed(self, command: str) -> Diagnosed:
        return Diagnosed({"status": "evacuate", "details": command})


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(str(tmp_path))
    os.makedirs(found.run_dir)
    os.makedirs(found.data_dir)
    Path(found.hmac_key).write_text("0123\n")
    return found


def test_what_is_asked_for_comes_as_it_was_seen(paths: Paths) -> None:
    async def scenario() -> None:
        server = await serve(socket_path(paths), ProbeServer(Answers(Probes(), paths)).serve, mode=0o660)
        asked = NodedProbes(paths)
        assert await asked.seen("kvm") == [GUEST] and await asked.seen("fake") == []
        assert await asked.states("kvm") == {"web1": "paused"}
        assert await asked.storage() == [{"path": "/srv", "size": 3, "used": 1, "free": 2}]
        assert await asked.diagnosed("check") == Diagnosed({"status": "evacuate", "details": "check"})
        assert await asyncio.to_thread(asked_key, paths) == b"0123\n"
        with pytest.raises(GanetiError, match="lvs cannot be started"):
            await asked.volumes()
        with pytest.raises(GanetiError, match="There is no call 'instance_start'"):
            await asked._ask(5.0, "instance_start", "web1")
        with pytest.raises(GanetiError, match="A text is expected"):
            await asked._ask(5.0, "seen", 7)
        await server.close()

    asyncio.run(scenario())


def test_a_file_system_that_hangs_is_left_out_and_costs_no_more_threads(paths: Paths, monkeypatch: Any) -> None:
    read: list[str] = []

    def noted(places: list[str]) -> list[dict[str, Any]]:
        read.extend(places)
        return [{"path": place} for place in places]

    nfs = paths.under("/nfs")
    probes = LocalProbes(paths, [], lambda key: ["/nfs"] if key == "shared_file_storage_dir" else [])
    monkeypatch.setattr(storage, "read", noted)
    monkeypatch.setitem(image_io._reads, nfs, [time.monotonic() - 100.0])  # an earlier look has not come back
    assert [each["path"] for each in asyncio.run(probes.storage())] == [paths.data_dir, paths.log_dir]
    assert nfs not in read
    image_io._reads[nfs].clear()
    assert [each["path"] for each in asyncio.run(probes.storage())][-1] == nfs


def test_who_may_read_the_key_reads_a_renewed_one_at_once(paths: Paths) -> None:
    key = ClusterKey(paths)
    assert key() == b"0123\n"
    Path(paths.hmac_key).write_text("4567\n")
    os.utime(paths.hmac_key, ns=(1, 1))
    assert key() == b"4567\n"


def test_a_renewed_key_is_asked_for_while_the_old_one_holds(paths: Paths) -> None:
    answered, asked = threading.Event(), threading.Event()
    keys = iter([b"old", None, b"new"])

    def ask(paths: Paths) -> bytes:
        found = next(keys)
        if found != b"old":
            asked.set()
            answered.wait(60)
        if found is None:
            raise PrerequisiteError("The node daemon does not give the cluster's key")
        return found

    key = ClusterKey(paths, ask)
    Path(paths.hmac_key).write_text("4567\n")
    os.utime(paths.hmac_key, ns=(1, 1))
    assert key() == b"old" and asked.wait(60)
    assert key() == b"old", "one thread asks, nobody waits"
    answered.set()
    end_s = time.monotonic() + 60
    while key() == b"old" and time.monotonic() < end_s:
        time.sleep(0.005)
    assert key() == b"new", "a failure is tried again"


def test_without_the_node_daemon_no_node_is_taken_out(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noded_probes, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(noded_probes, "_SLACK_S", -diagnose.TIMEOUT_S + 0.1)
    found = asyncio.run(NodedProbes(paths).diagnosed("check"))
    assert found.original["status"] == "Ok" and "does not run the command" in found.original["details"]
    assert found.fault
    with pytest.raises(PrerequisiteError, match="does not give the cluster's key"):
        asked_key(paths)
