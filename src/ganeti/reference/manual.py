# SPDX-License-Identifier: BSD-2-Clause
"""The manual pages of the package, in roff, from the same declarations as each program's help."""

import contextlib
import importlib
import io
import sys
from collections.abc import Iterator
from itertools import groupby

from ganeti.base.version import RELEASE
from ganeti.cli.help import command_help
from ganeti.cli.table import CommandRow
from ganeti.tools.htools.command_line.help import explanation, spelling
from ganeti.tools.htools.command_line.options import options_of
from ganeti.tools.htools.command_line.tools import TOOLS

_PURPOSES = {
    "gnt-backup": "exports of instances",
    "gnt-cluster": "the cluster as a whole: making, changing, verifying it",
    "gnt-debug": "for those who look into the cluster itself",
    "gnt-filter": "rules for which jobs may run",
    "gnt-group": "node groups",
    "gnt-instance": "instances: the virtual servers",
    "gnt-job": "jobs and their queue",
    "gnt-network": "networks of instances and their address pools",
    "gnt-node": "nodes of the cluster",
    "gnt-os": "operating systems that instances can get",
    "gnt-storage": "providers of storage",
}


def client_page(program: str) -> str:
    """The page of one of the ``gnt-*`` programs, section 8."""
    rows = importlib.import_module(f"ganeti.cli.tables.{program.replace('-', '_')}").COMMANDS
    lines = [
        *_head(program, 8, _PURPOSES.get(program, "part of Ganeti")),
        f"\\fB{_text(program)}\\fR COMMAND [options]",
    ]
    lines.append(".SH COMMANDS")
    for row in rows:
        command = CommandRow(program, row)
        lines += [f".SS {_text(command.name)}", *_verbatim(command_help(command))]
    lines += [".SH EXIT STATUS", "0 on success, 1 on failure; 5: there is no cluster; 11: this node is not the master."]
    return _whole(lines)


def program_page(program: str, module: str) -> str:
    """The page of a daemon or helper, section 8: what the module is for, and the help it prints."""
    loaded = importlib.import_module(module)
    printed, words = io.StringIO(), sys.argv
    try:
        sys.argv = [program, "--help"]
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            loaded.main()
    finally:
        sys.argv = words
    purpose = (loaded.__doc__ or "").partition(":")[2].partition("(")[0].strip().rstrip(".")
    return _whole([*_head(program, 8, purpose), *_verbatim(printed.getvalue())])


def tool_page(tool: str) -> str:
    """The page of a placement tool, section 1."""
    if tool == "htools":
        names = ", ".join(TOOLS)
        lines = [*_head(tool, 1, "the placement tools"), "\\fBHTOOLS\\fR=NAME \\fBhtools\\fR [options]"]
        return _whole([*lines, ".SH DESCRIPTION", f"Runs the tool that the environment variable names: {names}."])
    declared = TOOLS[tool]
    lines = [*_head(tool, 1, declared.purpose.rstrip(".")), f"\\fB{tool}\\fR [options] {_text(declared.arguments)}"]
    lines.append(".SH OPTIONS")
    for group, options in groupby(options_of(tool), lambda option: option.group):
        lines.append(f".SS {_text(group)}")
        for option in options:
            lines += [".TP", f"\\fB{_text(spelling(option).strip())}\\fR", _text(explanation(option))]
    return _whole(lines)


def _head(program: str, section: int, purpose: str) -> list[str]:
    title = f'.TH {program.upper()} {section} "" "Ganeti {RELEASE}" "Ganeti"'
    return [title, ".SH NAME", f"{_text(program)} \\- {_text(purpose)}", ".SH SYNOPSIS"]


def _verbatim(text: str) -> Iterator[str]:
    yield ".nf"
    yield from map(_text, text.rstrip("\n").splitlines())
    yield ".fi"


def _text(text: str) -> str:
    """Text that roff shows as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return f"\\&{text}" if text[:1] in (".", "'") else text


def _whole(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
