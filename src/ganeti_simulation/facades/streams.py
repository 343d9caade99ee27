# SPDX-License-Identifier: BSD-2-Clause
"""`open` of a simulated process: the standard library's buffers and text layers over simulated descriptors."""

import io
import os as real
from typing import Any

from ganeti_simulation.facades import files
from ganeti_simulation.system.kernel import Running

_FLAGS = {
    "r": real.O_RDONLY,
    "w": real.O_WRONLY | real.O_CREAT | real.O_TRUNC,
    "a": real.O_WRONLY | real.O_CREAT | real.O_APPEND,
    "x": real.O_WRONLY | real.O_CREAT | real.O_EXCL,
}


class Raw(io.RawIOBase):
    """Bytes of one descriptor."""

    def __init__(self, number: int, mode: str, *, closes: bool, name: Any) -> None:
        super().__init__()
        self._process = Running.process()
        self._number = number
        self._mode = mode
        self._closes = closes
        self.name = name

    def readable(self) -> bool:
        return "r" in self._mode or "+" in self._mode

    def writable(self) -> bool:
        return "r" not in self._mode or "+" in self._mode

    def seekable(self) -> bool:
        from ganeti_simulation.system.descriptors import FileDescription

        return isinstance(self._process.descriptors.get(self._number), FileDescription)

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return False

    def readinto(self, buffer: Any) -> int:
        data = files.read(self._number, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        parts = []
        while data := files.read(self._number, 1 << 20):
            parts.append(data)
        return b"".join(parts)

    def write(self, data: Any) -> int:
        return files.write(self._number, data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return files.lseek(self._number, offset, whence)

    def tell(self) -> int:
        return files.lseek(self._number, 0, 1)

    def truncate(self, size: int | None = None) -> int:
        size = self.tell() if size is None else size
        files.ftruncate(self._number, size)
        return size

    def close(self) -> None:
        if not self.closed:
            super().close()
            process = self._process
            if self._closes and process.alive and self._number in process.descriptors:
                Running.kernel.close(process, self._number)


def open_(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    """As the builtin."""
    kind = next(letter for letter in mode if letter in _FLAGS)
    if isinstance(file, int):
        number = file
    else:
        flags = _FLAGS[kind] | real.O_CLOEXEC
        if "+" in mode:
            flags = flags & ~(real.O_RDONLY | real.O_WRONLY) | real.O_RDWR
        number = opener(file, flags) if opener is not None else files.open_(file, flags, 0o666)
    raw = Raw(number, kind + ("+" if "+" in mode else ""), closes=closefd, name=file)
    if buffering == 0:
        return raw
    buffer: Any
    if "+" in mode and raw.seekable():
        buffer = io.BufferedRandom(raw)
    elif kind == "r":
        buffer = io.BufferedReader(raw)
    else:
        buffer = io.BufferedWriter(raw)
    if "b" in mode:
        return buffer
    return io.TextIOWrapper(buffer, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)
