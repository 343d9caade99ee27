# SPDX-License-Identifier: BSD-2-Clause
"""What says that a daemon runs: its pid file, and for those of the master a lock that no file's removal takes away."""

import os
from contextlib import suppress

from ganeti.base.errors import EXIT_FAILURE, GanetiError
from ganeti.system.accounts import RUN_DIR_MODE, make_shared_directory
from ganeti.system.files import open_among_others
from ganeti.system.livelock import lock_past_probes

_LOOKS_PASS_S = 0.2
_LOOK_S = 0.002


class DaemonRefused(GanetiError):
    """The daemon will not start; *status* is its exit status."""

    def __init__(self, message: str, status: int = EXIT_FAILURE) -> None:
        super().__init__(message)
        self.status = status


class PidFile:
    """Holds the daemon's process id, and a lock on itself for as long as the daemon lives.

    Forked children let go of the lock, so that it says nothing but whether the daemon lives.
    """

    def __init__(self, path: str) -> None:
        """Raises `DaemonRefused` where the daemon runs, `OSError` where the file cannot be written."""
        self._path = path
        self._descriptor = self._open_and_lock()
        os.register_at_fork(after_in_child=self._close)
        self._write()

    def keep(self) -> bool:
        """Make the file again if it was removed; gives whether it was. Raises as making it does."""
        try:
            os.stat(self._path)
            return False
        except FileNotFoundError:
            make_shared_directory(os.path.dirname(self._path), RUN_DIR_MODE)
        before, self._descriptor = self._descriptor, self._open_and_lock()
        os.close(before)
        self._write()
        return True

    def remove(self) -> None:
        """Remove the file while it is still locked, then let go."""
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        self._close()

    def _write(self) -> None:
        try:
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())
        except OSError as err:
            raise OSError(err.errno, err.strerror, self._path) from err

    def _open_and_lock(self) -> int:
        while True:
            descriptor = open_among_others(self._path, os.O_RDWR, 0o644)
            try:
                _lock(descriptor)
            except BlockingIOError as err:
                holder = os.read(descriptor, 32).decode(errors="replace").strip()
                os.close(descriptor)
                raise DaemonRefused(f"it runs already, with process id {holder or 'unknown'}") from err
            try:
                if os.path.samestat(os.fstat(descriptor), os.stat(self._path)):
                    return descriptor
            except FileNotFoundError:
                pass
            os.close(descriptor)  # removed by its last holder while we were opening it

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class DirectoryHold:
    """The lock on a directory that one daemon of a kind at a time works on, for as long as this process lives."""

    def __init__(self, name: str, directory: str) -> None:
        """Raises `DaemonRefused` where another process has it, `OSError` where the directory cannot be opened."""
        self._descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _lock(self._descriptor)
        except BlockingIOError as err:
            pid = _holder(self._descriptor)
            os.close(self._descriptor)
            who = f"process {pid}" if pid else "a process that /proc/locks does not name"
            raise DaemonRefused(
                f"another {name}, {who}, works on {directory}, and its pid file was removed: "
                f"end it{f' (kill {pid})' if pid else ''}, or wait until it has put the file back"
            ) from err
        os.register_at_fork(after_in_child=self._close)

    def _close(self) -> None:
        os.close(self._descriptor)


def _holder(descriptor: int) -> int | None:
    """The process that has locked the file; None if the kernel does not say."""
    with suppress(OSError, ValueError), open("/proc/locks", encoding="ascii", errors="replace") as file:
        found = os.fstat(descriptor)
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        for line in file:
            words = line.split()
            if place in words and "FLOCK" in words:
                return int(words[words.index(place) - 1]) or None
    return None


def _lock(descriptor: int) -> None:
    """Raises `BlockingIOError` if a daemon has it, not only a process that looks whether one runs."""
    lock_past_probes(descriptor, pass_s=_LOOKS_PASS_S, every_s=_LOOK_S)
