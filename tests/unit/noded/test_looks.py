# SPDX-License-Identifier: BSD-2-Clause
"""A MonD with a user of its own gets from the node daemon what it may not look at, and nothing else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.errors import GanetiError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.mond import asked_looks
from ganeti.mond.asked_looks import AskedLooks, asked_key
from ganeti.node.collectors import diagnose
from ganeti.node.collectors.looks import socket_path
from ganeti.node.collectors.report import UnreadableError
from ganeti.node.hypervisors.interface import Sighting
from ganeti.noded.looks import Answers, LooksServer
from ganeti.system.unix_socket import serve

GUEST = Sighting(name="web1", started_s=7.5, cpu_time_s=1.0, resident_bytes=4096, pid=12)


class Looks:
    async def seen(self, hypervisor: str) -> Sequence[Sighting]:
        return [GUEST] if hypervisor == "kvm" else []

    async def states(self, hypervisor: str) -> Mapping[str, str]:
        return {"web1": "paused"}

    async def volumes(self) -> str:
        raise UnreadableError("lvs cannot be started: No such file or directory")

    async def storage(self) -> list[dict[str, Any]]:
        return [{"path": "/srv", "size": 3, "used": 1, "free": 2}]

    async def diagnosed(self, command: str) -> dict[str, Any]:
        return {"status": "evacuate", "details": command}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(str(tmp_path))
    os.makedirs(found.run_dir)
    os.makedirs(found.data_dir)
    Path(found.hmac_key).write_text("0123\n")
    return found


def test_what_is_asked_for_comes_as_it_was_seen(paths: Paths) -> None:
    async def scenario() -> None:
        server = await serve(socket_path(paths), LooksServer(Answers(Looks(), paths)).serve, mode=0o660)
        asked = AskedLooks(paths)
        assert await asked.seen("kvm") == [GUEST] and await asked.seen("fake") == []
        assert await asked.states("kvm") == {"web1": "paused"}
        assert await asked.storage() == [{"path": "/srv", "size": 3, "used": 1, "free": 2}]
        assert await asked.diagnosed("check") == {"status": "evacuate", "details": "check"}
        assert await asyncio.to_thread(asked_key, paths) == b"0123\n"
        with pytest.raises(GanetiError, match="lvs cannot be started"):
            await asked.volumes()
        with pytest.raises(GanetiError, match="There is no call 'instance_start'"):
            await asked._ask(5.0, "instance_start", "web1")
        with pytest.raises(GanetiError, match="A text is expected"):
            await asked._ask(5.0, "seen", 7)
        await server.close()

    asyncio.run(scenario())


def test_without_the_node_daemon_no_node_is_taken_out(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_looks, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(asked_looks, "_SLACK_S", -diagnose.TIMEOUT_S + 0.1)
    found = asyncio.run(AskedLooks(paths).diagnosed("check"))
    assert found["status"] == "Ok" and "does not run the command" in found["details"]
    with pytest.raises(PrerequisiteError, match="does not give the cluster's key"):
        asked_key(paths)
