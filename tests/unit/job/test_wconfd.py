# SPDX-License-Identifier: BSD-2-Clause
"""Calls of WConfD from a job: at once where it answers, patiently where it does not."""

import asyncio
import socket
from pathlib import Path

import pytest
from tests.fakes.wconfd import fast_directory, running_wconfd

from ganeti.base.errors import LockError
from ganeti.job import wconfd as job_wconfd
from ganeti.job.wconfd import JobWConfdClient
from ganeti.model.locks import node_lock
from ganeti.system.unix_socket import serve
from ganeti.wire.framing import Connection

NODE = [(node_lock("node1"), "exclusive")]


def test_locks_are_claimed_freed_and_refused_as_by_the_patient_client(monkeypatch):
    async def go(root: Path) -> None:
        async with running_wconfd(root) as daemon:
            one, two = daemon.job(1), daemon.job(2)
            client = JobWConfdClient(daemon.paths.wconfd_socket)
            call = client._ask_now
            # The daemon lives in this process, so that it cannot answer who blocks the loop.
            in_thread = asyncio.get_running_loop().run_in_executor

            async def work(method: str, *arguments: object, **how: object) -> object:
                return await in_thread(None, call, method, *arguments)

            monkeypatch.setattr(client, "call", work)
            assert await client.claim_locks(None, one.for_locks, 0, NODE) == []
            assert await client.claim_locks(None, two.for_locks, 0, NODE) == [one.for_locks]
            await client.free_locks(one.for_locks)
            assert await client.claim_locks(None, two.for_locks, 0, NODE) == []
            with pytest.raises(LockError):
                await client.claim_locks(None, two.for_locks, 0, [("nonsense", "shared")])
            await client.close()

    with fast_directory() as root:
        asyncio.run(go(root))


def test_a_call_that_gets_no_answer_at_once_is_repeated_the_patient_way(tmp_path, monkeypatch):
    monkeypatch.setattr(job_wconfd, "_AT_ONCE_S", 0.05)
    path = str(tmp_path / "socket")
    asked: list[str] = []

    async def answer(connection: Connection) -> None:
        while (message := await connection.receive_bytes()) is not None:
            asked.append(message.decode())
            await connection.send({"success": True, "result": []})

    async def go() -> None:
        silent = socket.socket(socket.AF_UNIX)
        silent.bind(path)
        silent.listen()
        client = JobWConfdClient(path)
        waiting = asyncio.ensure_future(client.call("freeLocks", [1, "/lock", 0]))
        await asyncio.sleep(0)  # has found nobody who answers
        server = await serve(path, answer)
        silent.close()
        assert await waiting == []
        assert len(asked) == 1
        await client.close()
        await server.close()

    asyncio.run(go())
