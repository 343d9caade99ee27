# SPDX-License-Identifier: BSD-2-Clause
"""Connecting to daemons: whatever is missing for it is an error that callers know and wait out."""

import asyncio
import errno
import os
import shutil
import socket

import pytest

from ganeti.base.errors import TransportError
from ganeti.system import unix_socket
from ganeti.system.unix_socket import connect, serve


def test_a_daemon_without_descriptors_can_try_again(monkeypatch):
    """Else it would end the task that asks for the locks of all jobs."""

    def none_left(*family):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def scenario():
        monkeypatch.setattr(socket, "socket", none_left)
        with pytest.raises(TransportError, match="Too many open files"):
            await connect("/nowhere")

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(scenario())
    finally:
        monkeypatch.undo()
        loop.close()


def test_a_socket_that_was_removed_is_there_again(tmp_path, monkeypatch):
    """A client that is served goes on, one that came by the former socket is served, and new ones are."""
    monkeypatch.setattr(unix_socket, "_LOOK_S", 0.01)
    path = f"{tmp_path}/sockets/daemon"
    os.mkdir(os.path.dirname(path))

    async def echo(connection):
        while (message := await connection.receive()) is not None:
            await connection.send(message)

    async def asks(connection):
        await connection.send({"ask": 1})
        return await connection.receive()

    async def until_there():
        while True:
            if os.path.exists(path):
                return
            await asyncio.sleep(0.01)

    async def scenario():
        server = await serve(path, echo)
        before = await connect(path)
        for remove in (os.unlink, lambda path: shutil.rmtree(os.path.dirname(path))):
            remove(path)
            await asyncio.wait_for(until_there(), 30.0)
            for client in (before, await connect(path), await connect(path)):
                assert await asks(client) == {"ask": 1}
        assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o750
        assert os.stat(path).st_mode & 0o777 == 0o660
        await server.close()
        assert not os.path.exists(path)

    asyncio.run(scenario())
