# SPDX-License-Identifier: BSD-2-Clause
"""Programs that collectors run: with an end, a limit on what they print, and nothing left when their daemon goes."""

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Sequence

from ganeti.node.collectors.report import UnreadableError

STANDARD_PATH = "/sbin:/bin:/usr/sbin:/usr/bin"
_DIES_WITH_US = 1
_DRAIN_S = 2.0
_libc = ctypes.CDLL(None)


async def output_of(argv: Sequence[str], *, timeout_s: float, limit_bytes: int) -> bytes:
    """What a program prints. Raises `UnreadableError` if it cannot start, fails, takes too long or prints too much."""
    name = os.path.basename(argv[0])
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: _libc.prctl(_DIES_WITH_US, signal.SIGKILL),
            env={"PATH": STANDARD_PATH, "LC_ALL": "C"},
            cwd="/",
        )
    except OSError as err:
        raise UnreadableError(f"{name} cannot be started: {err.strerror}") from err
    try:
        async with asyncio.timeout(timeout_s):
            assert process.stdout is not None
            output = await _read(process.stdout, limit_bytes)
            if output is None:
                raise UnreadableError(f"{name} printed more than {limit_bytes} bytes and was stopped")
            status = await process.wait()
    except TimeoutError as err:
        raise UnreadableError(f"{name} did not end within {timeout_s:g} seconds and was stopped") from err
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await _end(process)
    if status:
        raise UnreadableError(f"{name} ended with status {status}")
    return output


async def _end(process: asyncio.subprocess.Process) -> None:
    """Take in what is left in the pipe: asyncio tells of no end before, while it has stopped reading."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            while process.stdout is not None and await process.stdout.read(64 * 1024):
                pass
            await process.wait()


async def _read(stream: asyncio.StreamReader, limit_bytes: int) -> bytes | None:
    found = bytearray()
    while chunk := await stream.read(64 * 1024):
        found += chunk
        if len(found) > limit_bytes:
            return None
    return bytes(found)
