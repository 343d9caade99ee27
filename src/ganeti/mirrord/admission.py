# SPDX-License-Identifier: BSD-2-Clause
"""Connections of another node to the copy on this one: who asks, and what it is answered.

The storage daemon has agreed on TLS with that node and read the first line; it serves the copy where it is told to.
"""

from collections.abc import Collection

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, BlockDeviceError
from ganeti.mirrord.commands import Commands
from ganeti.node.storage.mirror.requests import Connect, Done, Opened, Refusal


class Question:
    """One connection that waits for its answer."""

    def __init__(self, commands: Commands, number: str, names: Collection[str], line: str) -> None:
        """*names* are those of the other node's certificate; *number* is the storage daemon's own for the connection.

        A later storage daemon has the same numbers for others, so the answer goes the way that the question came.
        """
        self._commands, self._number = commands, number
        self.names, self.line = names, line

    async def serve(self) -> None:
        """Raises `StorageDaemonError`, also where the other node has given up."""
        await self._answer("serve", Done())

    async def refuse(self, sentence: str) -> None:
        """Raises `StorageDaemonError`."""
        await self._answer("close", Refusal(error=sentence))

    async def _answer(self, how: str, line: Done | Refusal) -> None:
        await self._commands.execute("answer", self._number, how, msgspec.json.encode(line).decode())


def wanted_of(question: Question, disk: Opened) -> Connect:
    """Raises `BlockDeviceError` for what is no request to write to this disk, or comes from elsewhere."""
    try:
        wanted = msgspec.json.decode(question.line, type=Connect)
    except UNREADABLE_JSON as err:
        raise BlockDeviceError(f"What another node asks of disk {disk.image} cannot be understood: {err}") from err
    if wanted.uuid != disk.uuid:
        raise BlockDeviceError(f"Disk {wanted.uuid} is served elsewhere: this is {disk.uuid}")
    require_peer(disk, question.names)
    return wanted


def require_peer(disk: Opened, names: Collection[str]) -> None:
    """Raises `BlockDeviceError` where the disk has no copy on a node of one of these names."""
    if disk.peer not in names:
        raise BlockDeviceError(f"Disk {disk.uuid} has no copy on {', '.join(sorted(names)) or 'that machine'}")
