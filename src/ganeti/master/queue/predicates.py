# SPDX-License-Identifier: BSD-2-Clause
"""The predicates of job filter rules: JSON lists turned into tests over jobs (protocols, section 13).

    ["jobid", filter]    the field `id`, compared with a number or with `watermark`
    ["opcode", filter]   dotted keys of an opcode's JSON (`disks.0.size`); true if it is for one opcode of the job
    ["reason", filter]   `source`, `reason`, `timestamp`; true if it is for one entry of the reason trail of an opcode

Truth is three-valued: about values of different types nothing can be said, and then a predicate does not match,
negated or not. A key that an opcode does not have reads as null, which is only ever equal to null.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ganeti.base.errors import ParameterError
from ganeti.base.patterns import Pattern, PatternError
from ganeti.master.three_valued import Predicate as Test
from ganeti.master.three_valued import Truth, all_of, any_of, negated
from ganeti.wire.job_file import JobFile, redact

WATERMARK = "watermark"
"""As a value in a predicate about job ids: the highest job id when the rule was made."""

JobTest = Callable[[JobFile], bool]
Read = Callable[[Any], Any]
Key = Callable[[str], Read]
Operator = Callable[[Any, Any], Truth]

_MAX_DEPTH = 50


def compile_predicate(predicate: Any, watermark: int) -> JobTest:
    """Give the test of one predicate; raises `ParameterError` with a sentence on what is wrong with it."""
    match predicate:
        case ["jobid", qfilter]:
            test = _compile(qfilter, _COMPARISONS, _key_of("jobid", ("id",)), _job_id_value(watermark))
            return lambda file: test((file.id,)) is True
        case ["opcode", qfilter]:
            test = _compile(qfilter, _COMPARISONS | _OF_OPCODES, _path, _any_value)
            return lambda file: any(test(entry.input) is True for entry in file.ops)
        case ["reason", qfilter]:
            key = _key_of("reason", ("source", "reason", "timestamp"))
            test = _compile(qfilter, _COMPARISONS, key, _any_value)
            return lambda file: any(test(entry) is True for entry in reasons(file))
        case [str() as kind, _]:
            raise ParameterError(f"There is no predicate '{_short(kind)}': use jobid, opcode or reason")
    raise ParameterError(
        f"{_short(predicate)} is not a predicate: write [kind, filter], as in"
        ' ["opcode", ["==", "OP_ID", "OP_INSTANCE_CREATE"]]'
    )


def reasons(file: JobFile) -> list[Sequence[Any]]:
    """The entries [source, reason, timestamp] of the reason trails of all opcodes, those that can be read."""
    found: list[Sequence[Any]] = []
    for entry in file.ops:
        trail = entry.input.get("reason")
        if isinstance(trail, list | tuple):
            found += [item for item in trail if isinstance(item, list | tuple) and len(item) == 3]
    return found


def _compile(
    qfilter: Any, operators: dict[str, Operator], key: Key, check: Callable[[Any], Any], depth: int = 0
) -> Test:
    if depth > _MAX_DEPTH:
        raise ParameterError(f"The filter is nested more than {_MAX_DEPTH} levels deep: write a simpler one")

    def inner(part: Any) -> Test:
        return _compile(part, operators, key, check, depth + 1)

    match qfilter:
        case ["&", *parts]:
            return all_of([inner(part) for part in parts])
        case ["|", *parts]:
            return any_of([inner(part) for part in parts])
        case ["!", part]:
            return negated(inner(part))
        case ["?", str() as name] if "?" in operators:
            return _compare(key(name), operators["?"], None)
        case [str() as sign, str() as name, value] if sign in operators and sign != "?":
            return _compare(key(name), operators[sign], _operand(sign, check(value)))
        case [str() as sign, *_] if sign not in operators and sign not in ("&", "|", "!"):
            known = ", ".join(["&", "|", "!", *operators])
            raise ParameterError(f"'{_short(sign)}' cannot be used in this predicate: its operators are {known}")
    raise ParameterError(
        f"{_short(qfilter)} is not a filter: write [operator, field, value], or [&, filter, …] with &, | or !"
    )


def _operand(sign: str, value: Any) -> Any:
    if sign != "=~":
        return value
    if not isinstance(value, str):
        raise ParameterError(f"The pattern of =~ must be text, not {_short(value)}")
    try:
        return Pattern(value)
    except PatternError as err:
        raise ParameterError(f"'{_short(value)}' is not a regular expression: {err}") from err


def _key_of(kind: str, names: Sequence[str]) -> Key:
    """Keys that are places in a sequence."""

    def key(name: str) -> Read:
        if name not in names:
            known = ", ".join(names)
            raise ParameterError(f"A predicate of kind {kind} has no field '{_short(name)}': it has {known}")
        place = names.index(name)
        return lambda item: item[place]

    return key


def _path(name: str) -> Read:
    """A dotted key; numbers are places in lists. Secrets read as they do on disk."""
    first, *steps = name.split(".")

    def read_first(opcode: Any) -> Any:
        value = opcode.get(first)
        return redact({first: value})[first] if isinstance(value, dict | list) else value

    def read(opcode: Any) -> Any:
        value = read_first(opcode)
        for step in steps:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list | tuple) and len(step) < 7 and step.isascii() and step.isdecimal():
                value = value[int(step)] if int(step) < len(value) else None
            else:
                return None
        return value

    return read if steps else read_first


def _job_id_value(watermark: int) -> Callable[[Any], Any]:
    def check(value: Any) -> int:
        if value == WATERMARK:
            return watermark
        if not isinstance(value, int) or isinstance(value, bool):
            raise ParameterError(f'A job id is compared with a number or with "{WATERMARK}", not {_short(value)}')
        return value

    return check


def _any_value(value: Any) -> Any:
    """Any value of JSON that can be compared without harm."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [part for item in level if isinstance(item, list | dict) for part in _parts(item)]
        if not level:
            return value
    raise ParameterError(f"A value in a filter is nested more than {_MAX_DEPTH} levels deep: compare with parts of it")


def _parts(value: list[Any] | dict[str, Any]) -> list[Any]:
    return value if isinstance(value, list) else list(value.values())


def _compare(read: Read, operator: Operator, wanted: Any) -> Test:
    return lambda item: operator(read(item), wanted)


def _equal(have: Any, want: Any) -> Truth:
    if have is None or want is None:
        return have is want
    return bool(have == want) if _alike(have, want) else None


def _different(have: Any, want: Any) -> Truth:
    return None if (truth := _equal(have, want)) is None else not truth


def _ordering(compare: Callable[[Any, Any], bool]) -> Operator:
    def operator(have: Any, want: Any) -> Truth:
        if isinstance(have, str | int | float) and _alike(have, want) and not isinstance(have, bool):
            return bool(compare(have, want))
        return None

    return operator


def _matches(have: Any, pattern: Any) -> Truth:
    try:
        return bool(pattern.found_in(have)) if isinstance(have, str) else None
    except PatternError:  # too long a text for it
        return None


def _contains(have: Any, want: Any) -> Truth:
    if not isinstance(have, list | tuple):
        return None
    return any(_equal(item, want) is True for item in have)


def _alike(have: Any, want: Any) -> bool:
    """Whether two values of JSON are of one type; all numbers are, and truth values are no numbers."""
    return type(have) is type(want) or _type(have) is _type(want)


def _type(value: Any) -> type:
    if isinstance(value, bool):
        return bool
    for kind, members in ((float, int | float), (str, str), (list, list | tuple), (dict, dict)):
        if isinstance(value, members):
            return kind
    return type(value)


def _short(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else repr(value)
    except RecursionError:
        text = "What is nested so deep"
    return text if len(text) <= 80 else text[:77] + "..."


_COMPARISONS: dict[str, Operator] = {
    "==": _equal,
    "=": _equal,
    "!=": _different,
    "<": _ordering(lambda have, want: bool(have < want)),
    "<=": _ordering(lambda have, want: bool(have <= want)),
    ">": _ordering(lambda have, want: bool(have > want)),
    ">=": _ordering(lambda have, want: bool(have >= want)),
}
_OF_OPCODES: dict[str, Operator] = {
    "?": lambda have, want: bool(have),
    "=~": _matches,
    "=[]": _contains,
}
