# SPDX-License-Identifier: BSD-2-Clause
"""What 3.1 has outside and we have not yet: ``python -m tests.open_page`` writes `docs/reference/open.md`.

Compared are commands, their aliases and options (`docs/spec/cli.md` section 2), opcodes (`docs/spec/opcodes.md`) and
LUXI calls (`docs/spec/protocols.md` section 2). The reason at a line of the page is written by hand, and kept.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ganeti.base.command import DRY_RUN, PRINT_JOBID, PRIORITY, SUBMIT, Command
from ganeti.cli import generate
from ganeti.master import operations
from ganeti.master.operation import REGISTRY

TREE = Path(__file__).resolve().parents[1]
SPEC = TREE / "docs" / "spec"
PAGE = TREE / "docs" / "reference" / "open.md"
REASON = "not built yet"
OF_JOBS = {flag for option in (DRY_RUN, PRINT_JOBID, PRIORITY, SUBMIT) for flag in option.flags}
KINDS = ("command", "alias", "option", "refused option", "opcode", "LUXI call")

HEAD = """# What is open

Commands, options, opcodes and LUXI calls of 3.1 that do not exist here yet. `python -m tests.open_page` writes this
page and keeps the reasons. An option of a missing command is not listed by itself. A refused option is known, and
answered with an error that says what to do.
"""
_SECTION = re.compile(r"^### (gnt-\w+) \(.*?\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| ([a-z][a-z-]*) \|.*\| ([^|]*) \|$", re.MULTILINE)
_LISTED = re.compile(r"^\| (.+) `(.+)` \| (.*) \|$", re.MULTILINE)


def gaps() -> set[tuple[str, str]]:
    """Give the kind and the name of all that the specification has and the declarations have not."""
    return {*_command_gaps(), *_opcode_gaps(), *_luxi_gaps()}


def listed() -> dict[tuple[str, str], str]:
    """Give the reason of each line of the page."""
    return {(match[1], match[2]): match[3] for match in _LISTED.finditer(PAGE.read_text())} if PAGE.exists() else {}


def page(reasons: dict[tuple[str, str], str]) -> str:
    """Give the page's text for the present gaps, with *reasons* where there are such."""
    found = gaps()
    text = HEAD
    for kind in KINDS:
        names = sorted(name for each, name in found if each == kind)
        text += f"\n## {kind[0].upper()}{kind[1:]}: {len(names)} open\n"
        if names:
            text += "\n| missing | why |\n|---|---|\n"
        text += "".join(f"| {kind} `{name}` | {reasons.get((kind, name), REASON)} |\n" for name in names)
    return text


def _command_gaps() -> Iterator[tuple[str, str]]:
    ours = {command.line: command for command in generate.declared()}
    aliases = {f"{line.partition(' ')[0]} {alias}" for line, command in ours.items() for alias in command.aliases}
    for program, section in _SECTION.findall((SPEC / "cli.md").read_text()):
        for name, options in _ROW.findall(section):
            line = f"{program} {name}"
            command = ours.get(line)
            if command is None:
                yield "command", line
                continue
            wanted = set(re.findall(r"`(-[^`]+)`", options))
            yield from (("option", f"{line} {flag}") for flag in wanted - _flags(command))
            refused = {option.flags[-1] for option in command.options if not option.help}
            yield from (("refused option", f"{line} {flag}") for flag in wanted & refused)
        line_of_aliases = re.search(r"^Aliases: (.*)$", section, re.MULTILINE)
        for alias, name in re.findall(r"`(\S+)` = `(\S+)`", line_of_aliases[1] if line_of_aliases else ""):
            if f"{program} {name}" in ours and f"{program} {alias}" not in aliases:
                yield "alias", f"{program} {alias}"


def _flags(command: Command) -> set[str]:
    return {flag for option in command.options for flag in option.flags} | (OF_JOBS if command.is_job else set())


def _opcode_gaps() -> Iterator[tuple[str, str]]:
    operations.load()
    for op_id in re.findall(r"^\*\*(OP_\w+)\*\*", (SPEC / "opcodes.md").read_text(), re.MULTILINE):
        if op_id not in REGISTRY:
            yield "opcode", op_id


def _luxi_gaps() -> Iterator[tuple[str, str]]:
    section = (SPEC / "protocols.md").read_text().partition("\n## 2. LUXI")[2].partition("\n## 3.")[0]
    calls = section.partition("| Call | Args")[2].partition("\n\n")[0]
    places = (TREE / "src" / "ganeti" / "luxid", TREE / "src" / "ganeti" / "master" / "query")
    sources = "".join(path.read_text() for place in places for path in place.rglob("*.py"))
    for name in re.findall(r"^\| ([A-Z]\w+) \|", calls, re.MULTILINE):
        if f'"{name}"' not in sources:
            yield "LUXI call", name


if __name__ == "__main__":
    PAGE.write_text(page(listed()))
    sys.stdout.write(f"{PAGE}: {len(gaps())} open\n")
