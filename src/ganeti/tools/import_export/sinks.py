# SPDX-License-Identifier: BSD-2-Clause
"""Where the data of a transfer go on the receiver's node: into a program, or into a new file (`DumpFile`)."""

import os
from typing import IO, Protocol


class Sink(Protocol):
    """Where data go: `finish` when all have come, `close` in any case."""

    def write(self, data: bytes) -> None: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...


class Pipe:
    """The standard input of a program."""

    def __init__(self, into: IO[bytes]) -> None:
        self._into = into

    def write(self, data: bytes) -> None:
        content = memoryview(data)
        while content:
            content = content[os.write(self._into.fileno(), content) :]

    def finish(self) -> None: ...

    def close(self) -> None:
        self._into.close()
