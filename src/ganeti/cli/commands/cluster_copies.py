# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster backup, restore, history and shadow: each becomes the program that reads and writes the files itself.

None of them asks the master daemon: they must work where it does not run.
"""

from __future__ import annotations

import os
import sys

from ganeti.cli.failures import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from ganeti.cli.invocation import Invocation


def backup(call: Invocation) -> NoReturn:
    words = ["--verify"] if call.get("verify") else []
    keep = call.get("keep")
    words += [] if keep is None else ["--keep", str(keep)]
    _become("cluster-backup", ["backup", *words, "--", call.values["path"]])


def restore(call: Invocation) -> NoReturn:
    words = ["--yes-do-it"] if call.get("yes_do_it") else []
    _become("cluster-backup", ["restore", *words, "--", call.values["path"]])


def history(call: Invocation) -> NoReturn:
    words = [word for name in ("at", "limit") if (word := call.get(name)) is not None]
    flags = [f"--{name}" for name in ("at", "limit") if call.get(name) is not None]
    pairs = [str(part) for pair in zip(flags, words, strict=True) for part in pair]
    _become("config-history", [*pairs, "--", *(call.values["objects"] or [])])


def shadow(call: Invocation) -> NoReturn:
    _become("take-over", ["shadow", "--", call.values["directory"]])


def _become(name: str, words: Sequence[str]) -> NoReturn:
    program = os.path.join(os.path.dirname(os.path.realpath(sys.argv[0])), name)
    if not os.access(program, os.X_OK):
        raise Failure(f"The program {program} is missing: install this release again")
    os.execv(program, [program, *words])  # noqa: S606
