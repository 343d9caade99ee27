# SPDX-License-Identifier: BSD-2-Clause
"""Connecting to daemons: whatever is missing for it is an error that callers know and wait out."""

import asyncio
import errno
import os
import socket

import pytest

from ganeti.base.errors import TransportError
from ganeti.system.unix_socket import connect


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
