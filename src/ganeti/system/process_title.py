# SPDX-License-Identifier: BSD-2-Clause
"""What `ps` and `top` show of a job's process: ``ganeti job 17: INSTANCE_CREATE``, and not the spawner's arguments.

The kernel reads a process's command line from that process's memory, between two addresses it tells in
`/proc/self/stat`. A forked process writes its own words there; they have as much room as the spawner's arguments had,
so the spawner is called with some to spare.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

ROOM = "makes the processes of jobs, which show their own names in place of these words"
"""An argument for the spawner that means nothing to it."""
_ARGUMENTS_BEGIN = 48 - 3
"""Place of the field after the process's name in `/proc/self/stat`, which is the third (proc(5))."""
_NAME_BYTES = 15
_is_kept = False


def show_job(job_id: int, opcode: str = "", place: str = "") -> None:
    """Show which job this process is, and with which opcode it is busy; where the kernel does not let it, it goes on.

    *place* is such as ``2 of 3``.
    """
    words = f"ganeti job {job_id}" + (f": {opcode}" if opcode else "") + (f" ({place})" if place else "")
    if _is_kept:
        return
    with suppress(OSError, ValueError, IndexError):
        _write_name(f"ganeti-job-{job_id}")
        _write_arguments(words.encode())


def show_spare() -> None:
    """Show that this process waits for a job."""
    with suppress(OSError, ValueError, IndexError):
        _write_name("ganeti-spare")
        _write_arguments(b"ganeti spare: becomes the process of the next job")


@contextmanager
def kept() -> Iterator[None]:
    """Show no job meanwhile: one that is only rehearsed is none in a list of processes."""
    global _is_kept
    _is_kept = True
    try:
        yield
    finally:
        _is_kept = False


def _write_name(name: str) -> None:
    """The short name, as `top` and `pgrep` without ``-f`` have it."""
    descriptor = os.open("/proc/self/comm", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, name.encode()[:_NAME_BYTES])
    finally:
        os.close(descriptor)


def _write_arguments(words: bytes) -> None:
    begin, end = _place_of_arguments()
    if not 0 < begin < end:
        return
    room = end - begin
    descriptor = os.open("/proc/self/mem", os.O_WRONLY | os.O_CLOEXEC)
    try:
        # The last byte stays zero: without it, the kernel would go on to read the environment.
        os.pwrite(descriptor, words[: room - 1].ljust(room, b"\0"), begin)
    finally:
        os.close(descriptor)


@cache
def _place_of_arguments() -> tuple[int, int]:
    """The same in this process and its children."""
    with open("/proc/self/stat", "rb") as source:
        fields = source.read().rpartition(b")")[2].split()
    return int(fields[_ARGUMENTS_BEGIN]), int(fields[_ARGUMENTS_BEGIN + 1])
