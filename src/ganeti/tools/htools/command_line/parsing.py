# SPDX-License-Identifier: BSD-2-Clause
"""Command lines of the placement tools: long names may be shortened, letters bundled, options and arguments mixed.

`-pFIELDS`, `--print-nodes=FIELDS`, `-l3`, `-l 3`, `--max-length=3`, `--max-length 3`; an optional value must
be attached; `--` ends the options. All errors of a line are told at once (spec: htools, 1).
"""

from __future__ import annotations

import sys

from ganeti.tools.htools.command_line.help import completion, help_text, spelling, version_text
from ganeti.tools.htools.command_line.option_values import BadValue
from ganeti.tools.htools.command_line.options import Options, options_of
from ganeti.tools.htools.command_line.tools import TOOLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ganeti.tools.htools.command_line.declaring import Option

EXIT_BAD_VALUE = 1
EXIT_BAD_LINE = 2


def parse(tool: str, arguments: Sequence[str]) -> Options:
    """Read the command line of *tool*. Answers `--help`, `--version`, `--help-completion` and bad lines itself.

    Raises `SystemExit` after such an answer: 0, 1 for a bad value, 2 for a line that cannot be read.
    """
    line = _Line(options_of(tool), TOOLS[tool].of_3_1)
    line.read(list(arguments))
    if line.errors or line.unknown:
        errors = [*line.errors, *(f"unrecognized option `{word}'\n" for word in line.unknown)]
        sys.stderr.write(f"Command line error: {''.join(errors)}\n{help_text(tool)}")
        raise SystemExit(EXIT_BAD_LINE)
    options = Options()
    try:
        for option, value in line.found:
            option.store(options, value)
    except BadValue as error:
        sys.stderr.write(f"Error while parsing command line arguments:\n{error}\n")
        raise SystemExit(EXIT_BAD_VALUE) from None
    answer = _answer(tool, options)
    if answer:
        sys.stdout.write(answer)
        raise SystemExit(0)
    options.arguments = line.arguments
    return options


def _answer(tool: str, options: Options) -> str:
    """What is printed instead of doing the work, or nothing."""
    if options.show_help:
        return help_text(tool)
    if options.show_version:
        return version_text(tool)
    return completion(tool) if options.show_completion else ""


def taken_apart(
    known: Sequence[Option], words: Sequence[str]
) -> tuple[list[tuple[Option, str | None]], list[str], str]:
    """The options on a command line with their values, its arguments, and what is wrong with it (empty: nothing)."""
    line = _Line(list(known))
    line.read(list(words))
    complaint = "".join([*line.errors, *(f"unrecognized option `{word}'\n" for word in line.unknown)])
    return line.found, line.arguments, complaint


class _Line:
    """One command line taken apart: options found with their values, arguments, errors (whole lines), unknown words."""

    def __init__(self, known: list[Option], preferred: Sequence[str] = ()) -> None:
        self._known, self._preferred = known, preferred
        self._by_letter = {option.short: option for option in known if option.short}
        self.found: list[tuple[Option, str | None]] = []
        self.arguments: list[str] = []
        self.errors: list[str] = []
        self.unknown: list[str] = []

    def read(self, words: list[str]) -> None:
        rest = words[::-1]
        while rest:
            word = rest.pop()
            if word == "--":
                self.arguments.extend(rest[::-1])
                return
            if word.startswith("--"):
                self._long(word, rest)
            elif word.startswith("-") and len(word) > 1:
                self._bundle(word[1:], rest)
            else:
                self.arguments.append(word)

    def _long(self, word: str, rest: list[str]) -> None:
        name, equals, attached = word[2:].partition("=")
        matching = [option for option in self._known if option.long == name]
        matching = matching or [option for option in self._known if option.long.startswith(name)]
        if len(matching) > 1:
            matching = [option for option in matching if option.long in self._preferred] or matching
        if not matching:
            self.unknown.append(word)
        elif len(matching) > 1:
            names = "".join(f"  {spelling(option)}\n" for option in matching)
            self.errors.append(f"option `--{name}' is ambiguous; could be one of:\n{names}")
        else:
            self._with_value(matching[0], f"--{name}", attached if equals else None, rest)

    def _with_value(self, option: Option, spelling: str, attached: str | None, rest: list[str]) -> None:
        if not option.metavar and attached is not None:
            self.errors.append(f"option `{spelling}' doesn't allow an argument\n")
        elif not option.metavar or attached is not None or option.optional:
            self.found.append((option, attached))
        elif rest:
            self.found.append((option, rest.pop()))
        else:
            self.errors.append(f"option `{spelling}' requires an argument {option.metavar}\n")

    def _bundle(self, letters: str, rest: list[str]) -> None:
        """Read the first of several letters; those after a switch are read as a word of their own."""
        letter, more = letters[0], letters[1:]
        option = self._by_letter.get(letter)
        if option is not None and option.metavar:
            self._with_value(option, f"-{letter}", more or None, rest)
            return
        if option is None:
            self.unknown.append(f"-{letter}")
        else:
            self.found.append((option, None))
        if more:
            rest.append(f"-{more}")
