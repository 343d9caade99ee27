# SPDX-License-Identifier: BSD-2-Clause
"""The real machine as the drivers and calls of a node see it: processes in groups that end with their call.

Every program of a call leads its own session and process group. The group is written to ``run/ganeti/node-calls``
before the program is waited for, so that a node daemon that starts after a `kill -9` ends what its predecessor left
running (`end_orphans`); guests are started by `spawn` and are no part of this.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ganeti.base.errors import CommandError
from ganeti.base.paths import Paths
from ganeti.node.boot import boot_identity, process_start
from ganeti.ports.node_world import Completed

STANDARD_PATH = "/sbin:/bin:/usr/sbin:/usr/bin"
TERMINATION_GRACE_S = 2.0
OUTPUT_LIMIT_BYTES = 16 * 1024 * 1024
SHOWN_LINES = 20
_DRAIN_S = 1.0
_log = logging.getLogger(__name__)


class RealNodeWorld:
    """`NodeWorld` of this machine."""

    def __init__(self, paths: Paths, node_name: str) -> None:
        self._paths = paths
        self._node_name = node_name
        self._spawned: dict[int, subprocess.Popen[bytes]] = {}

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
        check: bool = True,
    ) -> Completed:
        """See `NodeWorld.run`."""
        log_file = _open_log(log_path) if log_path is not None else None
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE if log_file is None else log_file,
                stderr=subprocess.PIPE if log_file is None else subprocess.STDOUT,
                env=_environment(env),
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as err:
            raise CommandError(_cannot_start(argv, err)) from err
        finally:
            if log_file is not None:
                os.close(log_file)
        record = self._record(process.pid)
        try:
            stdout, stderr = await self._wait(process, argv, stdin, timeout_s)
        finally:
            await _end_group(process)
            with contextlib.suppress(OSError):
                record.unlink()
        completed = Completed(tuple(argv), process.returncode or 0, stdout, stderr)
        if check and completed.status != 0:
            raise CommandError(_failure(completed, log_path))
        return completed

    async def spawn(self, argv: Sequence[str], *, pass_fds: Sequence[int] = (), log_path: str = "/dev/null") -> int:
        """See `NodeWorld.spawn`."""
        log_file = _open_log(log_path)
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                env=_environment(None),
                start_new_session=True,
                pass_fds=tuple(pass_fds),
            )
        except OSError as err:
            raise CommandError(_cannot_start(argv, err)) from err
        finally:
            os.close(log_file)
        self._reap_when_ended(process)
        return process.pid

    def log(self, sentence: str) -> None:
        _log.info("%s", sentence)

    async def _wait(
        self, process: asyncio.subprocess.Process, argv: Sequence[str], stdin: bytes | None, timeout_s: float
    ) -> tuple[str, str]:
        readers = [asyncio.ensure_future(_read(stream)) for stream in (process.stdout, process.stderr)]
        writer = asyncio.ensure_future(_write(process.stdin, stdin))
        try:
            async with asyncio.timeout(timeout_s):
                await process.wait()
            # A background process that kept the pipe open must not hold the call up.
            await asyncio.wait(readers, timeout=_DRAIN_S)
        except TimeoutError:
            raise CommandError(f"{argv[0]} did not end within {timeout_s:g} seconds and was stopped") from None
        finally:
            for task in (*readers, writer):
                task.cancel()
            parts = await asyncio.gather(*readers, writer, return_exceptions=True)
        return _text(parts[0]), _text(parts[1])

    def _record(self, pid: int) -> Path:
        """Write down a group, for whoever comes after a killed daemon."""
        directory = _records(self._paths)
        record = directory / str(pid)
        with contextlib.suppress(OSError):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            record.write_text(f"{boot_identity()} {process_start(pid) or '-'}")
        return record

    def _reap_when_ended(self, process: subprocess.Popen[bytes]) -> None:
        loop = asyncio.get_running_loop()
        descriptor = os.pidfd_open(process.pid)
        self._spawned[process.pid] = process

        def ended() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            process.wait()
            self._spawned.pop(process.pid, None)

        loop.add_reader(descriptor, ended)


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
                os.killpg(int(record.name), signal.SIGKILL)
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


def _open_log(path: str) -> int:
    if path != "/dev/null":
        os.makedirs(os.path.dirname(path), mode=0o750, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    """Read to the end and keep what fits; a cancelled reader gives what it has."""
    kept = bytearray()
    if stream is None:
        return b""
    with contextlib.suppress(asyncio.CancelledError):
        while data := await stream.read(65536):
            kept += data[: OUTPUT_LIMIT_BYTES - len(kept)]
    return bytes(kept)


async def _write(stream: asyncio.StreamWriter | None, data: bytes | None) -> None:
    if stream is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stream.write(data or b"")
        await stream.drain()
        stream.close()
        await stream.wait_closed()


def _text(part: object) -> str:
    return part.decode("utf-8", "replace") if isinstance(part, bytes) else ""


async def _end_group(process: asyncio.subprocess.Process) -> None:
    """End what is left of a group; survives being cancelled, because nothing may go on after its call."""
    if process.returncode is not None:
        _signal_group(process.pid, signal.SIGKILL)
        return
    _signal_group(process.pid, signal.SIGTERM)
    ending = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait([ending], timeout=TERMINATION_GRACE_S)
    finally:
        _signal_group(process.pid, signal.SIGKILL)
        await asyncio.shield(ending)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _cannot_start(argv: Sequence[str], err: OSError) -> str:
    if isinstance(err, FileNotFoundError):
        return f"{argv[0]} cannot be started: the program is not there, install it"
    return f"{argv[0]} cannot be started: {err.strerror}"


def _failure(completed: Completed, log_path: str | None) -> str:
    how = f"ended with status {completed.status}"
    if completed.status < 0:
        how = f"was ended by signal {signal.Signals(-completed.status).name}"
    shown = completed.output if log_path is None else _tail(log_path)
    lines = " ".join(line.strip() for line in shown.splitlines()[-SHOWN_LINES:])
    where = f" (log: {log_path})" if log_path is not None else ""
    return f"{completed.argv[0]} {how}: {lines or 'it said nothing'}{where}"


def _tail(path: str) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
        return file.read().decode("utf-8", "replace")
