# SPDX-License-Identifier: BSD-2-Clause
"""`import-export STATUSFILE {import|export}`: one transfer, told by the options of 3.1 or by a task that NodeD wrote.

Prefix and suffix are single commands here (3.1 puts them into a shell): what makes the data, and what takes them.
"""

import argparse
import contextlib
import os
import re
import shlex
import ssl
import sys
import threading
import time
from collections.abc import Sequence

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, GanetiError, ParameterError, TransportError
from ganeti.system.files import write_atomically
from ganeti.system.livelock import LiveLock
from ganeti.tools.import_export import stream, tunnel
from ganeti.wire.transfer_files import CONFIRMED, LOCK, RECEIVE, SEND, TASK, Program, Status, Task

NAME = "import-export"
_MIB = 1024 * 1024
_SAY_EVERY_S = 1.0
_WINDOW_S = 20.0
"""The rate is that of the last seconds."""
_SHELL = set("|&;<>()$`\\\n")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if not os.path.isabs(options.statusfile):
        print(f"{NAME}: the status file must be named by its full path, not {options.statusfile}", file=sys.stderr)
        return 1
    directory = os.path.dirname(options.statusfile)
    if not os.path.isdir(directory):
        print(f"{NAME}: there is no directory {directory} for the status file: make it first", file=sys.stderr)
        return 1
    held: list[LiveLock] = []
    try:
        if options.task:
            held.append(LiveLock(f"{directory}/{LOCK}"))
            with open(f"{directory}/{TASK}", "rb") as file:
                task = msgspec.json.decode(file.read(), type=Task)
            os.unlink(file.name)  # it holds private OS parameters
        else:
            task = _task(options)
    except (GanetiError, OSError, *UNREADABLE_JSON) as err:
        print(f"{NAME}: {err}", file=sys.stderr)
        return 1
    return Transfer(task, options.statusfile).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description="Send or receive the data of one disk over TLS.")
    parser.add_argument("statusfile", metavar="STATUSFILE", help="file for its progress (full path)")
    parser.add_argument("mode", choices=(RECEIVE, SEND), help="whether data come or go")
    parser.add_argument("--key", default="", help="file with the key of this side (PEM)")
    parser.add_argument("--cert", default="", help="file with its certificate")
    parser.add_argument("--ca", default="", help="file with the certificate of the other side")
    parser.add_argument("--bind", default="", metavar="ADDRESS", help="import: address to listen on")
    parser.add_argument("--ipv4", action="store_true", help="IPv4 only")
    parser.add_argument("--ipv6", action="store_true", help="IPv6 only")
    parser.add_argument("--host", default="", help="export: where to connect to")
    parser.add_argument("--port", type=int, default=0, help="port there, or to listen on (import: any)")
    parser.add_argument("--connect-retries", type=int, default=0, metavar="N", help="export: how often to try again")
    parser.add_argument("--connect-timeout", type=float, default=60, metavar="S", help="seconds for a connection (60)")
    parser.add_argument("--compress", default="gzip", help="none, gzip, gzip-fast, gzip-slow, or a program (gzip)")
    parser.add_argument("--expected-size", type=float, metavar="MIB", help="how much there will be, for the progress")
    parser.add_argument("--magic", default="", help="a mark before the data, compared by the receiver")
    parser.add_argument("--cmd-prefix", default="", metavar="COMMAND", help="export: program whose output is sent")
    parser.add_argument("--cmd-suffix", default="", metavar="COMMAND", help="import: program that is given the data")
    parser.add_argument("--task", action="store_true", help=argparse.SUPPRESS)
    for word in ("-d", "-v"):
        parser.add_argument(word, action="store_true", help="for scripts of 3.1: nothing more is said")
    return parser


def _task(options: argparse.Namespace) -> Task:
    """Raises `ParameterError`."""
    for name in ("key", "cert", "ca", *(("host", "port") if options.mode == SEND else ())):
        if not getattr(options, name):
            raise ParameterError(f"--{name} is missing")
    words = options.cmd_prefix.rstrip().removesuffix("|") if options.mode == SEND else options.cmd_suffix
    words = words.strip().removeprefix("|").strip()
    if not 0 <= options.port <= 65535:
        raise ParameterError(f"--port {options.port} is no port: give one from 1 to 65535")
    try:
        argv = shlex.split(words)
    except ValueError as err:
        option = "--cmd-prefix" if options.mode == SEND else "--cmd-suffix"
        raise ParameterError(f"{option} cannot be read as a command: a quotation mark has no other") from err
    if found := sorted(_SHELL & set(words)):
        raise ParameterError(f"'{words}' must be one command without '{found[0]}': put more into a script")
    return Task(
        mode=options.mode,
        key=options.key,
        certificate=options.cert,
        authority=options.ca,
        magic=options.magic,
        compress=options.compress,
        bind=options.bind,
        host=options.host,
        port=options.port,
        family=4 if options.ipv4 else 6 if options.ipv6 else 0,
        connect_timeout_s=options.connect_timeout,
        connect_retries=options.connect_retries,
        expected_mib=options.expected_size,
        program=Program(argv=argv) if argv else None,
    )


class Transfer:
    """One run; the status file follows it."""

    def __init__(self, task: Task, path: str) -> None:
        self._task = task
        self._path = path
        self._meter = stream.Meter()
        self._samples: list[tuple[float, int]] = []
        self._status = Status(ctime=time.time(), pid=os.getpid())
        self._lock = threading.Lock()

    def run(self) -> int:
        threading.Thread(target=self._keep_saying, daemon=True).start()
        running = stream.Running()
        error: str | None = None
        try:
            self._carry_out(running)
        except (ssl.SSLError, ConnectionError, TimeoutError) as err:
            error = (
                f"The connection broke off before all data had come ({_reason(err)}): is the network between them up?"
            )
        except (GanetiError, OSError) as err:
            error = str(err)
        if error is not None:
            error = running.stop() or error
            print(f"{NAME}: {error}", file=sys.stderr)
        self._say(exit_status=0 if error is None else 1, error_message=error, ended=True)
        return 0 if error is None else 1

    def _carry_out(self, running: stream.Running) -> None:
        task = self._task
        self._say()
        if task.mode == SEND:
            with contextlib.closing(tunnel.connect(task)) as outgoing:
                self._say(connected=True)
                stream.send(task, outgoing.sendall, self._meter, running)
                outgoing.await_answer()
            return
        with tunnel.listen(task) as listener:
            self._say(listen_port=listener.getsockname()[1])
            connection = tunnel.accept(task, listener)
        with connection:
            self._say(connected=True)
            stream.receive(task, connection, self._meter, running)
            self._status.sha256 = self._meter.sha256
            self._say(received=True)
            self._await_confirmation()
            tunnel.answer(connection)

    def _await_confirmation(self) -> None:
        """Raises `TransportError` where the job does not say that the instance is kept.

        That may take long: it waits for all disks, of which the largest decides.
        """
        confirmed = f"{os.path.dirname(self._path)}/{CONFIRMED}"
        end_s = time.monotonic() + tunnel.ANSWER_WITHIN_S
        while self._task.waits_for_confirmation and not os.path.exists(confirmed):
            if time.monotonic() > end_s:
                raise TransportError(
                    f"The data have come, but nobody has said within {tunnel.ANSWER_WITHIN_S:.0f} s to keep"
                )
            time.sleep(0.05)

    def _keep_saying(self) -> None:
        while True:
            time.sleep(_SAY_EVERY_S)
            self._say()

    def _say(
        self,
        *,
        connected: bool = False,
        received: bool = False,
        listen_port: int | None = None,
        exit_status: int | None = None,
        error_message: str | None = None,
        ended: bool = False,
    ) -> None:
        with self._lock:
            status = self._status
            if status.exit_status is not None:
                return
            status.connected = connected or status.connected
            status.received = received or status.received
            status.listen_port = listen_port or status.listen_port
            self._measure(status)
            status.mtime = time.time()
            if ended:
                status.exit_status, status.error_message = exit_status, error_message
                status.recent_output = [error_message] if error_message else []
            write_atomically(self._path, msgspec.json.encode(status), mode=0o600, durable=False)

    def _measure(self, status: Status) -> None:
        if not status.connected:
            return
        now_s, done = time.monotonic(), max(self._meter.bytes, 0)
        self._samples = [each for each in self._samples if now_s - each[0] < _WINDOW_S] + [(now_s, done)]
        (first_s, first), status.progress_mbytes = self._samples[0], done / _MIB
        if now_s - first_s >= _SAY_EVERY_S / 2:
            status.progress_throughput = (done - first) / _MIB / (now_s - first_s)
        placement_preview = self._meter.foretold_bytes()
        total = placement_preview / _MIB if placement_preview else self._task.expected_mib
        if total:
            status.progress_percent = min(100.0, 100.0 * status.progress_mbytes / total)
            if status.progress_throughput:
                left_mib = max(total - status.progress_mbytes, 0.0)
                status.progress_eta = left_mib / status.progress_throughput


def _reason(err: OSError) -> str:
    """OpenSSL's own words are between the name of its error and that of a source file."""
    return re.sub(r"^\[.*?\] | \(_ssl.*\)$", "", err.strerror or "") or type(err).__name__


if __name__ == "__main__":
    sys.exit(main())
