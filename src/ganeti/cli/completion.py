# SPDX-License-Identifier: BSD-2-Clause
"""``gnt-X --complete WORD…``: what the last word may become; the shell asks when somebody presses Tab.

Names of instances, nodes, groups and networks come from the node's ssconf files, so that this works without the master
daemon and in milliseconds; job and filter ids, and names of OSes, are asked of it.
"""

from __future__ import annotations

import sys

from ganeti.cli.table import CommandRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.table import OptionRow

FILES = 3
"""The exit status that says: names of files."""
_FILE_NAMES = ("file", "filename", "dir", "directory", "path", "op-list-file", "instances.json")
_SSCONF = {
    "instance-name": "instance_list",
    "instance": "instance_list",
    "node-name": "node_list",
    "node": "node_list",
    "group": "nodegroups",
    "group-name": "nodegroups",
    "network": "networks",
    "network-name": "networks",
}
_ASKED = {
    "job-id": ("job", "id"),
    "filter-uuid": ("filter", "uuid"),
    "os": ("os", "name"),
    "os[+variant]": ("os", "name"),
}


def run(program: str, table: tuple[tuple[Any, ...], ...], words: list[str]) -> int:
    """Print what the last of *words* may become, one a line; gives the exit status."""
    found = candidates(program, table, _joined(words))
    if found is None:
        return FILES
    start = words[-1] if words else ""
    start = "" if start == "=" else start
    sys.stdout.write("".join(f"{text}\n" for text in found if text.startswith(start)))
    return 0


def _joined(words: list[str]) -> list[str]:
    """Undo what bash does to ``--group=default``: it gives three words."""
    joined: list[str] = []
    for number, word in enumerate(words):
        if word == "=" and joined:
            if number == len(words) - 1:
                joined.append("")
            continue
        joined.append(word)
    return joined


def candidates(program: str, table: tuple[tuple[Any, ...], ...], words: list[str]) -> list[str] | None:
    """Give all words that may stand where the last one stands; None means: names of files."""
    if len(words) < 2:
        return sorted(["--help", "--version", *(name for row in table for name in (row[0], *row[4]))])
    row = next((row for row in table if words[0] == row[0] or words[0] in row[4]), None)
    if row is None:
        return []
    command = CommandRow(program, row)
    by_flag = {flag: option for option in command.options if option.help for flag in option.flags}
    position = 1
    while position < len(words) - 1 and words[position].startswith("-"):
        option = by_flag.get(words[position])
        position += 1
        if option is not None and option.kind not in ("flag", "count"):
            if position == len(words) - 1:
                return _values(program, option)
            position += 1
    last = words[-1]
    if position == len(words) - 1 and last.startswith("-"):
        flag, equals, _ = last.partition("=")
        if equals and flag in by_flag:
            values = _values(program, by_flag[flag])
            return None if values is None else [f"{flag}={value}" for value in values]
        return sorted(by_flag)
    return _argument(program, command, len(words) - 1 - position)


def _values(program: str, option: OptionRow) -> list[str] | None:
    if option.choices:
        return list(option.choices)
    if option.kind == "yesno":
        return ["yes", "no"]
    return _named(program, option.metavar.partition(",")[0].removesuffix("[:SECONDARY]"))


def _argument(program: str, command: CommandRow, index: int) -> list[str] | None:
    """What the argument number *index* may be: each takes its one word, the last that is unlimited takes the rest."""
    for argument in command.arguments:
        if argument.maximum is None or index < argument.maximum:
            return _named(program, argument.subject or argument.metavar)
        index -= argument.maximum
    return []


def _named(program: str, what: str) -> list[str] | None:
    what = what.lower()
    if what in _FILE_NAMES:
        return None
    if what == "name":
        what = program.removeprefix("gnt-")
    if "|" in what:
        return what.split("|")
    if what in ("field", "fields"):
        return _fields(program)
    if what in _SSCONF:
        from ganeti.cli.environment import ssconf

        # Of groups and networks a line has the UUID first.
        return [line.split()[-1] for line in (ssconf(_SSCONF[what]) or "").splitlines() if line.strip()]
    if what in _ASKED:
        resource, field = _ASKED[what]
        from ganeti.cli.luxi import Client

        answer = Client().call("Query", resource, [field], None)
        return [str(row[0][1]) for row in answer["data"]]
    return []


def _fields(program: str) -> list[str]:
    """The usual columns of the program's list."""
    from ganeti.cli.tables.lists import RESOURCES

    return sorted({field for owner, _, fields, _ in RESOURCES.values() if owner == program for field in fields})
