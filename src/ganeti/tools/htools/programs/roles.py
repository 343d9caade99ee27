# SPDX-License-Identifier: BSD-2-Clause
"""One program that is every placement tool: by ``$HTOOLS``, the name it is called by, or the first word."""

from __future__ import annotations

import gc
import os
import sys

from ganeti.tools.htools.command_line.parsing import parse
from ganeti.tools.htools.command_line.tools import TOOLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_UNKNOWN_ROLE = 1
PROGRAM = "htools"
_ANSWERS_ONCE = frozenset(("hail",))


def main() -> int:
    """Be the tool that is asked for; gives the exit status."""
    words = sys.argv[1:]
    role = os.environ.get("HTOOLS")
    if role is None:
        role = os.path.basename(sys.argv[0])
        if role == PROGRAM and words[:1] and words[0] in TOOLS:
            role = words.pop(0)
    role = role.lower()
    if role not in TOOLS:
        sys.stderr.write(_unknown(role))
        return EXIT_UNKNOWN_ROLE
    if role in _ANSWERS_ONCE:
        gc.disable()  # it builds one picture and ends: looking for garbage in it costs a fifth of the whole
    return run(role, words)


def run(tool: str, arguments: Sequence[str] | None = None) -> int:
    """Run one tool; only one that has work to do is loaded. Gives the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    parse(tool, words)  # answers --help and its like, and bad lines
    from importlib import import_module

    return int(import_module(f"ganeti.tools.htools.programs.{tool}").main(words))


def _unknown(role: str) -> str:
    width = max(map(len, TOOLS))
    lines = [f"Unrecognised personality '{role}'.", "This program must be installed under one of the following names:"]
    lines += [f" {name:{width}} - {tool.purpose}" for name, tool in TOOLS.items()]
    lines += [
        "",
        "Error: Link the program to one of these names, name the tool in the first word, or in the environment "
        "variable HTOOLS.",
    ]
    return "\n".join(lines) + "\n"
