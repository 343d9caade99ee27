# SPDX-License-Identifier: BSD-2-Clause
"""Reads all of an input that may have no end, such as a device or a pipe, in bounded memory, and time if asked."""

import select
import time
from typing import IO

from ganeti.base.errors import ParameterError

LARGEST_MIB = 512
"""No cluster's data comes near it."""
_PART_BYTES = 1 << 20


class EndlessError(ParameterError):
    """More came than anything of the kind can hold."""


class UnfinishedError(ParameterError):
    """The end did not come in time."""


def read_file(path: str, largest_mib: int = LARGEST_MIB, patience_s: float | None = None) -> bytes:
    """The content of a file; raises `OSError`, `EndlessError` and `UnfinishedError`."""
    with open(path, "rb", buffering=0) as file:
        return read_stream(file, path, largest_mib, patience_s)


def read_stream(stream: IO[bytes], name: str, largest_mib: int = LARGEST_MIB, patience_s: float | None = None) -> bytes:
    """What is left in an open file, a pipe or a terminal; errors speak of it as *name*.

    Only of one without a buffer can it be said how long to wait.
    """
    parts, left_bytes = [b""], largest_mib << 20
    deadline = None if patience_s is None else time.monotonic() + patience_s
    while True:
        if deadline is not None and not _comes_before(deadline, stream):
            raise UnfinishedError(f"{name}: its end did not come within {patience_s:g} s: name a file that has one")
        parts.append(stream.read(_PART_BYTES))
        left_bytes -= len(parts[-1])
        if not parts[-1]:
            return b"".join(parts)
        if left_bytes < 0:
            raise EndlessError(f"{name}: it has no end within {largest_mib} MiB: name a file that has one")


def _comes_before(deadline: float, stream: IO[bytes]) -> bool:
    """Whether there is something to read, or the end, in time."""
    waiting = select.poll()
    waiting.register(stream, select.POLLIN)
    return bool(waiting.poll(max(0.0, deadline - time.monotonic()) * 1000))
