# SPDX-License-Identifier: BSD-2-Clause
"""Unix sockets whose paths may be longer than the 107 bytes the kernel takes: reached through a directory descriptor.

Listening sockets are made here and handed to QEMU open, so that a client can connect from the first moment on and long
paths work in every place.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator

from ganeti.base.errors import HypervisorError

LONGEST_PATH_BYTES = 107
_BACKLOG = 16


@contextlib.contextmanager
def short_path(path: str) -> Iterator[str]:
    """Give a path of the same socket that is short enough, valid while the context lasts."""
    if len(os.fsencode(path)) <= LONGEST_PATH_BYTES:
        yield path
        return
    directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        short = f"/proc/self/fd/{directory}/{os.path.basename(path)}"
        if len(os.fsencode(short)) > LONGEST_PATH_BYTES:
            raise HypervisorError(f"The name of the socket {path} is too long: give the instance a shorter name")
        yield short
    finally:
        os.close(directory)


def listen(path: str, mode: int = 0o600) -> socket.socket:
    """Make a listening Unix socket in the place of whatever lies at *path*; raises `HypervisorError`."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(path) as short:
            made.bind(short)
        os.chmod(path, mode)
        made.listen(_BACKLOG)
    except OSError as err:
        made.close()
        raise HypervisorError(f"Cannot listen on {path}: {err}") from err
    except HypervisorError:
        made.close()
        raise
    return made


async def connect(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a Unix socket; raises `OSError`."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        with short_path(path) as short:
            made.connect(short)
        return await asyncio.open_unix_connection(sock=made, limit=16 * 1024 * 1024)
    except BaseException:
        made.close()
        raise
