# SPDX-License-Identifier: BSD-2-Clause
"""Connections of another node to the copy on this one, which wait for an answer.

The storage daemon has agreed on TLS with that node and read the first line; it serves the copy where it is told to.
"""

from collections.abc import Collection

import msgspec

from ganeti.mirrord.commands import Commands
from ganeti.node.storage.mirror.requests import Done, Refusal


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
