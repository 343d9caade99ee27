# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster backup, restore, history, undo, shadow: each becomes the program that reads and writes the files.

But for `undo`, none asks the master daemon: they must work where it does not run.
"""

from __future__ import annotations

import os
import sys

from ganeti.base.terminal import SPEAKER
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
    given = [(name, value) for name in ("at", "limit") if (value := call.get(name)) is not None]
    words = [word for name, value in given for word in (f"--{name}", str(value))]
    _become("config-history", [*words, "--", *(call.values["objects"] or [])])


def undo(call: Invocation) -> NoReturn:
    words = ["--dry-run"] if call.get("only_show") else []
    _become("config-history", ["--undo", call.values["commit"], *words])


def shadow(call: Invocation) -> NoReturn:
    text = call.get("text_data")
    _become("take-over", ["shadow", *([f"--text-data={text}"] if text else []), "--", call.values["directory"]])


def _become(name: str, words: Sequence[str]) -> NoReturn:
    program = os.path.join(os.path.dirname(os.path.realpath(sys.argv[0])), name)
    if not os.access(program, os.X_OK):
        raise Failure(f"The program {program} is missing: install this release again")
    os.environ[SPEAKER] = "Failure"
    os.execv(program, [program, *words])  # noqa: S606
