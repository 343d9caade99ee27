# SPDX-License-Identifier: BSD-2-Clause
"""The processes of a node, seen from the host: namespaces entered by id, freezing, ending, nothing by name."""

import contextlib
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ganeti.base.errors import CommandError

FREEZER_V1 = Path("/sys/fs/cgroup/freezer")
GONE_WITHIN_S = 20.0


def run(*command: str, text: str | None = None, check: bool = True) -> str:
    """Run a program to its end and give its output; raises `CommandError` with what it complained of."""
    done = subprocess.run(
        command,
        input=text,
        stdin=subprocess.DEVNULL if text is None else None,
        capture_output=True,
        text=True,
        check=False,
    )
    if check and done.returncode:
        raise CommandError(f"{' '.join(command)} failed: {done.stderr.strip() or f'status {done.returncode}'}")
    return done.stdout


def started_at(pid: int) -> int | None:
    """Give the start time of a process in clock ticks since boot, or None if it does not run (a zombie does not)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def remember(pid_file: Path, pid: int) -> None:
    """Write down a process so that `recall` never mistakes a later one of the same id for it."""
    pid_file.write_text(f"{pid} {started_at(pid)}\n")


def recall(pid_file: Path) -> int | None:
    """Give the id in the file if that very process still runs."""
    try:
        pid, start = pid_file.read_text().split()
    except (FileNotFoundError, ValueError):
        return None
    return int(pid) if str(started_at(int(pid))) == start else None


def end(pid: int, within_s: float = GONE_WITHIN_S) -> None:
    """Kill the process and wait until it is gone; for the first process of a node that takes all others along."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with contextlib.closing(os.fdopen(handle)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if not select.select([handle], [], [], within_s)[0]:
            raise CommandError(f"process {pid} has not ended within {within_s:.0f} s of being killed")


def in_namespace(kind: str, reference: Path) -> Iterator[int]:
    """Yield the processes whose namespace of that kind (``pid``, ``net``) is the one *reference* stands for."""
    wanted = reference.stat().st_ino
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{entry}/ns/{kind}").st_ino == wanted:
                    yield int(entry)


def wait_for(condition: Callable[[], bool], within_s: float, what: str) -> None:
    """Ask every 10 ms until it is so; raises `CommandError` saying what did not come about."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise CommandError(f"{what} did not happen within {within_s:.0f} s")
        time.sleep(0.01)


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped the process."""
    return bool(re.search(r"^State:\s+T", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE))


def wait_stopped(pid: int, *, stopped: bool = True) -> None:
    """Wait until a signal that was sent has stopped the process, or has it go on: it does so when it is next run."""
    wait_for(lambda: is_stopped(pid) is stopped, GONE_WITHIN_S, f"the {'stop' if stopped else 'going on'} of {pid}")


def with_setting(setting: str) -> Iterator[int]:
    """Yield the processes that were started with ``NAME=VALUE`` in their environment, as far as we may look."""
    wanted = setting.encode()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if wanted in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                    yield int(entry)


class Freezer:
    """Stops and continues everything in a node at once: by a freezer cgroup where there is one, else by signals."""

    def __init__(self, name: str) -> None:
        self._group = FREEZER_V1 / name if FREEZER_V1.joinpath("cgroup.procs").exists() else None

    def create(self) -> None:
        if self._group is not None:
            self._group.mkdir(exist_ok=True)

    def join(self) -> None:
        """Put the calling process, and so all its children, into the group."""
        if self._group is not None and self._group.exists():
            (self._group / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self) -> None:
        """Take the group away, with those that containers of the node have made in it.

        Its last processes may need a moment to be counted out.
        """
        if self._group is None or not self._group.exists():
            return
        group = self._group

        def removed() -> bool:
            with contextlib.suppress(FileNotFoundError):
                try:
                    for directory, _, _ in os.walk(group, topdown=False):
                        os.rmdir(directory)
                except OSError:
                    return False
            return True

        wait_for(removed, GONE_WITHIN_S, f"the end of the processes in {group}")

    def freeze(self, init_pid: int) -> None:
        if self._group is None:
            self._signal_all(init_pid, signal.SIGSTOP)
            wait_stopped(init_pid)
            return
        state = self._group / "freezer.state"
        state.write_text("FROZEN")
        wait_for(lambda: state.read_text().strip() == "FROZEN", GONE_WITHIN_S, "freezing the node")
        # A process that entered the node by other means than `exec` is not in the group.
        self._signal_all(init_pid, signal.SIGSTOP, outside_only=True)

    def thaw(self, init_pid: int | None) -> None:
        if self._group is not None and self._group.exists():
            (self._group / "freezer.state").write_text("THAWED")
        if init_pid is not None:
            self._signal_all(init_pid, signal.SIGCONT, outside_only=self._group is not None)
            if self._group is None:
                wait_stopped(init_pid, stopped=False)

    def is_frozen(self, init_pid: int) -> bool:
        if self._group is not None:
            state = self._group / "freezer.state"
            return state.exists() and state.read_text().strip() != "THAWED"
        return is_stopped(init_pid)

    def _signal_all(self, init_pid: int, number: signal.Signals, outside_only: bool = False) -> None:
        """Signal the whole PID namespace, again until nobody new appears (a process may fork meanwhile)."""
        done: set[int] = set()
        while True:
            members = set(in_namespace("pid", Path(f"/proc/{init_pid}/ns/pid")))
            if outside_only:
                members -= self._members()
            if not members - done:
                return
            for pid in members - done:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            done |= members

    def _members(self) -> set[int]:
        assert self._group is not None
        return {int(pid) for pid in (self._group / "cgroup.procs").read_text().split()}


def enter(pid: int) -> Sequence[str]:
    """Give the words before a command that is to run inside the node whose first process is *pid*.

    nsenter waits outside for its child inside; who ends it means the child.
    """
    inside = ("setpriv", "--pdeathsig", "KILL", "--")
    return ("nsenter", "--target", str(pid), "--mount", "--uts", "--net", "--pid", "--root", "--", *inside)
