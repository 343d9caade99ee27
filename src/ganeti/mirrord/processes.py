# SPDX-License-Identifier: BSD-2-Clause
"""Processes that outlive ganeti-mirrord, found by the files that name them: beginning one, waiting for its end."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Sequence

from ganeti.base.errors import BlockDeviceError
from ganeti.node.storage.mirror.places import Places
from ganeti.system.boot import process_start
from ganeti.system.files import plain_file, write_atomically

STOP_S = 10.0
_POLL_S = 0.02
_REAPED_S = 1.0
_LOG = "mirrord-disks.log"
_log = logging.getLogger(__name__)


async def spawn(places: Places, words: Sequence[str], pid_file: str, remedy: str) -> asyncio.subprocess.Process:
    """Start the program *words*, which *pid_file* names from then on; it runs in the directory of *places*.

    Raises `BlockDeviceError` where it cannot be started, with *remedy*.
    """
    with open(log_file(places), "ab", opener=_private) as said:
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=places.directory,
                start_new_session=True,
            )
        except OSError as err:
            raise BlockDeviceError(f"{words[0]} cannot be started: {err.strerror}; {remedy}") from err
    text = f"{process.pid} {process_start(process.pid)}\n"
    write_atomically(pid_file, text.encode(), mode=0o600, durable=False)
    return process


def log_file(places: Places) -> str:
    """What these processes say."""
    return f"{places.paths.log_dir}/{_LOG}"


def living(pid_file: str) -> int | None:
    """The process that *pid_file* names, unless it has ended."""
    try:
        with open(pid_file, encoding="utf-8", opener=plain_file) as file:
            number, start = file.read().split()
    except (FileNotFoundError, ValueError):
        return None
    return int(number) if process_start(int(number)) == start and not _is_zombie(number) else None


def _is_zombie(number: str) -> bool:
    """Whether nothing of it runs: of one that was killed, another thread may still write when the first has ended."""
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return True
    return fields[0] == "Z" and int(fields[17]) <= 1


async def end(process_id: int, gone: Callable[[], bool]) -> None:
    """First by a friendly signal; raises `BlockDeviceError`. *gone* says whether it has ended."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, sign)
        for _ in range(round(STOP_S / _POLL_S)):
            if gone():
                return
            await asyncio.sleep(_POLL_S)
    raise BlockDeviceError(f"The storage daemon {process_id} does not end")


async def end_of(pid_file: str, own: Callable[[], asyncio.subprocess.Process | None]) -> str:
    """Wait until the process that *pid_file* names has ended, at once where there is none; says how it ended.

    *own* gives the process where this one has started it: only a parent learns the status.
    """
    while (process_id := living(pid_file)) is not None:
        try:
            descriptor = os.pidfd_open(process_id)
        except OSError as err:  # it has ended just now, or there is no descriptor left
            _log.debug("process %d cannot be waited for: %s", process_id, err)
        else:
            await _seen(descriptor, pid_file, process_id)
        await asyncio.sleep(_POLL_S)
    process, status = own(), None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_REAPED_S):
            status = await process.wait() if process is not None else None
    if status is None:
        return "has ended"
    return f"was ended by signal {-status}" if status < 0 else f"has ended with status {status}"


async def _seen(descriptor: int, pid_file: str, process_id: int) -> None:
    """Wait for the end of the process of *descriptor*, which is closed then; not where its id is another's by now."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(descriptor, event.set)
    try:
        if living(pid_file) == process_id:
            await event.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o640)
