# SPDX-License-Identifier: BSD-2-Clause
"""The command line that the node set-up helpers share: JSON on standard input, words on standard error (S3)."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from ganeti.base.errors import GanetiError
from ganeti.bootstrap.machine import Machine


class Work(Protocol):
    def __call__(self, data: bytes, machine: Machine, *, dry_run: bool = False) -> None: ...


def run(name: str, purpose: str, work: Work, arguments: Sequence[str] | None = None) -> int:
    """Read standard input to its end, do *work*, say what went wrong in one sentence; gives the exit status."""
    parser = argparse.ArgumentParser(prog=name, description=purpose)
    parser.add_argument("--dry-run", action="store_true", help="check the input and change nothing")
    parser.add_argument("-d", "--debug", action="count", default=0, help="say everything")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say what is being done")
    options = parser.parse_args(arguments)
    machine = this_machine(name, loud=bool(options.debug or options.verbose or options.dry_run))
    try:
        work(sys.stdin.buffer.read(), machine, dry_run=options.dry_run)
    except (GanetiError, OSError) as err:
        print(f"{name}: {err}", file=sys.stderr)
        return 1
    return 0


def this_machine(name: str, *, loud: bool) -> Machine:
    say: Callable[[str], None] = (lambda line: print(f"{name}: {line}", file=sys.stderr)) if loud else (lambda _: None)
    return Machine(os.environ.get("GANETI_ROOTDIR", "").rstrip("/"), os.environ.get("GANETI_HOSTNAME", ""), say)
