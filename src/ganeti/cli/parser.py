# SPDX-License-Identifier: BSD-2-Clause
"""From words to values, by the table of the command. Options come before arguments, as in 3.1.

Not argparse: that costs more than a whole command may, and knows neither ``k=v`` values nor this order.
"""

from __future__ import annotations

from ganeti.cli.failures import EXIT_FAILURE, EXIT_USAGE, UsageError
from ganeti.cli.option_kinds import COLLECTORS, READERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ganeti.cli.table import CommandRow, OptionRow


_REFUSED_WHILE_READING = ("int", "natural", "float", "amount", "size", "duration")
"""Kinds of options whose values 3.1 reads together with the options: the status says so."""
HELP = ("-h", "--help")
"""Wherever they stand: a user who asks for help has not yet read that options stand before arguments."""


def parse(command: CommandRow, words: list[str]) -> dict[str, Any]:
    """Give the values by field; what was not given and has no default is absent. ``help`` ends the reading."""
    given, rest = _read_options(command, words)
    values: dict[str, Any] = {
        option.field: option.default for option in command.options if option.default not in (None, 0)
    }
    values["debug"] = 0
    is_literal = words[: len(words) - len(rest)][-1:] == ["--"]
    if not is_literal and any(word in HELP for word in rest):
        values["help"] = True
    for option, typed, texts in given.values():
        values[option.field] = _value_of(option, typed, texts)
    if not values.get("help"):
        _refuse_exclusive(command, {flag for option, _, _ in given.values() for flag in option.flags})
        if not is_literal:
            _refuse_late_options(command, rest)
        _read_arguments(command, rest, values)
    return values


def _refuse_exclusive(command: CommandRow, given: set[str]) -> None:
    for first, second, remedy in command.excludes:
        if first in given and second in given:
            raise UsageError(f"{first} and {second} exclude each other: {remedy}")


def _read_options(
    command: CommandRow, words: list[str]
) -> tuple[dict[int, tuple[OptionRow, str, list[str | None]]], list[str]]:
    by_flag = {flag: option for option in command.options for flag in option.flags}
    given: dict[int, tuple[OptionRow, str, list[str | None]]] = {}
    position = 0
    while position < len(words):
        word = words[position]
        if word == "--":
            return given, words[position + 1 :]
        if len(word) < 2 or word[0] != "-":
            break
        position += 1
        if word.startswith("--"):
            flag, equals, text = word.partition("=")
            option, flag = _long_option(command, by_flag, flag)
            pairs: list[tuple[OptionRow, str, str | None]] = [(option, flag, text if equals else None)]
        else:
            pairs = _short_options(command, by_flag, word)
        for option, flag, value in pairs:
            value, position = _take_value(command, option, flag, value, words, position)
            _, _, texts = given.setdefault(id(option), (option, flag, []))
            texts.append(value)
    return given, words[position:]


def _take_value(
    command: CommandRow, option: OptionRow, flag: str, value: str | None, words: list[str], position: int
) -> tuple[str | None, int]:
    if option.kind in ("flag", "count"):
        if value is not None:
            raise UsageError(f"{command.line}: option {flag} takes no value", EXIT_USAGE)
    elif value is None:
        if position >= len(words):
            what = option.metavar or "a value"
            raise UsageError(
                f"{command.line}: option {flag} needs {what} after it; see '{command.line} --help'", EXIT_USAGE
            )
        return words[position], position + 1
    return value, position


def _long_option(command: CommandRow, by_flag: dict[str, OptionRow], flag: str) -> tuple[OptionRow, str]:
    """Find a long option by its name or by the unmistakable beginning of it."""
    if flag in by_flag:
        return by_flag[flag], flag
    names = sorted(name for name in by_flag if name.startswith(flag))
    if len({id(by_flag[name]) for name in names}) == 1:
        return by_flag[names[0]], names[0]
    if names:
        raise UsageError(f"{command.line}: option {flag} could be any of {', '.join(names)}", EXIT_USAGE)
    raise _unknown_option(command, by_flag, flag)


def _short_options(
    command: CommandRow, by_flag: dict[str, OptionRow], word: str
) -> list[tuple[OptionRow, str, str | None]]:
    """Read ``-fn node``, ``-nnode``, ``-fd``."""
    pairs: list[tuple[OptionRow, str, str | None]] = []
    for index, letter in enumerate(word[1:], start=1):
        flag = f"-{letter}"
        option = by_flag.get(flag)
        if option is None:
            raise _unknown_option(command, by_flag, flag if index == 1 else f"{flag} in {word}")
        if option.kind in ("flag", "count"):
            pairs.append((option, flag, None))
            continue
        pairs.append((option, flag, word[index + 1 :] or None))
        break
    return pairs


def _unknown_option(command: CommandRow, by_flag: dict[str, OptionRow], flag: str) -> UsageError:
    from ganeti.cli.suggestions import option_hint

    hint = option_hint(flag, by_flag) or f"; see '{command.line} --help'"
    return UsageError(f"{command.line}: there is no option {flag}{hint}", EXIT_USAGE)


def _value_of(option: OptionRow, typed: str, texts: list[str | None]) -> Any:
    if option.kind == "flag":
        return option.value
    if option.kind == "count":
        return len(texts)
    given = [text for text in texts if text is not None]
    if option.choices:
        for text in given:
            if text not in option.choices:
                raise UsageError(
                    f"{typed}: '{text}' is not possible: it must be one of {', '.join(option.choices)}", EXIT_USAGE
                )
    collector = COLLECTORS.get(option.kind)
    if collector is not None:
        return collector(option.flags[-1] if option.kind in ("disks", "nics") else typed, given)
    reader = READERS[option.kind]
    if not option.repeatable:
        return _read(option, reader, typed, given[-1])
    values = [_read(option, reader, typed, text) for text in given]
    return [part for value in values for part in value] if option.kind == "list" else values


def _read(option: OptionRow, reader: Callable[[str, str], Any], typed: str, text: str) -> Any:
    try:
        return reader(typed, text)
    except UsageError as error:
        is_below_zero = text[:1] == "-" and text[1:].isdecimal()
        at_once = option.kind in _REFUSED_WHILE_READING and not is_below_zero
        raise UsageError(error.text, EXIT_USAGE if at_once else EXIT_FAILURE) from None


def _refuse_late_options(command: CommandRow, words: list[str]) -> None:
    for word in words:
        if len(word) > 1 and word[0] == "-" and any(word in option.flags for option in command.options):
            raise UsageError(
                f"{command.line}: option {word} comes after an argument: put all options before the arguments",
            )


def _read_arguments(command: CommandRow, words: list[str], values: dict[str, Any]) -> None:
    minimum = sum(argument.minimum for argument in command.arguments)
    unlimited = any(argument.maximum is None for argument in command.arguments)
    maximum = sum(argument.maximum or 0 for argument in command.arguments)
    if len(words) < minimum or (not unlimited and len(words) > maximum):
        raise UsageError(_count_sentence(command, words, minimum, maximum, unlimited))
    spare = len(words) - minimum
    position = 0
    for argument in command.arguments:
        room = spare if argument.maximum is None else min(spare, argument.maximum - argument.minimum)
        reader = READERS[argument.kind]
        taken = [reader(argument.metavar, word) for word in words[position : position + argument.minimum + room]]
        spare -= room
        position += len(taken)
        if argument.maximum != 1:
            values[argument.field] = taken
        elif taken:
            values[argument.field] = taken[0]


def _count_sentence(command: CommandRow, words: list[str], minimum: int, maximum: int, unlimited: bool) -> str:
    from ganeti.cli.help import usage_line

    count = f"{minimum} argument{'' if minimum == 1 else 's'}"
    if unlimited:
        count = f"at least {count}"
    elif maximum == 0:
        count = "no arguments"
    elif maximum != minimum:
        count = f"{minimum} to {maximum} arguments"
    return f"{command.line} takes {count}, not {len(words)}: {usage_line(command)}"
