# SPDX-License-Identifier: BSD-2-Clause
"""The commands: one page a program, as its help has them."""

import importlib
import pkgutil
from typing import Any

from ganeti.cli import tables
from ganeti.cli.help import command_help
from ganeti.cli.table import CommandRow

_HEAD = """\
# {program}

Generated from the declarations by `python -m ganeti.reference`; do not edit.
"""


def pages() -> dict[str, str]:
    names = sorted(info.name for info in pkgutil.iter_modules(tables.__path__) if info.name.startswith("gnt_"))
    programs = {name.replace("_", "-"): importlib.import_module(f"{tables.__name__}.{name}").COMMANDS for name in names}
    return {f"commands/{program}.md": _page(program, rows) for program, rows in programs.items()}


def _page(program: str, rows: tuple[tuple[Any, ...], ...]) -> str:
    commands = [CommandRow(program, row) for row in rows]
    sections = [f"## {command.name}\n\n```\n{command_help(command)}\n```\n" for command in commands]
    return "\n".join([_HEAD.format(program=program), *sections])
