# SPDX-License-Identifier: BSD-2-Clause
"""A job's calls of LuxiD, which is restarted while they are under way."""

import asyncio

import pytest

from ganeti.base.errors import TransportError
from ganeti.base.paths import Paths
from ganeti.calls import luxi_client
from ganeti.calls.luxi_client import LuxiClient
from ganeti.model.capacity import Capacity
from ganeti.ports.luxid import KnownCapacity
from ganeti.system.unix_socket import serve
from ganeti.wire.framing import Connection
from ganeti.wire.luxi import VERSION


async def ask(paths: Paths, **how: bool) -> tuple[object, list[str]]:
    """Call a server that drops its first client after it has read the request; gives what came, and what was asked."""
    asked: list[str] = []

    async def answer(connection: Connection) -> None:
        asked.append((await connection.receive())["method"])
        if len(asked) > 1:
            await connection.send({"success": True, "result": "yes"})

    server = await serve(paths.luxi_socket, answer)
    try:
        return await LuxiClient(paths).call("Ask", patience_s=5.0, **how), asked
    except TransportError as err:
        return err, asked
    finally:
        await server.close()


@pytest.fixture
def paths(tmp_path, monkeypatch):
    monkeypatch.setattr(luxi_client, "_RETRY_S", 0.01)
    paths = Paths(str(tmp_path))
    (tmp_path / paths.luxi_socket.removeprefix(f"{tmp_path}/")).parent.mkdir(parents=True)
    return paths


def test_a_question_is_asked_again(paths):
    assert asyncio.run(ask(paths, only_asks=True)) == ("yes", ["Ask", "Ask"])


def test_a_question_of_a_job_has_a_typed_answer(paths):
    asked = []

    async def go():
        async def answer(connection: Connection) -> None:
            asked.append(await connection.receive())
            if len(asked) > 1:
                await connection.send({"success": True, "result": {"x": [{"tspecs": []}, 0.5, ""]}})

        server = await serve(paths.luxi_socket, answer)
        try:
            return await LuxiClient(paths).ask(KnownCapacity((1, "lock", 7), {"x": {}}, True))
        finally:
            await server.close()

    assert asyncio.run(go()) == {"x": Capacity({"tspecs": []}, 0.5)}
    wire = {"method": "KnownCapacity", "args": [[1, "lock", 7], {"x": {}}, True], "version": VERSION}
    assert asked == [wire] * 2, "LuxiD was restarted meanwhile"


def test_what_may_have_been_carried_out_is_not_sent_again(paths):
    outcome, asked = asyncio.run(ask(paths))
    assert isinstance(outcome, TransportError) and asked == ["Ask"]


def test_it_is_waited_for(paths):
    async def go():
        client = asyncio.ensure_future(LuxiClient(paths).call("Ask", patience_s=5.0))
        await asyncio.sleep(0.03)

        async def answer(connection: Connection) -> None:
            await connection.receive()
            await connection.send({"success": True, "result": "yes"})

        server = await serve(paths.luxi_socket, answer)
        try:
            return await client
        finally:
            await server.close()

    assert asyncio.run(go()) == "yes"
