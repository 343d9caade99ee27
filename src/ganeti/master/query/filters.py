# SPDX-License-Identifier: BSD-2-Clause
"""The filter language: JSON lists turned into predicates over rows (protocols 2.1).

A comparison with a value that is not there is true, and its negation (``!=`` is one) false, as in Ganeti.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from ganeti.base.errors import ParameterError, QueryFilterParseError
from ganeti.base.patterns import Pattern, PatternError
from ganeti.master.query.fields import NUMBER, TIMES, TIMESTAMP, UNIT, Field, Missing
from ganeti.master.three_valued import Predicate, Truth, all_of, any_of, negated

_MAX_DEPTH = 100
_MAX_PARTS = 20_000
"""Of a filter: more names than a cluster has objects are no question."""
_MAX_LOOKS = 5_000_000
"""How often values may be compared for one answer, during which nothing else is done: some seconds."""


def compile_filter(qfilter: Any, fields: Mapping[str, Field]) -> tuple[Predicate, frozenset[str]]:
    """Give a predicate and the names of the fields it looks at; raises `ParameterError`, `QueryFilterParseError`."""
    used: set[str] = set()
    _parts(qfilter)
    predicate = _compile(qfilter, fields, used, 0)
    return predicate, frozenset(used)


def check_work(qfilter: Any, rows: int) -> None:
    """Raise `QueryFilterParseError` where the filter cannot be looked at for so many rows in reasonable time."""
    parts = _parts(qfilter)
    if parts * rows > _MAX_LOOKS:
        raise QueryFilterParseError(
            f"The filter has {parts} parts, too many for {rows} objects: divide it, or use patterns (=~)"
        )


def _parts(qfilter: Any) -> int:
    """How many comparisons and words that join them there are; without recursion, as nothing is known of it yet."""
    left, found = [qfilter], 0
    while left:
        found += 1
        match left.pop():
            case ["&" | "|" | "!", *parts]:
                left += parts
        if found + len(left) > _MAX_PARTS:
            raise QueryFilterParseError(f"The filter has more than {_MAX_PARTS} parts: divide it, or use patterns (=~)")
    return found


def passes(predicate: Predicate, row: Any) -> bool:
    return predicate(row) is True


def asked_names(qfilter: Any, key: str, depth: int = 0) -> list[Any] | None:
    """The names, in order, if the filter is nothing but names of rows; else None."""
    match qfilter:
        case ["|", *parts] if depth <= _MAX_DEPTH:
            found = [asked_names(part, key, depth + 1) for part in parts]
            if not parts or any(names is None for names in found):
                return None
            return [name for names in found if names is not None for name in names]
        case ["==" | "=", str() as field, str() | int() as value] if field == key and not isinstance(value, bool):
            return [value]
    return None


def _compile(qfilter: Any, fields: Mapping[str, Field], used: set[str], depth: int) -> Predicate:
    if depth > _MAX_DEPTH:
        raise QueryFilterParseError(f"The filter is nested more than {_MAX_DEPTH} levels deep")
    if qfilter is None:
        return lambda row: True
    match qfilter:
        case ["&", *parts]:
            return all_of([_compile(part, fields, used, depth + 1) for part in parts])
        case ["|", *parts]:
            return any_of([_compile(part, fields, used, depth + 1) for part in parts])
        case ["!", part]:
            return negated(_compile(part, fields, used, depth + 1))
        case ["?", str() as name]:
            return _test(_field(name, fields, used), bool)
        case [str() as operator, str() as name, value] if operator in _COMPARISONS:
            return _COMPARISONS[operator](_field(name, fields, used), value)
    raise QueryFilterParseError(f"{_short(qfilter)} is not a filter: write [operator, field, value] or [&, filter…]")


def _field(name: str, fields: Mapping[str, Field], used: set[str]) -> Field:
    found = fields.get(name)
    if found is None:
        raise ParameterError(f"The filter asks for the field '{name}', which does not exist")
    used.add(name)
    return found


def _test(field: Field, test: Callable[[Any], bool]) -> Predicate:
    def predicate(row: Any) -> Truth:
        value = field.get(row)
        return isinstance(value, Missing) or test(value)

    return predicate


def _equal(field: Field, wanted: Any) -> Predicate:
    if field.host_name and isinstance(wanted, str):
        return _test(field, lambda value: value == wanted or str(value).startswith(wanted + "."))
    return _test(field, lambda value: _same(field, value, wanted))


def _different(field: Field, wanted: Any) -> Predicate:
    return negated(_equal(field, wanted))


def _same(field: Field, value: Any, wanted: Any) -> bool:
    have = _comparable(field, value)
    want = _comparable(field, wanted)
    if have is None or want is None:
        return have is want
    _check_types(field, have, want)
    return bool(have == want)


def _ordering(compare: Callable[[Any, Any], bool]) -> Callable[[Field, Any], Predicate]:
    def make(field: Field, wanted: Any) -> Predicate:
        def test(value: Any) -> bool:
            have, want = _comparable(field, value), _comparable(field, wanted)
            if have is None and want is not None:
                return False
            _check_types(field, have, want)
            try:
                return compare(have, want)
            except TypeError as err:
                raise ParameterError(f"Field '{field.name}' has no order: compare it with == or !=") from err

        return _test(field, test)

    return make


def _matches(field: Field, pattern: Any) -> Predicate:
    if not isinstance(pattern, str):
        raise ParameterError(f"The pattern for field '{field.name}' must be text, not {_short(pattern)}")
    try:
        compiled = Pattern(pattern)
    except PatternError as err:
        raise ParameterError(f"{_short(pattern)} is not a regular expression for a filter: {err}") from err

    def test(value: Any) -> bool:
        if not isinstance(value, str):
            raise ParameterError(f"Field '{field.name}' is not text: it cannot be matched with a pattern")
        try:
            return compiled.found_in(value)
        except PatternError as err:
            raise ParameterError(f"{_short(pattern)} cannot be looked for in field '{field.name}': {err}") from err

    return _test(field, test)


def _contains(field: Field, wanted: Any) -> Predicate:
    def test(value: Any) -> bool:
        if not isinstance(value, list | tuple):
            raise ParameterError(f"Field '{field.name}' is not a list: it cannot contain {_short(wanted)}")
        return wanted in value

    return _test(field, test)


def _comparable(field: Field, value: Any) -> Any:
    """Times compare by seconds, whatever their form: those of jobs are lists of seconds and microseconds."""
    if _is_time(field):
        seconds = value[0] if isinstance(value, list | tuple) and value else value
        if isinstance(seconds, float) and math.isfinite(seconds):
            return int(seconds)
        if isinstance(seconds, int) and not isinstance(seconds, bool):
            return seconds
    return value


def _is_time(field: Field) -> bool:
    return field.kind == TIMESTAMP or field.shown == TIMES


def _check_types(field: Field, have: Any, want: Any) -> None:
    numbers = (int, float)
    if isinstance(have, bool) or isinstance(want, bool):
        ok = isinstance(have, bool) and isinstance(want, bool)
    elif isinstance(have, numbers):
        ok = isinstance(want, numbers)
    else:
        ok = isinstance(want, type(have)) or isinstance(have, type(want))
    if not ok:
        number = field.kind in (NUMBER, UNIT) or _is_time(field)
        word = "a number" if number else _TYPE_WORDS.get(type(have), "no single value")
        raise ParameterError(f"Field '{field.name}' is {word}: it cannot be compared with {_short(want)}")


_TYPE_WORDS = {str: "text", bool: "a truth value", int: "a number", float: "a number"}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


_COMPARISONS: dict[str, Callable[[Field, Any], Predicate]] = {
    "==": _equal,
    "=": _equal,
    "!=": _different,
    "<": _ordering(lambda have, want: bool(have < want)),
    "<=": _ordering(lambda have, want: bool(have <= want)),
    ">": _ordering(lambda have, want: bool(have > want)),
    ">=": _ordering(lambda have, want: bool(have >= want)),
    "=~": _matches,
    "=[]": _contains,
}
