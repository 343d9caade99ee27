# SPDX-License-Identifier: BSD-2-Clause
"""What was on a machine before it began to join a cluster, on disk: a later process can take the joining back.

A file of lines of JSON in the data directory. It appears with its first line, the state of the machine; each further
line is synced before what it tells of is done. Who works on it holds a lock on it: a record without one was left by a
process that has died. A last line that is not whole tells of nothing that was done.
"""

import fcntl
import os
import select
import signal
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, WRONG_STATE, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.bootstrap.file_set import Former
from ganeti.system.files import sync_directory, write_all
from ganeti.system.pid_files import remove_unless_held

Mark = Literal["began", "host keys", "daemons", "asked"]
"""A joining began (a repeated one, again); sshd has other host keys; daemons are started; the cluster is asked."""

_DIRECTORY_MODE = 0o755
_KILLED_WITHIN_S = 5.0


class Before(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The machine as it was."""

    is_node: bool
    names: list[str]
    """What the data directory had."""
    ran: list[str]
    """The daemons that ran."""
    made: list[str]
    """Directories that were made for the record itself, the outermost first."""


class _Line(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    before: Before | None = None
    former: list[Former] = []
    mark: Mark | None = None
    time_s: float = 0.0
    master: str = ""
    process: str = ""
    """Which one works on the record from this line on: process id, and its start in ticks of the kernel."""
    cluster: str = ""
    """The name of the one that the machine is to join."""


class JoiningRecord:
    """The record of this machine, held until `close` or `remove`; both may be called again."""

    def __init__(self, paths: Paths, descriptor: int, before: Before) -> None:
        self._path, self._descriptor = paths.joining_record, descriptor
        self.before = before
        self.former: list[Former] = []
        self.marks: set[Mark] = set()
        self.asked_at_s: float | None = None
        """When the master has said that it asks the cluster; None while it has not."""
        self.asked_by = ""
        """The name of that master; empty where a former release has written the record."""
        self.process, self.cluster = "", ""

    @classmethod
    def begin(cls, paths: Paths, before: Before, cluster: str = "") -> "JoiningRecord":
        """Make the record, and the data directory if there is none. Raises `PrerequisiteError`, `OSError`."""
        for place in before.made:
            os.mkdir(place)
            os.chmod(place, _DIRECTORY_MODE)
        path, unfinished = paths.joining_records
        try:
            descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except FileExistsError as err:
            raise _under_way() from err
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            record = cls(paths, descriptor, before)
            record._append(_Line(before=before, process=_this_process(), cluster=cluster))
            os.link(unfinished, path)
        except (FileExistsError, FileNotFoundError) as err:
            os.close(descriptor)
            raise _under_way() from err
        except BaseException:
            os.close(descriptor)
            raise
        finally:
            with suppress(FileNotFoundError):
                os.unlink(unfinished)
        sync_directory(paths.data_dir)
        return record

    @classmethod
    def left_behind(cls, paths: Paths) -> "JoiningRecord | None":
        """Take hold of a record whose process has died. Raises `PrerequisiteError` while one is at work, `OSError`.

        One that root has not written is none: the data directory is another user's.
        """
        try:
            descriptor = os.open(paths.joining_record, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
                raise PrerequisiteError(
                    f"{paths.joining_record} was not written by a joining of this machine: remove it", WRONG_STATE
                )
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_gone = os.fstat(descriptor).st_nlink == 0  # its process has just ended
            record = cls._read(paths, descriptor)
        except BlockingIOError as err:
            os.close(descriptor)
            raise _under_way() from err
        except BaseException:
            os.close(descriptor)
            raise
        if is_gone:
            record.close()
            return None
        with suppress(FileNotFoundError):  # its process died when the record had both names
            if os.path.samestat(status, os.lstat(paths.joining_records[1])):
                os.unlink(paths.joining_records[1])
        return record

    @classmethod
    def _read(cls, paths: Paths, descriptor: int) -> "JoiningRecord":
        with open(os.dup(descriptor), "rb") as file:
            file.seek(0)
            whole = [line for line in file if line.endswith(b"\n")]
        os.ftruncate(descriptor, sum(map(len, whole)))  # the next line begins where the last whole one ends
        lines = []
        for line in whole:
            try:
                lines.append(msgspec.json.decode(line, type=_Line))
            except UNREADABLE_JSON as err:
                raise PrerequisiteError(
                    f"{paths.joining_record} cannot be read ({err}): remove it, then run node-cleanup if it is no node",
                    WRONG_STATE,
                ) from err
        before = lines[0].before if lines else None
        if before is None:
            raise PrerequisiteError(f"{paths.joining_record} is not whole: remove it", WRONG_STATE)
        record = cls(paths, descriptor, before)
        for each in lines:
            record._take_in(each)
        return record

    def expect(self, former: Sequence[Former]) -> None:
        """Say what is at these paths before they are changed. Raises `OSError`."""
        self._append(_Line(former=list(former)))

    def mark(self, mark: Mark, time_s: float = 0.0, master: str = "") -> None:
        """Raises `OSError`."""
        self._append(_Line(mark=mark, time_s=time_s, master=master))

    def begin_again(self, cluster: str) -> None:
        """By another process than the one that was killed. Raises `OSError`."""
        self._append(_Line(mark="began", process=_this_process(), cluster=cluster))

    def remove(self) -> None:
        """The joining has ended, one way or the other; directories made for the record go if nothing is in them."""
        if self._descriptor < 0:
            return
        with suppress(FileNotFoundError):
            os.unlink(self._path)
            sync_directory(os.path.dirname(self._path))
        for place in reversed(self.before.made):
            with suppress(OSError):
                os.rmdir(place)
        self.close()

    def close(self) -> None:
        """Let others have the record."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, line: _Line) -> None:
        write_all(self._descriptor, msgspec.json.encode(line) + b"\n")
        os.fsync(self._descriptor)
        self._take_in(line)

    def _take_in(self, line: _Line) -> None:
        self.former += line.former
        if line.process:
            self.process, self.cluster = line.process, line.cluster
        if line.mark is not None:
            self.marks.add(line.mark)
            self.asked_at_s = line.time_s if line.mark == "asked" else None if line.mark == "began" else self.asked_at_s
            self.asked_by = line.master or self.asked_by


def end_holder(paths: Paths, cluster: str) -> None:
    """End the process that joins the machine to *cluster* at this moment, where there is one. Raises `OSError`.

    For a master that talks to the machine in no other process: the one that began this has ended, and the machine has
    not heard of it. What the process has changed is in the record.
    """
    try:
        descriptor = os.open(paths.joining_record, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with open(os.dup(descriptor), "rb") as file:
            lines = [msgspec.json.decode(line, type=_Line) for line in file if line.endswith(b"\n")]
        working = [line for line in lines if line.process]
        if working and working[-1].cluster == cluster:
            _kill(working[-1].process)
    finally:
        os.close(descriptor)


def _kill(process: str) -> None:
    """Kill it and wait for its end, unless the process of that number is another one."""
    pid = int(process.split()[0])
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if _described(pid) == process:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], _KILLED_WITHIN_S)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def _this_process() -> str:
    return _described(os.getpid())


def _described(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return f"{pid} {file.read().rpartition(')')[2].split()[19]}"
    except FileNotFoundError:
        return ""


def remove_unfinished(paths: Paths) -> None:
    """Remove what was to become a record when its process died: nothing else had been done. Raises `OSError`."""
    remove_unless_held(paths.joining_records[1])


def _under_way() -> PrerequisiteError:
    return PrerequisiteError("This machine is joining a cluster at this moment: wait until that has ended", WRONG_STATE)
