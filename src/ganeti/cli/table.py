# SPDX-License-Identifier: BSD-2-Clause
"""Rows of the generated tables, as objects with names.

A table is one literal of nested tuples, so that the compiler keeps it as a single constant: loading a program's whole
command line is one read of the byte-code file. Only the row of the command that runs is unpacked.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class OptionRow:
    """One option of a command; the fields are those of `ganeti.base.command.Option`."""

    __slots__ = ("choices", "default", "field", "flags", "help", "kind", "metavar", "repeatable", "value")

    def __init__(self, row: tuple[Any, ...]) -> None:
        self.flags: tuple[str, ...] = row[0]
        self.field: str = row[1]
        self.kind: str = row[2]
        self.help: str = row[3]
        self.value: Any = row[4]
        self.default: Any = row[5]
        self.choices: tuple[str, ...] = row[6]
        self.metavar: str = row[7]
        self.repeatable: bool = row[8]


class ArgumentRow:
    """Positional words of a command."""

    __slots__ = ("field", "kind", "maximum", "metavar", "minimum", "subject")

    def __init__(self, row: tuple[Any, ...]) -> None:
        self.field: str = row[0]
        self.metavar: str = row[1]
        self.minimum: int = row[2]
        self.maximum: int | None = row[3]
        self.kind: str = row[4]
        self.subject: str = row[5]


class CommandRow:
    """One subcommand; the fields are those of `ganeti.base.command.Command`."""

    __slots__ = (
        "aliases",
        "arguments",
        "confirm",
        "confirm_for",
        "environment",
        "excludes",
        "handler",
        "is_job",
        "modifies",
        "name",
        "needs_master",
        "needs_root",
        "op_id",
        "options",
        "program",
        "sends",
        "summary",
    )

    def __init__(self, program: str, row: tuple[Any, ...]) -> None:
        self.program = program
        self.name: str = row[0]
        self.summary: str = row[1]
        self.arguments = [ArgumentRow(part) for part in row[2]]
        self.options = [OptionRow(part) for part in row[3] + COMMON_OPTIONS]
        self.aliases: tuple[str, ...] = row[4]
        self.handler: str = row[5]
        self.confirm: str = row[6]
        self.is_job: bool = row[7]
        self.op_id: str = row[8]
        self.needs_root: bool = row[9]
        self.needs_master: bool = row[10]
        self.environment: bool = row[11]
        self.modifies: str = row[12]
        self.sends: tuple[tuple[str, Any], ...] = row[13]
        self.confirm_for: tuple[tuple[str, str], ...] = row[14]
        self.excludes: tuple[tuple[str, str, str], ...] = row[15]
        if self.is_job:
            own = {flag for option in self.options for flag in option.flags}
            self.options += [OptionRow(part) for part in JOB_OPTIONS if part[0][0] not in own]

    @property
    def line(self) -> str:
        return f"{self.program} {self.name}"


def _flag(flags: tuple[str, ...], field: str, text: str) -> tuple[Any, ...]:
    return (flags, field, "flag", text, True, None, (), "", False)


COMMON_OPTIONS: tuple[tuple[Any, ...], ...] = (
    (("-d", "--debug"), "debug", "count", "show more of what happens; errors with their origin", 1, 0, (), "", True),
    (("--reason",), "reason", "string", "why this is done; kept with the job", None, None, (), "TEXT", False),
    _flag(("-h", "--help"), "help", "show this text"),
)
JOB_OPTIONS: tuple[tuple[Any, ...], ...] = (
    _flag(("--submit",), "submit", "submit the job and do not wait for it"),
    _flag(("--print-jobid",), "print_jobid", "print the job's id as the first line"),
    _flag(("--dry-run",), "dry_run", "check only, change nothing"),
    _flag(("--plan",), "plan", "say what would be done, and by which jobs; change nothing"),
    (
        ("--priority",),
        "priority",
        "string",
        "priority of the job",
        None,
        None,
        ("low", "normal", "high"),
        "PRIORITY",
        False,
    ),
)
COMMON_FIELDS = frozenset(("debug", "reason", "help", "submit", "print_jobid", "dry_run", "plan", "priority"))
"""Values that say how to submit; all others are parameters."""
