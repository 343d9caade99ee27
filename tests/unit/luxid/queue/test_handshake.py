# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's end of a job's socket: a greeting and a confirmation, or a process that is lost."""

import asyncio
import json
import socket
from collections.abc import Callable

import pytest

from ganeti.luxid.queue.handshake import Handshake
from ganeti.wire.framing_sync import END

GREETING = json.dumps({"lock_file": "/run/job_1_1", "pid": 7}).encode() + END


def meet(work: Callable[[socket.socket], None]) -> tuple[list[str], socket.socket, Handshake]:
    """Let *work* act at the job's end; gives what was told."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    told: list[str] = []

    async def go() -> Handshake:
        done = asyncio.Event()

        def tell(what: str) -> None:
            told.append(what)
            done.set()

        handshake = Handshake(ours, lambda greeting: tell(f"{greeting.lock_file} {greeting.pid}"), lambda: tell("lost"))
        work(theirs)
        async with asyncio.timeout(5):
            await done.wait()
        if told == ["lost"]:
            handshake.close()
        else:
            handshake.confirm(b"go" + END)
            handshake.close()
        return handshake

    return told, theirs, asyncio.run(go())


def test_a_greeting_and_its_confirmation():
    told, theirs, _ = meet(lambda job: job.sendall(GREETING))
    assert told == ["/run/job_1_1 7"]
    assert theirs.recv(100) == b"go" + END and theirs.recv(100) == b""


def test_a_greeting_in_pieces():
    def bit_by_bit(job: socket.socket) -> None:
        for place in range(0, len(GREETING), 5):
            job.sendall(GREETING[place : place + 5])

    assert meet(bit_by_bit)[0] == ["/run/job_1_1 7"]


@pytest.mark.parametrize("sent", [b"", b"{", b"nonsense" + END, b'{"pid": 1}' + END])
def test_whoever_says_no_greeting_is_lost(sent):
    def leave(job: socket.socket) -> None:
        job.sendall(sent)
        job.close()

    assert meet(leave)[0] == ["lost"]
