# SPDX-License-Identifier: BSD-2-Clause
"""What all daemons share: options, pid file, going into the background, signals, logs.

    def main() -> int:
        options = parse_options("ganeti-xyzd", sys.argv[1:])       # or with your own parser's extra options
        return run_daemon("ganeti-xyzd", options, serve)

    async def serve(daemon: Daemon) -> None:
        ...set up; raise GanetiError, or DaemonRefused(sentence, exit status), to refuse the start
        daemon.ready()                # only now does the command that started the daemon return, with status 0
        await daemon.stopping.wait()  # SIGTERM, SIGINT, DEPOSED
        ...tear down

The starting process waits for `ready()` or the refusal, prints the sentence and takes the exit status over. SIGHUP
reopens the log and calls `daemon.on_hangup` if set. The pid file is locked while the daemon lives: a second one is
refused. `before_loop` of `run_daemon` runs in the daemon's process before there is an event loop or a thread (a
spawner is forked there).

Invariant: from the moment the pid file is locked until it is gone again, no signal but SIGKILL ends the daemon without
a word. So a caller whose daemon is ended as that of a former master learns just that, at any point of the start.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from types import FrameType

from ganeti.base.errors import (
    EXIT_FAILURE,
    EXIT_NOT_MASTER,
    INTERNAL_ERROR,
    DeposedError,
    GanetiError,
    refusal_of_system,
)
from ganeti.system.accounts import LOG_DIR_MODE, RUN_DIR_MODE, make_shared_directory
from ganeti.system.environment import Environment, read_environment
from ganeti.system.logs import reopen_logs, set_up_logs
from ganeti.system.pause_points import reach
from ganeti.system.pid_file import DaemonRefused as DaemonRefused
from ganeti.system.pid_file import DirectoryHold, PidFile

_log = logging.getLogger(__name__)
_PID_FILE_S = 5.0
"""Who finds a daemon by its pid file shall find it again so soon after somebody has removed that."""

DEPOSED = signal.SIGUSR1
"""Ends a daemon as SIGTERM does, because this node is the master no longer: that is its exit status then."""

Options = argparse.Namespace


class Daemon:
    """Handed to a daemon's main coroutine."""

    def __init__(
        self, name: str, options: Options, environment: Environment, report: "_Report", pid_file: PidFile
    ) -> None:
        self.name = name
        self.pid_file = pid_file
        self.options = options
        self.environment = environment
        self.log = logging.getLogger(name)
        self.stopping = asyncio.Event()
        self.on_hangup: Callable[[], None] | None = None
        self.status = 0
        self.is_ready = False
        self._report = report
        self._hold: DirectoryHold | None = None

    def ready(self) -> None:
        """The daemon serves: let the command that started it return."""
        _log.info("%s is ready", self.name)
        self.is_ready = True
        self._report.send(0, "")

    def stop_with(self, status: int) -> None:
        """End as if told to by a signal, with this exit status."""
        self.status = status
        self.stopping.set()

    def hold_alone(self, directory: str) -> None:
        """Raise `DaemonRefused` while another daemon of this kind works on *directory*, whose pid file is gone."""
        self._hold = DirectoryHold(self.name, directory)

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
    _open_standard_descriptors()
    environment = read_environment()
    report = _Report()
    if not options.foreground:
        _leave_terminal(name, report)
    early = _EarlySignals()
    try:
        make_shared_directory(environment.paths.run_dir, RUN_DIR_MODE)
        pid_file = PidFile(environment.paths.pid_file(name))
    except (OSError, GanetiError) as err:
        return _refuse(name, report, err)
    daemon = Daemon(name, options, environment, report, pid_file)
    try:
        failure = _live(daemon, main, before_loop, early)
    finally:
        pid_file.remove()  # first: a caller that hears of the end may start the daemon again
    if failure is not None:
        return _refuse(name, report, failure)
    _log.info("%s has ended", name)
    return daemon.status


def _live(
    daemon: Daemon,
    main: Callable[[Daemon], Awaitable[None]],
    before_loop: Callable[[Environment], None] | None,
    early: "_EarlySignals",
) -> Exception | None:
    """Gives why it could not, or did not end as it should."""
    environment, options = daemon.environment, daemon.options
    try:
        make_shared_directory(environment.paths.log_dir, LOG_DIR_MODE)
        set_up_logs(
            daemon.name,
            environment.paths.log_dir,
            debug=options.debug,
            foreground=options.foreground,
            syslog=options.syslog != "no",
        )
        reach(f"{daemon.name}-locked")
        if before_loop is not None:
            before_loop(environment)
        asyncio.run(_supervise(daemon, main, early), debug=False)
    except (OSError, GanetiError) as err:
        return err
    except Exception as err:
        _log.exception("%s ends because of %s: %s", daemon.name, INTERNAL_ERROR, err)
        return GanetiError(f"{INTERNAL_ERROR}: {err}; see the log")
    return None


async def _supervise(daemon: Daemon, main: Callable[[Daemon], Awaitable[None]], early: "_EarlySignals") -> None:
    """Run *main*. Told to stop while it starts, which may take long (a vote, another daemon), it just ends."""
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(main(daemon))

    def stop() -> None:
        daemon.stopping.set()
        if not daemon.is_ready:
            work.cancel()

    def end_as_deposed() -> None:
        daemon.status = EXIT_NOT_MASTER
        _log.warning("%s ends: this node is the master no longer", daemon.name)
        stop()

    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, DEPOSED: end_as_deposed, signal.SIGHUP: daemon.hang_up}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    for number in early.came:
        handlers[number]()
    _log.info("%s starts", daemon.name)
    reach(f"{daemon.name}-starting")
    keeping = asyncio.ensure_future(_keep_pid_file(daemon))
    try:
        await work
    except asyncio.CancelledError:
        if not daemon.stopping.is_set():
            raise
    except (OSError, GanetiError) as err:
        if daemon.is_ready or daemon.status != EXIT_NOT_MASTER:
            raise
        _log.info("%s failed as it ended: %s", daemon.name, err)
    finally:
        keeping.cancel()
        # The loop's end gives signals their defaults back. No process is started any more that would inherit this.
        signal.pthread_sigmask(signal.SIG_BLOCK, handlers)
    if not daemon.is_ready:
        raise _ended_early(daemon)


async def _keep_pid_file(daemon: Daemon) -> None:
    """Put it back where somebody has removed it: else nobody could stop the daemon, and a second one might start."""
    while True:
        await asyncio.sleep(_PID_FILE_S)
        try:
            if daemon.pid_file.keep():
                _log.warning("the pid file was removed while %s ran: it is there again", daemon.name)
        except (OSError, DaemonRefused) as err:
            _log.debug("the pid file cannot be put back now: %s", err)


def _ended_early(daemon: Daemon) -> DaemonRefused:
    if daemon.status == EXIT_NOT_MASTER:
        return DaemonRefused("this node stopped being the master while it started", EXIT_NOT_MASTER)
    if daemon.stopping.is_set():
        return DaemonRefused("it was stopped while it started")
    return DaemonRefused("it ended before it served; see its log")


class _EarlySignals:
    """Notes what comes before the event loop listens. A program that is started meanwhile has its defaults."""

    def __init__(self) -> None:
        self.came: list[signal.Signals] = []
        for number in (signal.SIGTERM, signal.SIGINT, DEPOSED, signal.SIGHUP):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came.append(signal.Signals(number))


def _refuse(name: str, report: "_Report", err: Exception) -> int:
    status = err.status if isinstance(err, DaemonRefused) else EXIT_FAILURE
    if isinstance(err, DeposedError):
        status = err.exit_status
    sentence = refusal_of_system(err) if isinstance(err, OSError) else str(err)
    _log.error("%s does not run: %s", name, sentence)
    report.send(status, f"{name}: {sentence}")
    return status


class _Report:
    """How the start went: one line through a pipe to the starting process, or to standard error."""

    def __init__(self) -> None:
        self.write_end = -1

    def send(self, status: int, sentence: str) -> None:
        """The starting process may have been killed meanwhile: the daemon goes on without it."""
        try:
            self._send(status, sentence)
        except BrokenPipeError:
            _log.warning("The command that started this daemon has ended before it heard how the start went")

    def _send(self, status: int, sentence: str) -> None:
        if self.write_end >= 0:
            descriptor, self.write_end = self.write_end, -1
            try:
                os.write(descriptor, f"{status} {sentence}".encode())
            finally:
                os.close(descriptor)
        elif sentence:
            print(sentence, file=sys.stderr, flush=True)


def _open_standard_descriptors() -> None:
    """Where a starter has closed them, a file or pipe of the daemon's own would get their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _leave_terminal(name: str, report: _Report) -> None:
    """Fork twice, and return in the daemon; the starting process waits for it, and ends with its status."""
    read_end, report.write_end = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child:
        os.close(report.write_end)
        os.waitpid(child, 0)
        with os.fdopen(read_end, "rb") as stream:
            told = (
                stream.read().decode(errors="replace")
                or f"{EXIT_FAILURE} {name}: it died while it started; see its log"
            )
        status, _, sentence = told.partition(" ")
        if sentence:
            print(sentence, file=sys.stderr, flush=True)
        os._exit(int(status))  # taking all modules apart first lasts as long as a quarter of the start
    os.close(read_end)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.umask(0o027)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
