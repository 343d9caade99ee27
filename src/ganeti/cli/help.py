# SPDX-License-Identifier: BSD-2-Clause
"""Help texts, made from the tables."""

from __future__ import annotations

from ganeti.cli.table import COMMON_OPTIONS, JOB_OPTIONS, ArgumentRow, CommandRow, OptionRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WIDTH = 100
_COLUMN = 30
_METAVARS = {
    "int": "NUMBER",
    "float": "NUMBER",
    "natural": "NUMBER",
    "amount": "NUMBER",
    "size": "SIZE",
    "duration": "TIME",
    "yesno": "yes|no",
    "list": "A,B,…",
    "keyvalues": "KEY=VALUE,…",
    "ident-keyvalues": "NAME:KEY=VALUE,…",
    "disks": "N:size=SIZE,…",
    "nics": "N:KEY=VALUE,…",
    "disk-mods": "N:ACTION,…",
    "nic-mods": "N:ACTION,…",
    "json": "JSON",
}


def program_help(program: str, table: tuple[tuple[Any, ...], ...]) -> str:
    """List the commands of a program with their aliases."""
    lines = [f"Usage: {program} {{command}} [options…] [arguments…]", f"       {program} {{command}} --help", ""]
    lines.append("Commands:")
    width = max(len(row[0]) for row in table)
    for row in table:
        aliases = f" (also: {', '.join(row[4])})" if row[4] else ""
        lines.append(f"  {row[0].ljust(width)}  {row[1]}{aliases}")
    return "\n".join(lines)


def command_help(command: CommandRow) -> str:
    """Say what a command does and list its options: its own, those of jobs, those of every command.

    An option without help is always refused: it is not offered.
    """
    lines = [f"Usage: {usage_line(command)}", "", f"{command.summary[:1].upper()}{command.summary[1:]}."]
    if command.aliases:
        lines.append(f"Other names: {', '.join(command.aliases)}.")
    common = {row[1] for row in COMMON_OPTIONS}
    job = {row[1] for row in JOB_OPTIONS}
    own = [option for option in command.options if option.help and option.field not in common | job]
    groups = (
        ("Options", own),
        ("Options of jobs", [option for option in command.options if option.field in job]),
        ("Options of every command", [option for option in command.options if option.field in common]),
    )
    for title, options in groups:
        if options:
            lines += ["", f"{title}:"]
            lines += [line for option in options for line in _option_lines(option)]
    return "\n".join(lines)


def usage_line(command: CommandRow) -> str:
    words = [command.line, "[options…]", *(_argument_words(argument) for argument in command.arguments)]
    return " ".join(words)


def _argument_words(argument: ArgumentRow) -> str:
    text = f"<{argument.metavar}>"
    if argument.maximum is None or argument.maximum > 1:
        text += "…"
    return text if argument.minimum else f"[{text}]"


def _option_lines(option: OptionRow) -> list[str]:
    words = ", ".join(option.flags)
    if option.kind not in ("flag", "count"):
        words += f" {_metavar(option)}"
    text = option.help
    if option.choices and option.metavar:
        text += f" ({', '.join(option.choices)})"
    if option.default not in (None, 0, "", ()):
        text += f" [{option.default}]"
    first = f"  {words}"
    if not text:
        return [first]
    lines = _wrapped(text, _WIDTH - _COLUMN)
    if len(first) < _COLUMN:
        return [first.ljust(_COLUMN) + lines[0], *(" " * _COLUMN + line for line in lines[1:])]
    return [first, *(" " * _COLUMN + line for line in lines)]


def _metavar(option: OptionRow) -> str:
    if option.metavar:
        return option.metavar
    return "|".join(option.choices) if option.choices else _METAVARS.get(option.kind, "TEXT")


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return lines
