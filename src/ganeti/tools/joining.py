# SPDX-License-Identifier: BSD-2-Clause
"""The command line that the node set-up helpers share: JSON on standard input, words on standard error (S3)."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import IO, Protocol

from ganeti.base.errors import CommandError, GanetiError
from ganeti.bootstrap.machine import Machine, last_lines
from ganeti.tools import daemon_util
from ganeti.tools.node_daemons import Node


class Work(Protocol):
    def __call__(self, data: bytes, machine: Machine, *, dry_run: bool = False) -> None: ...


_HIGHEST_DESCRIPTOR = 256
Conversation = Callable[[Machine, IO[bytes], IO[bytes]], None]


def run(
    name: str,
    purpose: str,
    work: Work,
    arguments: Sequence[str] | None = None,
    *,
    conversation: Conversation | None = None,
) -> int:
    """Read standard input to its end, do *work*, say what went wrong in one sentence; gives the exit status.

    With ``--join``, where there is a *conversation*, that is held in place of *work*.
    """
    parser = argparse.ArgumentParser(prog=name, description=purpose)
    parser.add_argument("--dry-run", action="store_true", help="check the input and change nothing")
    parser.add_argument("-d", "--debug", action="count", default=0, help="say everything")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say what is being done")
    if conversation is not None:
        says = "set up everything as the master on standard input says, and wait until it has taken this machine in"
        parser.add_argument("--join", action="store_true", help=says)
    options = parser.parse_args(arguments)
    machine = this_machine(name, loud=bool(options.debug or options.verbose or options.dry_run))
    try:
        if conversation is not None and options.join:
            _converse(conversation, machine)
            return 0
        work(sys.stdin.buffer.read(), machine, dry_run=options.dry_run)
    except (GanetiError, OSError) as err:
        print(f"{name}: {err}", file=sys.stderr)
        return 1
    return 0


def _converse(conversation: Conversation, machine: Machine) -> None:
    """Daemons and other programs that are started here must not print into the conversation."""
    with open(os.dup(1), "wb") as said:
        os.dup2(2, 1)
        conversation(machine, sys.stdin.buffer, said)


class _ThisMachine(Machine):
    """Starts and stops daemons without another interpreter."""

    def leave_behind(self, work: Callable[[], None]) -> None:
        """Standard output and its copies are closed in the process: ssh waits for their end."""
        if os.fork():
            return
        try:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nothing, descriptor)
            os.closerange(3, _HIGHEST_DESCRIPTOR)
            work()
        finally:
            os._exit(0)

    def daemon_util(self, *words: str, timeout_s: float = 120.0) -> None:
        """Raises `CommandError` with what was printed, by the daemon, too."""
        node = Node(os.path.dirname(os.path.realpath(self.program("daemon-util"))))
        kept = os.dup(2)
        with tempfile.TemporaryFile() as printed:
            os.dup2(printed.fileno(), 2)
            try:
                status = daemon_util.run(words, node)
                sys.stderr.flush()
            finally:
                os.dup2(kept, 2)
                os.close(kept)
            printed.seek(0)
            text = printed.read().decode(errors="replace")
        if status:
            raise CommandError(f"daemon-util failed: {last_lines(text) or f'exit status {status}'}")


def this_machine(name: str, *, loud: bool) -> Machine:
    say: Callable[[str], None] = (lambda line: print(f"{name}: {line}", file=sys.stderr)) if loud else (lambda _: None)
    return _ThisMachine(os.environ.get("GANETI_ROOTDIR", "").rstrip("/"), os.environ.get("GANETI_HOSTNAME", ""), say)
