# SPDX-License-Identifier: BSD-2-Clause
"""What all daemons share: options, pid file, going into the background, signals, logs.

    def main() -> int:
        options = parse_options("ganeti-xyzd", sys.argv[1:])       # or with your own parser's extra options
        return run_daemon("ganeti-xyzd", options, serve)

    async def serve(daemon: Daemon) -> None:
        ...set up; raise GanetiError, or DaemonRefused(sentence, exit status), to refuse the start
        daemon.ready()                # only now does the command that started the daemon return, with status 0
        await daemon.stopping.wait()  # SIGTERM, SIGINT
        ...tear down

The starting process waits for `ready()` or the refusal, prints the sentence and takes the exit status over. SIGHUP
reopens the log and calls `daemon.on_hangup` if set. The pid file is locked while the daemon lives: a second one is
refused. `before_loop` of `run_daemon` runs in the daemon's process before there is an event loop or a thread (a
spawner is forked there).
"""

import argparse
import asyncio
import fcntl
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

from ganeti.base.errors import EXIT_FAILURE, DeposedError, GanetiError
from ganeti.runtime.environment import Environment, read_environment
from ganeti.runtime.logs import reopen_logs, set_up_logs

_log = logging.getLogger(__name__)
_LOOKS_PASS_S = 0.2
_LOOK_S = 0.002

Options = argparse.Namespace


class DaemonRefused(GanetiError):
    """The daemon will not start; *status* is its exit status."""

    def __init__(self, message: str, status: int = EXIT_FAILURE) -> None:
        super().__init__(message)
        self.status = status


class Daemon:
    """Handed to a daemon's main coroutine."""

    def __init__(self, name: str, options: Options, environment: Environment, report: "_Report") -> None:
        self.name = name
        self.options = options
        self.environment = environment
        self.log = logging.getLogger(name)
        self.stopping = asyncio.Event()
        self.on_hangup: Callable[[], None] | None = None
        self.status = 0
        self.is_ready = False
        self._report = report

    def ready(self) -> None:
        """The daemon serves: let the command that started it return."""
        _log.info("%s is ready", self.name)
        self.is_ready = True
        self._report.send(0, "")

    def stop_with(self, status: int) -> None:
        """End as if told to by a signal, with this exit status."""
        self.status = status
        self.stopping.set()

    def hang_up(self) -> None:
        reopen_logs()
        if self.on_hangup is not None:
            self.on_hangup()


def daemon_parser(name: str) -> argparse.ArgumentParser:
    """The options every daemon of 3.1 takes."""
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("-f", "--foreground", action="store_true", help="stay in the foreground")
    parser.add_argument("-d", "--debug", action="store_true", help="log everything")
    parser.add_argument("--syslog", nargs="?", const="yes", default="no", choices=("no", "yes", "only"))
    parser.add_argument("--no-user-checks", action="store_true", help="run as whatever user this is")
    parser.add_argument("-p", "--port", type=int, default=None)
    parser.add_argument("-b", "--bind", default=None, metavar="ADDRESS")
    return parser


def parse_options(name: str, arguments: Sequence[str], parser: argparse.ArgumentParser | None = None) -> Options:
    return (parser or daemon_parser(name)).parse_args(arguments)


def run_daemon(
    name: str,
    options: Options,
    main: Callable[[Daemon], Awaitable[None]],
    before_loop: Callable[[Environment], None] | None = None,
) -> int:
    """Run *main* as a daemon until it returns; gives the exit status of this process."""
    environment = read_environment()
    report = _Report()
    if not options.foreground and (status := _leave_terminal(report)) is not None:
        return status
    try:
        os.makedirs(environment.paths.run_dir, mode=0o775, exist_ok=True)
        pid_file = PidFile(environment.paths.pid_file(name))
        os.makedirs(environment.paths.log_dir, mode=0o770, exist_ok=True)
        set_up_logs(
            name,
            environment.paths.log_dir,
            debug=options.debug,
            foreground=options.foreground,
            syslog=options.syslog != "no",
        )
        if before_loop is not None:
            before_loop(environment)
    except (OSError, GanetiError) as err:
        return _refuse(name, report, err)
    except Exception as err:
        return _refuse_by_fault(name, report, err)
    daemon = Daemon(name, options, environment, report)
    try:
        asyncio.run(_supervise(daemon, main), debug=False)
    except (OSError, GanetiError) as err:
        return _refuse(name, report, err)
    except Exception as err:
        return _refuse_by_fault(name, report, err)
    finally:
        pid_file.remove()
    _log.info("%s has ended", name)
    return daemon.status


async def _supervise(daemon: Daemon, main: Callable[[Daemon], Awaitable[None]]) -> None:
    """Run *main*. Told to stop while it starts, which may take long (a vote, another daemon), it just ends."""
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(main(daemon))

    def stop() -> None:
        daemon.stopping.set()
        if not daemon.is_ready:
            work.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, daemon.hang_up)
    _log.info("%s starts", daemon.name)
    try:
        await work
    except asyncio.CancelledError:
        if not daemon.stopping.is_set():
            raise
        raise DaemonRefused("it was told to stop while it started") from None


def _refuse(name: str, report: "_Report", err: Exception) -> int:
    status = err.status if isinstance(err, DaemonRefused) else EXIT_FAILURE
    if isinstance(err, DeposedError):
        status = err.exit_status
    _log.error("%s does not run: %s", name, err)
    report.send(status, f"{name}: {err}")
    return status


def _refuse_by_fault(name: str, report: "_Report", err: Exception) -> int:
    _log.exception("%s ends because of a fault of its own: %s", name, err)
    return _refuse(name, report, GanetiError(f"a fault of its own: {err}; see the log"))


class PidFile:
    """Holds the daemon's process id, and a lock on itself for as long as the daemon lives.

    Forked children let go of the lock, so that it says nothing but whether the daemon lives.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = self._open_and_lock()
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())
        os.register_at_fork(after_in_child=self._close)

    def remove(self) -> None:
        """Remove the file while it is still locked, then let go."""
        os.unlink(self._path)
        self._close()

    def _open_and_lock(self) -> int:
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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


def _lock(descriptor: int) -> None:
    """Lock, and let pass who only looks whether the daemon runs; raises `BlockingIOError` if one does."""
    deadline = time.monotonic() + _LOOKS_PASS_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_LOOK_S)


class _Report:
    """How the start went: one line through a pipe to the starting process, or to standard error."""

    def __init__(self) -> None:
        self.write_end = -1

    def send(self, status: int, sentence: str) -> None:
        if self.write_end >= 0:
            os.write(self.write_end, f"{status} {sentence}".encode())
            os.close(self.write_end)
            self.write_end = -1
        elif sentence:
            print(sentence, file=sys.stderr)


def _leave_terminal(report: _Report) -> int | None:
    """Fork twice; None in the daemon, the exit status in the process that waited for it."""
    read_end, report.write_end = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child:
        os.close(report.write_end)
        os.waitpid(child, 0)
        with os.fdopen(read_end, "rb") as stream:
            status, _, sentence = stream.read().decode(errors="replace").partition(" ")
        if sentence:
            print(sentence, file=sys.stderr)
        return int(status) if status.isdigit() else EXIT_FAILURE
    os.close(read_end)
    os.setsid()
    if os.fork():
        _exit_at_once()
    os.chdir("/")
    os.umask(0o027)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    return None


def _exit_at_once() -> NoReturn:
    os._exit(0)
