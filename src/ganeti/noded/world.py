# SPDX-License-Identifier: BSD-2-Clause
"""The real machine as the drivers and calls of a node see it: processes in groups that end with their call.

Every program of a call leads its own session and process group. It notes itself in ``run/ganeti/node-calls`` before it
begins, so that a node daemon that starts after a `kill -9` ends what its predecessor left running (`end_orphans`);
guests are started by `spawn` and are no part of this.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from ganeti.base.errors import CommandError
from ganeti.base.paths import Paths
from ganeti.noded.call_spans import program_span
from ganeti.ports.node_world import Completed
from ganeti.system.boot import boot_identity, process_start
from ganeti.system.files import open_among_others, plain_file, single_digit, take_number

STANDARD_PATH = "/sbin:/bin:/usr/sbin:/usr/bin"
TERMINATION_GRACE_S = 2.0
OUTPUT_LIMIT_BYTES = 16 * 1024 * 1024
SHOWN_LINES = 20
_DRAIN_S = 0.2
_POLL_S = 0.005
_SCRIPTS_UMASK = 0o077
"""Of the administrator's own scripts, as in 3.1."""
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None)
_log = logging.getLogger(__name__)


class RealNodeWorld:
    """`NodeWorld` of this machine."""

    def __init__(self, paths: Paths, node_name: str) -> None:
        self._paths = paths
        self._node_name = node_name
        self._spawned: dict[int, asyncio.Future[bool]] = {}

    @property
    def paths(self) -> Paths:
        return self._paths

    @property
    def node_name(self) -> str:
        return self._node_name

    def now_s(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        cwd: str | None = None,
        log_path: str | None = None,
        stdin_path: str | None = None,
        stdout_path: str | None = None,
        stdout_fd: int | None = None,
        pass_fds: Sequence[int] = (),
        script_fd: int | None = None,
        check: bool = True,
        leaves_background: bool = False,
        largest_output_bytes: int | None = None,
    ) -> Completed:
        """See `NodeWorld.run`."""
        environment = _environment(env)
        _check_program(argv, environment)
        kept = (*pass_fds, *(() if script_fd is None else (single_digit(script_fd),)))
        records, boot = _make_records_directory(self._paths), boot_identity()
        with contextlib.ExitStack() as ours:
            log_file = ours.enter_context(_log_file(log_path)) if log_path is not None else None
            given: int | IO[bytes] = subprocess.DEVNULL
            output: int | IO[bytes] = subprocess.PIPE if log_file is None else log_file
            if stdin is not None:
                given = ours.enter_context(_input_file(stdin))
            if stdout_fd is not None:
                output = stdout_fd
            try:
                if stdin_path is not None:
                    given = ours.enter_context(open(stdin_path, "rb"))
                if stdout_path is not None:
                    output = ours.enter_context(open(stdout_path, "wb", opener=_private))
                process = subprocess.Popen(
                    list(argv),
                    stdin=given,
                    stdout=output,
                    stderr=subprocess.PIPE if log_file is None else log_file,
                    pass_fds=kept,
                    env=environment,
                    cwd=cwd,
                    start_new_session=True,
                    preexec_fn=lambda: _begin_call(records, boot, script_fd, for_root_alone=leaves_background),
                )
            except OSError as err:
                raise _cannot_start(argv, f"{err.filename}: {err.strerror}" if err.filename else str(err)) from err
        with program_span(argv[0]):
            streams = [_Stream(pipe, largest_output_bytes) for pipe in (process.stdout, process.stderr) if pipe]
            try:
                if not await _wait(process, timeout_s, [stream.flooded for stream in streams]):
                    is_flooded = any(stream.flooded.done() for stream in streams)
                    limit = f"within {timeout_s:g} seconds" if not is_flooded else f"at {largest_output_bytes} bytes"
                    raise CommandError(f"{argv[0]} did not end {limit} and was stopped")
                # A background process that kept the pipe open must not hold the call up.
                await asyncio.wait([stream.ended for stream in streams] or [_nothing()], timeout=_DRAIN_S)
            finally:
                if process.returncode is None or not leaves_background:
                    await _end_group(process)
                with contextlib.suppress(OSError):
                    (records / str(process.pid)).unlink()
                texts: dict[IO[bytes] | None, str] = {stream.pipe: stream.close() for stream in streams}
            completed = Completed(
                tuple(argv), process.returncode, texts.get(process.stdout, ""), texts.get(process.stderr, "")
            )
            if check and completed.status != 0:
                raise CommandError(_failure(completed, log_path))
        return completed

    async def spawn(self, argv: Sequence[str], *, pass_fds: Sequence[int] = (), log_path: str = "/dev/null") -> int:
        """See `NodeWorld.spawn`."""
        environment = _environment(None)
        _check_program(argv, environment)
        try:
            with _log_file(log_path) as log_file:
                process = subprocess.Popen(
                    list(argv),
                    stdin=subprocess.DEVNULL,
                    stdout=log_file,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                    pass_fds=tuple(pass_fds),
                )
        except OSError as err:
            raise _cannot_start(argv, err.strerror or str(err)) from err
        reaper = asyncio.ensure_future(_wait(process, None))
        self._spawned[process.pid] = reaper
        reaper.add_done_callback(lambda _: self._spawned.pop(process.pid, None))
        return process.pid

    def log(self, sentence: str) -> None:
        _log.info("%s", sentence)


def _make_records_directory(paths: Paths) -> Path:
    directory = _records(paths)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def _begin_call(directory: Path, boot: str, script_fd: int | None, *, for_root_alone: bool = False) -> None:
    """In the child, before it becomes the program: a daemon killed at any moment leaves no group it did not note.

    What the program begins in sessions of their own stays below it as long as it lives (a "child subreaper").
    """
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    pid = os.getpid()
    descriptor = os.open(f"{directory}/{pid}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.write(descriptor, f"{boot} {process_start(pid)}".encode())
    os.close(descriptor)
    if script_fd is not None:
        take_number(script_fd)
    if for_root_alone:
        os.umask(_SCRIPTS_UMASK)


def end_orphans(paths: Paths) -> int:
    """End the process groups that calls of a killed daemon left behind; gives how many there were."""
    ended = 0
    directory = _records(paths)
    for record in sorted(directory.iterdir()) if directory.is_dir() else []:
        with contextlib.suppress(OSError, ValueError):
            boot, started = record.read_text().split()
            # The number of a group that still has members is not given away, so a different leader means it is over.
            leader = process_start(int(record.name))
            if boot == boot_identity() and leader in (None, started):
                below = _below(int(record.name))
                os.killpg(int(record.name), signal.SIGKILL)
                _kill_all(below)
                ended += 1
        record.unlink(missing_ok=True)
    return ended


def _records(paths: Paths) -> Path:
    return Path(paths.run_dir) / "node-calls"


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    if env is not None:
        return {"PATH": STANDARD_PATH, **env}
    kept = {name: value for name, value in os.environ.items() if name.startswith("GANETI_")}
    return {"PATH": STANDARD_PATH, "LC_ALL": "C", **kept}


@contextlib.contextmanager
def _log_file(path: str) -> Iterator[int]:
    if path == os.devnull:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    else:
        os.makedirs(os.path.dirname(path), mode=0o750, exist_ok=True)
        descriptor = open_among_others(path, os.O_WRONLY | os.O_APPEND, 0o640)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def _input_file(data: bytes) -> Iterator[int]:
    """Standard input as a file in memory: nobody need feed it while the program runs."""
    with open(os.memfd_create("stdin"), "wb", buffering=0) as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


class _Stream:
    """Collects what a program writes into a pipe, up to a limit; *flooded* tells of more than *largest_bytes*."""

    def __init__(self, pipe: IO[bytes], largest_bytes: int | None) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.flooded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._largest_bytes = largest_bytes
        self._read_bytes = 0
        self.pipe = pipe
        self._kept = bytearray()
        os.set_blocking(pipe.fileno(), False)
        asyncio.get_running_loop().add_reader(pipe.fileno(), self._read)

    def close(self) -> str:
        if not self.pipe.closed:
            self._stop()
        return self._kept.decode("utf-8", "replace")

    def _read(self) -> None:
        try:
            data = os.read(self.pipe.fileno(), 65536)
        except BlockingIOError:
            return
        self._kept += data[: OUTPUT_LIMIT_BYTES - len(self._kept)]
        self._read_bytes += len(data)
        if self._largest_bytes is not None and self._read_bytes > self._largest_bytes and not self.flooded.done():
            self.flooded.set_result(None)
        if not data:
            self._stop()

    def _stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self.pipe.fileno())
        self.pipe.close()
        if not self.ended.done():
            self.ended.set_result(None)


def _nothing() -> "asyncio.Future[None]":
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_result(None)
    return future


async def _wait(
    process: "subprocess.Popen[bytes]", timeout_s: float | None, unless: Iterable["asyncio.Future[None]"] = ()
) -> bool:
    """Wait for a process by its descriptor, without a thread; False when it takes longer, or *unless* is done."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    descriptor = os.pidfd_open(process.pid)

    def readable() -> None:
        if not ended.done():
            ended.set_result(None)

    loop.add_reader(descriptor, readable)
    try:
        await asyncio.wait([ended, *unless], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    if ended.done():
        process.wait()
    return ended.done()


async def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """End what is left of a group, and what left it, and wait for that; nothing may go on after its call."""
    below: dict[int, str] = {}
    if process.returncode is None:
        below = _below(process.pid)
        _signal_group(process.pid, signal.SIGTERM)
        try:
            await _wait(process, TERMINATION_GRACE_S)
        finally:
            below |= _below(process.pid)
            _signal_group(process.pid, signal.SIGKILL)
            process.wait()
            _kill_all(below)
    deadline = time.monotonic() + TERMINATION_GRACE_S
    while left := _left(process.pid, below):
        if time.monotonic() > deadline:
            _log.warning("processes %s cannot be ended: they wait for a device", left)
            return
        await asyncio.sleep(_POLL_S)


def _below(leader: int) -> dict[int, str]:
    """Processes that *leader* has begun, and those have, whatever their group; with the moment each was started."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry.name}/stat", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: dict[int, str] = {}
    waiting = list(children.get(leader, []))
    while waiting:
        pid = waiting.pop()
        if (started := process_start(pid)) is not None:
            found[pid] = started
        waiting += children.get(pid, [])
    return found


def _kill_all(processes: Mapping[int, str]) -> None:
    for pid, started in processes.items():
        if process_start(pid) == started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _left(group: int, below: Mapping[int, str]) -> list[int]:
    """Which of a group and of *below* have not ended; they are killed again."""
    members = _members(group) if _signal_group(group, signal.SIGKILL) else []
    return [*members, *(pid for pid, started in below.items() if pid not in members and _is_alive(pid, started))]


def _is_alive(pid: int, started: str) -> bool:
    """One that only waits to be asked how it ended is not."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            state, *rest = file.read().rpartition(")")[2].split()
    except OSError:
        return False
    return rest[18] == started and state not in "ZX"


def _members(group: int) -> list[int]:
    """Processes of a group that have not ended; those that only wait to be asked how they did have."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry.name}/stat", errors="replace") as file:
                state, _, its_group = file.read().rpartition(")")[2].split()[:3]
                if int(its_group) == group and state not in "ZX":
                    found.append(int(entry.name))
    return found


def _signal_group(group: int, number: signal.Signals) -> bool:
    """False when there is no such group any more."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def _check_program(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Raise `CommandError` for what cannot be started: a child would have noted itself before it finds out."""
    path = argv[0]
    if shutil.which(path, path=env["PATH"]) is None:
        missing = "/" not in path or not os.path.exists(path)
        raise _cannot_start(argv, "the program is not there, install it" if missing else "it is not executable")


def _cannot_start(argv: Sequence[str], reason: str) -> CommandError:
    return CommandError(f"{argv[0]} cannot be started: {reason}")


def _failure(completed: Completed, log_path: str | None) -> str:
    how = f"ended with status {completed.status}"
    if completed.status < 0:
        how = f"was ended by signal {signal.Signals(-completed.status).name}"
    shown = completed.output if log_path is None else _tail(log_path)
    lines = " ".join(line.strip() for line in shown.splitlines()[-SHOWN_LINES:])
    where = f" (log: {log_path})" if log_path is not None else ""
    return f"{completed.argv[0]} {how}: {lines or 'it said nothing'}{where}"


def _tail(path: str) -> str:
    with open(path, "rb", opener=plain_file) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
        return file.read().decode("utf-8", "replace")
