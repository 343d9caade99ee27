# SPDX-License-Identifier: BSD-2-Clause
"""The data of a transfer: from a program, by a compressor, into the connection, or the other way round."""

import fcntl
import hashlib
import os
import ssl
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import IO, Any

from ganeti.base.errors import CommandError, TransportError
from ganeti.node.dump_file import DumpFile
from ganeti.system.files import single_digit, take_number
from ganeti.tools.import_export import gzip_stream
from ganeti.tools.import_export.sinks import Pipe, Sink
from ganeti.wire.transfer_files import Program, Task

CHUNK = 256 * 1024
_PIPE = 1024 * 1024
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_COMPRESSORS = {"gzip-fast": ["gzip", "-1"], "gzip": ["gzip"], "gzip-slow": ["gzip", "-9"]}
"""What 3.1's names mean; any other name is a program of the site."""
_MARK = b"M="
_LAST_WORDS_S = 0.5


class Meter:
    """How much has passed, before compression, and how much there will be if somebody knows."""

    def __init__(self) -> None:
        self.bytes = 0
        self.sha256 = ""
        """Of what went into a file, once it has all come."""
        self.size_file: int | None = None

    def foretold_bytes(self) -> int | None:
        """What the program said of its size."""
        if self.size_file is None:
            return None
        text = os.pread(self.size_file, 64, 0).decode("ascii", "replace").strip()
        return int(text) if text.isdigit() else None


class Running:
    """Programs of one transfer; ended all, where one of them or the connection fails."""

    def __init__(self) -> None:
        self._programs: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def start(self, argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """Raises `CommandError`."""
        try:
            process = subprocess.Popen(argv, **options)
        except OSError as err:
            raise CommandError(f"{argv[0]} cannot be started: {err.strerror}") from err
        self._programs.append((argv[0], process))
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
        return process

    def beside(self, work: Callable[[], None]) -> None:
        """Do something in a thread; its failure is that of the whole."""

        def guarded() -> None:
            try:
                work()
            except BaseException as err:
                self._failures.append(err)
                self._kill()  # nobody must wait for what this thread does no more

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        self._threads.append(thread)

    def end_well(self) -> None:
        """Wait until everything has ended; raises `CommandError` naming the program that failed."""
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        for name, process in self._programs:
            status = process.wait()
            if status != 0:
                raise CommandError(f"{os.path.basename(name)} ended with status {status}")

    def stop(self) -> str | None:
        """End all programs; gives what went wrong first, if that was not the connection."""
        fault = None
        for name, process in self._programs:
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(_LAST_WORDS_S)
                if status > 0 and fault is None:
                    fault = f"{os.path.basename(name)} ended with status {status}"
        self._kill()
        for _, process in self._programs:
            process.wait()
        return fault or (str(self._failures[0]) if self._failures else None)

    def _kill(self) -> None:
        for _, process in self._programs:
            with suppress(ProcessLookupError):
                process.kill()


def send(task: Task, write: Callable[[bytes], None], meter: Meter, running: Running) -> None:
    """Bring everything into the connection, by *write*. Raises `CommandError`, `OSError`."""
    source = _source(task, meter, running)
    mark = _MARK + task.magic.encode() if task.magic else b""
    isal = gzip_stream.library() if task.compress == gzip_stream.PACKED_HERE else None
    if task.compress == "none":
        _pump(_reading(source, mark), write, meter, len(mark))
    elif isal is not None:
        meter.bytes -= len(mark)
        read = gzip_stream.packed(isal, _counted(_reading(source, mark), meter))
        _pump(read, write, Meter(), 0)
    else:
        process = running.start(_compressor(task.compress), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None and process.stdout is not None
        into = process.stdin
        running.beside(lambda: _pump_and_close(_reading(source, mark), Pipe(into), meter, len(mark)))
        _pump(_reading(process.stdout, b""), write, Meter(), 0)
    running.end_well()


def receive(task: Task, tunnel: ssl.SSLSocket, meter: Meter, running: Running) -> None:
    """Take everything from the connection until the sender closes it. Raises `TransportError`, `CommandError`."""
    isal = gzip_stream.library() if task.compress in gzip_stream.TOOLS else None
    if task.compress == "none" or isal is not None:
        come = _receiving(tunnel)
        read = _checked(come if isal is None else gzip_stream.unpacked(isal, come), task.magic)
        _deliver(read, task, running, meter)
    else:
        words = [*_compressor(task.compress), "-d"]
        process = running.start(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None and process.stdout is not None
        from_compressor = _checked(_reading(process.stdout, b""), task.magic)
        running.beside(lambda: _deliver(from_compressor, task, running, meter))
        _pump_and_close(_receiving(tunnel), Pipe(process.stdin), Meter(), 0)
    running.end_well()


def _deliver(read: Callable[[], bytes], task: Task, running: Running, meter: Meter) -> None:
    """Bring what came to where it belongs; *meter* knows its checksum where that is a file."""
    if not task.file:
        _pump_and_close(read, _target(task, running), meter, 0)
        return
    found = hashlib.sha256()
    with ThreadPoolExecutor(1) as beside:  # while the next piece comes and this one is written
        _pump_and_close(_summed(read, found.update, beside), _target(task, running), meter, 0)
    meter.sha256 = found.hexdigest()


def _summed(
    read: Callable[[], bytes], count: Callable[[bytes], None], beside: ThreadPoolExecutor
) -> Callable[[], bytes]:
    under_way: list[Future[None]] = []

    def reading() -> bytes:
        data = read()
        if under_way:
            under_way.pop().result()  # one piece at a time: memory stays small, and their order is kept
        if data:
            under_way.append(beside.submit(count, data))
        return data

    return reading


def _compressor(tool: str) -> list[str]:
    return list(_COMPRESSORS.get(tool, [tool]))


def _source(task: Task, meter: Meter, running: Running) -> IO[bytes]:
    if task.file:
        return open(os.open(task.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb", buffering=0)
    if task.program is None:
        return open(0, "rb", buffering=0, closefd=False)
    env: dict[str, str] = {}
    options: dict[str, Any] = {}
    if task.program.tells_size:
        meter.size_file = os.memfd_create("size", 0)
        number = single_digit(meter.size_file)
        env = {"EXP_SIZE_FD": str(number)}
        options = {"pass_fds": (number,), "preexec_fn": partial(take_number, meter.size_file)}
    process = _start(task.program, running, env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **options)
    assert process.stdout is not None
    return process.stdout


def _target(task: Task, running: Running) -> Sink:
    if task.file:
        return DumpFile(task.file)
    if task.program is None:
        return Pipe(open(1, "wb", buffering=0, closefd=False))
    process = _start(task.program, running, {}, stdin=subprocess.PIPE, stdout=None)
    assert process.stdin is not None
    return Pipe(process.stdin)


def _start(program: Program, running: Running, extra: dict[str, str], **options: Any) -> subprocess.Popen[bytes]:
    env = {"PATH": _PATH, **program.env, **extra}
    if program.log_path is None:
        return running.start(program.argv, env=env, cwd=program.cwd, **options)
    os.makedirs(os.path.dirname(program.log_path), mode=0o750, exist_ok=True)
    descriptor = os.open(program.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as log:
        if options.get("stdout") is None:
            options["stdout"] = log
        return running.start(program.argv, env=env, cwd=program.cwd, stderr=log, **options)


def _reading(source: IO[bytes], first: bytes) -> Callable[[], bytes]:
    waiting = [first] if first else []

    def read() -> bytes:
        return waiting.pop() if waiting else os.read(source.fileno(), CHUNK)

    return read


def _receiving(tunnel: ssl.SSLSocket) -> Callable[[], bytes]:
    """What reads whole chunks, shorter at the end alone: TLS gives 16 KiB, and each write wakes the next program."""

    def read() -> bytes:
        buffer = bytearray(CHUNK)
        view, filled = memoryview(buffer), 0
        while filled < CHUNK and (count := tunnel.recv_into(view[filled:])):
            filled += count
        return bytes(view[:filled])

    return read


def _counted(read: Callable[[], bytes], meter: Meter) -> Callable[[], bytes]:
    def counting() -> bytes:
        data = read()
        meter.bytes += len(data)
        return data

    return counting


def _checked(read: Callable[[], bytes], magic: str) -> Callable[[], bytes]:
    """The same without the mark at the beginning, which must be that of this disk."""
    mark = _MARK + magic.encode() if magic else b""
    head = b""

    def rest() -> bytes:
        nonlocal mark, head
        if not mark:
            return read()
        while len(head) < len(mark):
            piece = read()
            if not piece:
                raise TransportError("The connection was closed before the data began")
            head += piece
        if not head.startswith(mark):
            raise TransportError("What came is not the data of this disk: its mark (magic) is another")
        body, mark = head[len(mark) :], b""
        return body or read()

    return rest


def _pump(read: Callable[[], bytes], write: Callable[[bytes], Any], meter: Meter, of_mark: int) -> None:
    meter.bytes -= of_mark
    while data := read():
        write(data)
        meter.bytes += len(data)


def _pump_and_close(read: Callable[[], bytes], into: Sink, meter: Meter, of_mark: int) -> None:
    try:
        _pump(read, into.write, meter, of_mark)
        into.finish()
    finally:
        into.close()
