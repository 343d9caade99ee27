# SPDX-License-Identifier: BSD-2-Clause
"""One program that is every placement tool: by ``$HTOOLS``, the name it is called by, or the first word."""

from __future__ import annotations

import gc
import os
import sys

from ganeti.tools.htools.command_line.parsing import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_UNKNOWN_ROLE = 1
PROGRAM = "htools"
ROLES = {
    "hail": (
        "Ganeti IAllocator plugin that implements the instance placement and",
        "movement using the same algorithm as hbal(1)",
    ),
    "harep": (
        "auto-repair tool that detects certain kind of problems with",
        "instances and applies the allowed set of solutions",
    ),
    "hbal": (
        "cluster balancer that looks at the current state of the cluster and",
        "computes a series of steps designed to bring the cluster into a",
        "better state",
    ),
    "hcheck": (
        "cluster checker; prints information about cluster's health and",
        "checks whether a rebalance done using hbal would help",
    ),
    "hinfo": (
        "cluster information printer; it prints information about the current",
        "cluster state and its residing nodes/instances",
    ),
    "hroller": (
        "cluster rolling maintenance helper; it helps scheduling node reboots",
        "in a manner that doesn't conflict with the instances' topology",
    ),
    "hscan": (
        "tool for scanning clusters via RAPI and saving their data in the",
        "input format used by hbal(1) and hspace(1)",
    ),
    "hspace": (
        "computes how many additional instances can be fit on a cluster,",
        "while maintaining N+1 status.",
    ),
    "hsqueeze": (
        "cluster dynamic power management;  it powers up and down nodes to",
        "keep the amount of free online resources in a given range",
    ),
}
"""What each is for, in lines."""
_WRITTEN = frozenset(("hail", "harep", "hbal", "hcheck", "hinfo", "hroller", "hscan", "hspace", "hsqueeze"))
_ANSWERS_ONCE = frozenset(("hail",))


def main() -> int:
    """Be the tool that is asked for; gives the exit status."""
    words = sys.argv[1:]
    role = os.environ.get("HTOOLS")
    if role is None:
        role = os.path.basename(sys.argv[0])
        if role == PROGRAM and words[:1] and words[0] in ROLES:
            role = words.pop(0)
    role = role.lower()
    if role not in ROLES:
        sys.stderr.write(_unknown(role))
        return EXIT_UNKNOWN_ROLE
    if role in _ANSWERS_ONCE:
        gc.disable()  # it builds one picture and ends: looking for garbage in it costs a fifth of the whole
    return run(role, words)


def run(tool: str, arguments: Sequence[str] | None = None) -> int:
    """Run one tool; only one that has work to do is loaded. Gives the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    parse(tool, words)  # answers --help and its like, and bad lines
    if tool not in _WRITTEN:
        sys.stderr.write(f"Error: {tool} is not part of this release yet.\n")
        return EXIT_UNKNOWN_ROLE
    from importlib import import_module

    return int(import_module(f"ganeti.tools.htools.programs.{tool}").main(words))


def _unknown(role: str) -> str:
    width = max(map(len, ROLES))
    lines = [f"Unrecognised personality '{role}'.", "This program must be installed under one of the following names:"]
    for name, description in ROLES.items():
        lines.append(f" {name:{width}} - {description[0]}")
        lines.extend(f" {'':{width}}   {more}" for more in description[1:])
    lines += [
        "",
        "Error: Please either rename/symlink the program or set",
        "the environment variable HTOOLS to the desired role.",
    ]
    return "\n".join(lines) + "\n"
