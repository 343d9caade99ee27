# SPDX-License-Identifier: BSD-2-Clause
"""Declaring commands: the words of the command line, next to what they do (D1).

An operation's declaration carries a `Command`; commands that are no job declare theirs in `cli/commands/`. The
build gathers all of them into one generated table per program (`cli/tables/`), so that a command starts without
importing any declaration. Standard library only.
"""

from dataclasses import dataclass
from typing import Any

OPTION_KINDS = (
    "flag",  # no value; stores Option.value
    "string",
    "int",
    "float",
    "ratio",  # a number, or default
    "natural",  # an int that is not negative
    "amount",  # a float that is not negative
    "size",  # MiB, with units
    "duration",  # seconds, with units
    "yesno",  # yes/no -> bool
    "list",  # comma list -> list of str
    "nodes",  # PRIMARY[:SECONDARY], or with a comma -> list of str
    "keyvalues",  # k=v,no_k,-k -> dict ("default" resets)
    "name-yesno",  # NAME=yes,... -> {name: bool}
    "name-seconds",  # NAME=5.0,... -> {name: microseconds}
    "ident-keyvalues",  # IDENT:k=v,... -> {ident: dict}; repeatable
    "disks",  # --disk N:k=v,... repeatable -> list of dicts by index
    "disk-mods",  # --disk N:action,k=v -> mods list
    "nics",  # --net N:k=v,... repeatable -> list of dicts by index
    "nic-mods",
    "json",
    "capacity",  # what capacity is counted in -> dict
    "count",  # no value; how often it was given
    "ranges",  # 1000,2000-2010 -> list of (low, high)
    "bounds",  # min:k=v/max:k=v//... -> list of {"min": dict, "max": dict}
    "disk-state",  # TEMPLATE/NAME:k=v,... -> {template: {name: dict}}; repeatable
)


@dataclass(frozen=True)
class Option:
    """One option: `flags` as typed, `field` the opcode parameter (or handler keyword) it sets.

    A field with a dot, such as ``ipolicy.std``, sets one entry of a dictionary.
    """

    flags: tuple[str, ...]
    field: str
    kind: str = "string"
    help: str = ""
    value: Any = True
    """What a ``flag`` stores."""
    default: Any = None
    choices: tuple[str, ...] = ()
    metavar: str = ""
    repeatable: bool = False
    """May be given several times; values are collected into a list."""


@dataclass(frozen=True)
class Argument:
    """Positional words: from *minimum* to *maximum* of them (None: no end)."""

    field: str
    metavar: str
    minimum: int = 1
    maximum: int | None = 1
    kind: str = "string"
    """One of `OPTION_KINDS` that takes a value."""
    subject: str = ""
    """What it names, such as ``instance``: a question about it shows the full name."""


@dataclass(frozen=True)
class Command:
    """One subcommand. Without a *handler*, it submits its operation as a job and waits.

    One that stands at an operation takes arguments and options from the operation's parameters: its *arguments* may be
    names of parameters, *parameters* limits which are offered as options, and *options* are those that are none.
    *handler* is ``module:function`` below `ganeti.cli.commands`; it is called with the parsed values.
    """

    line: str
    """Program and subcommand, such as ``gnt-instance failover``."""
    summary: str
    arguments: tuple["Argument | str", ...] = ()
    options: tuple[Option, ...] = ()
    aliases: tuple[str, ...] = ()
    handler: str = ""
    confirm: str = ""
    """Question asked unless ``--force`` is given; names of arguments in braces are filled in."""
    is_job: bool = True
    """Takes --submit, --print-jobid, --dry-run, --priority."""
    op_id: str = ""
    """Filled in by the operation's declaration."""
    needs_root: bool = False
    needs_master: bool = True
    environment: bool = False
    """Takes default options from ``PROGRAM_COMMAND`` of the environment, such as ``GNT_INSTANCE_LIST``."""
    modifies: str = ""
    """What it changes parameters of, such as ``node group``: at least one must be given, and the new ones are shown."""
    sends: tuple[tuple[str, Any], ...] = ()
    """Parameters and the values that are sent where no option gives another, and the master's default is not meant."""
    parameters: tuple[str, ...] | None = None
    """Those of its operation that are offered as options; all that have flags, without it."""
    confirm_for: tuple[tuple[str, str], ...] = ()
    """Fields and the question that is asked in place of `confirm` where one is given, such as ``cleanup``."""
    excludes: tuple[tuple[str, str, str], ...] = ()
    """Pairs of options, by a flag of each, that are not given together, with what to do instead."""


ASSUME_YES = Option(("-f", "--force"), "assume_yes", "flag", "do not ask")
"""Every command with a question takes it."""
PRIORITY = Option(
    ("--priority",), "priority", help="priority of the job", choices=("low", "normal", "high"), metavar="PRIORITY"
)
NODE_GROUP = Option(("-g", "--node-group"), "group", help="nodes of this group only", metavar="GROUP")
DRY_RUN = Option(("--dry-run",), "dry_run", "flag", "check only, change nothing")
SUBMIT = Option(("--submit",), "submit", "flag", "submit the job and do not wait for it")
PRINT_JOBID = Option(("--print-jobid",), "print_jobid", "flag", "print the job's id as the first line")
"""Options of jobs, for commands that take some of them only."""
