# SPDX-License-Identifier: BSD-2-Clause
"""The QEMU process of a guest: found by its pid file, believed only if its command line names that very file.

A process id alone proves nothing after a crash; every signal goes through a descriptor opened before the check.
"""

import asyncio
import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.kvm.places import Places

PIDFILE_OPTION = "-pidfile"
_KILL_WAIT_S = 30.0
_LEAVING_S = 10.0
_STARTED = 19
"""Place of the time of start among the fields of /proc/PID/stat after the command."""


@dataclass(frozen=True)
class GuestProcess:
    """A living QEMU; *name* is its guest."""

    name: str
    pid: int
    pid_file: str

    def alive(self) -> bool:
        return is_guest(self.pid, self.pid_file)

    async def wait_end(self, timeout_s: float) -> bool:
        """Wait until the process has ended; gives whether it has."""
        with _opened(self.pid) as descriptor:
            if descriptor is None or not self.alive():
                return True
            return await _readable(descriptor, timeout_s)

    async def kill(self) -> None:
        """End the process at once; raises `HypervisorError` if the kernel cannot end it."""
        with _opened(self.pid) as descriptor:
            if descriptor is None or not self.alive():
                return
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            if not await _readable(descriptor, _KILL_WAIT_S):
                raise HypervisorError(
                    f"Process {self.pid} of instance {self.name} does not end even when killed: its storage may hang"
                )


def note(places: Places, guest: GuestProcess) -> None:
    """Write down the process just started: QEMU removes its pid file some moments before it has let everything go."""
    path = places.process(guest.name)
    try:
        with open(path, "w", encoding="ascii") as target:
            target.write(f"{guest.pid}\n")
    except OSError as err:
        raise HypervisorError(f"Cannot write {path}: {err.strerror}") from err


async def end_last(places: Places, name: str) -> None:
    """End the process started last, also one on its way out: until it has ended it holds its tap and its disks."""
    pid = _read_pid(places.process(name))
    if pid is None:
        return
    guest = GuestProcess(name, pid, places.pid(name))
    if guest.alive():
        await guest.kill()
        return
    with _opened(pid) as descriptor:
        if descriptor is not None and _is_leaving(pid):
            await _readable(descriptor, _LEAVING_S)


def find(places: Places, name: str) -> GuestProcess | None:
    """Give the running QEMU of a guest, or None."""
    pid_file = places.pid(name)
    pid = _read_pid(pid_file)
    return GuestProcess(name, pid, pid_file) if pid is not None and is_guest(pid, pid_file) else None


def find_all(places: Places) -> list[GuestProcess]:
    try:
        names = sorted(os.listdir(places.pid_dir))
    except FileNotFoundError:
        return []
    found = (find(places, name) for name in names)
    return [process for process in found if process is not None]


def is_guest(pid: int, pid_file: str) -> bool:
    """Whether *pid* lives and was started with this pid file."""
    words = _words(pid)
    option = PIDFILE_OPTION.encode()
    named = any(words[i] == option and _is_same(words[i + 1], pid_file) for i in range(len(words) - 1))
    return named and _state(pid) not in ("Z", "X", "")


def option(pid: int, name: str) -> str | None:
    """The value of an option that the process was started with."""
    words = [word.decode(errors="replace") for word in _words(pid)]
    return next((words[at + 1] for at, word in enumerate(words[:-1]) if word == name), None)


def _words(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as source:
            return source.read().split(b"\0")
    except OSError:
        return []


def _is_same(word: bytes, path: str) -> bool:
    """A guest that Ganeti 3.0 has started names the same file through ``/var/run``."""
    wanted = os.fsencode(path)
    return word == wanted or (
        os.path.basename(word) == os.path.basename(wanted) and os.path.realpath(word) == os.path.realpath(wanted)
    )


def cpu_time_s(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if len(fields) > 12 else 0.0


def started_s(pid: int) -> float:
    """When the process was started, in seconds since 1970; 0 for one that has ended."""
    fields = _stat(pid)
    if len(fields) <= _STARTED:
        return 0.0
    since_boot_s = int(fields[_STARTED]) / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot_s


def resident_mib(pid: int) -> int:
    return resident_bytes(pid) // (1024 * 1024)


def resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as source:
            return int(source.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def owner(pid: int) -> tuple[int, int]:
    """Effective user and group of a process."""
    status = os.stat(f"/proc/{pid}")
    return status.st_uid, status.st_gid


def _read_pid(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as source:
            pid = int(source.read(32).strip() or "0")
    except (OSError, ValueError):
        return None
    return pid if pid > 0 else None


def _is_leaving(pid: int) -> bool:
    """A process that has given up its memory but not yet its files has no command line any more."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as source:
            return not source.read(1)
    except OSError:
        return False


def _state(pid: int) -> str:
    fields = _stat(pid)
    return fields[0] if fields else ""


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command, which may hold blanks and parentheses."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as source:
            return source.read().rpartition(")")[2].split()
    except OSError:
        return []


@contextlib.contextmanager
def _opened(pid: int) -> Iterator[int | None]:
    try:
        descriptor: int | None = os.pidfd_open(pid)
    except ProcessLookupError:
        descriptor = None
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


async def _readable(descriptor: int, timeout_s: float) -> bool:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(timeout_s):
            await ended.wait()
    except TimeoutError:
        return bool(select.select([descriptor], [], [], 0)[0])
    finally:
        loop.remove_reader(descriptor)
    return True
