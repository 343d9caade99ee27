# SPDX-License-Identifier: BSD-2-Clause
"""Regular expressions that users send to daemons: those that could run for hours are refused. Standard library only.

Python looks for a match by trying one way after the other. ``([a-z]+)+$`` has 2^n ways to fail on a name of n letters,
so that a reader of the remote API could stop the master's daemon. How many ways an expression has at most is seen in
its syntax tree: a factor times a power of the text's length.
"""

import math
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

LONGEST_PATTERN: Final = 1000
MOST_STEPS: Final = 10_000_000
"""A fraction of a second."""
_MOST_WAYS: Final = 10_000
_MOST_POWER: Final = 6
_FEW: Final = 16
"""A repetition that ends sooner counts by the number of its lengths, another one as a power of the text's length."""
_parser: Any = import_module("re._parser")
_constants: Any = import_module("re._constants")
_CATEGORIES: Final[dict[Any, str]] = {
    _constants.CATEGORY_DIGIT: r"\d",
    _constants.CATEGORY_NOT_DIGIT: r"\D",
    _constants.CATEGORY_SPACE: r"\s",
    _constants.CATEGORY_NOT_SPACE: r"\S",
    _constants.CATEGORY_WORD: r"\w",
    _constants.CATEGORY_NOT_WORD: r"\W",
}


class PatternError(ValueError):
    """The expression, or the text that it is to be found in, is refused; says why."""


class _Ways(NamedTuple):
    """How often at most a part of an expression matches from one place on: *factor* times length to the *power*."""

    factor: int = 1
    power: int = 0

    def then(self, other: "_Ways") -> "_Ways":
        return _Ways(self.factor * other.factor, self.power + other.power)


_ONE: Final = _Ways()
_UNKNOWN: Final = (None, None)


class Pattern:
    """One expression; raises `PatternError` for one that cannot be read, or could take too long."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST_PATTERN:
            raise PatternError(f"it has {len(text)} characters, {LONGEST_PATTERN} are the most")
        try:
            self._compiled = re.compile(text)
            tree = _parser.parse(text)
            self._ways = _of_sequence(list(tree), [_UNKNOWN])
        except (re.error, RecursionError, OverflowError) as err:
            raise PatternError(str(err)) from err
        if not _begins_the_text(list(tree)):
            self._ways = self._ways.then(_Ways(power=1))
        if self._ways.factor > _MOST_WAYS or self._ways.power > _MOST_POWER:
            raise PatternError(f"it has too many repetitions: {_REMEDY}")

    def found_in(self, text: str) -> bool:
        """Whether it matches anywhere in *text*; raises `PatternError` for a text that is too long for it."""
        factor, power = self._ways
        if factor * len(text) ** power // math.factorial(power) > MOST_STEPS:
            raise PatternError(f"it has too many repetitions for a text of {len(text)} characters: {_REMEDY}")
        return self._compiled.search(text) is not None


_REMEDY: Final = "begin it with ^, and repeat single characters alone, as in [a-z.]*"


def _of_sequence(nodes: Sequence[Any], after: Sequence[Any]) -> _Ways:
    """*after*: what may come next behind it, of which `_UNKNOWN` may be anything."""
    found = _ONE
    for place, node in enumerate(nodes):
        following = _firsts(nodes[place + 1]) if place + 1 < len(nodes) else after
        found = found.then(_of_node(node, following))
        if found.factor > _MOST_WAYS or found.power > _MOST_POWER:
            break  # enough to refuse it
    return found


def _of_node(node: Any, after: Sequence[Any]) -> _Ways:
    kind, value = node
    if kind in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT):
        least, most, body = value
        return _of_repetition(least, most, list(body), after)
    if kind is _constants.BRANCH:
        return _of_branch([list(each) for each in value[1]], after)
    if kind is _constants.SUBPATTERN:
        return _of_sequence(list(value[3]), after)
    if kind in (_constants.ASSERT, _constants.ASSERT_NOT):
        return _of_sequence(list(value[1]), [_UNKNOWN])
    if kind is _constants.ATOMIC_GROUP:
        return _of_sequence(list(value), after)
    if kind is _constants.GROUPREF_EXISTS:
        return _of_branch([list(each) for each in value[1:] if each is not None], [_UNKNOWN])
    if kind in (_constants.GROUPREF, _constants.GROUPREF_IGNORE):
        return _Ways(power=1)  # to compare takes as long as the group is
    return _ONE


def _of_repetition(least: int, most: Any, body: list[Any], after: Sequence[Any]) -> _Ways:
    if len(body) == 1 and (accepts := _characters(body[0])) is not None:
        return _ONE if least == most or _end_it(accepts, after) else _of_lengths(least, most)
    again = _firsts(body[0]) if body else [_UNKNOWN]
    once = _of_sequence(body, [*again, *after])
    if once == _ONE:
        return _ONE if least == most else _of_lengths(least, most)
    if most == _constants.MAXREPEAT or most > _FEW:
        raise PatternError(f"it has a repetition within a repetition: {_REMEDY}")
    factor = sum(once.factor**times for times in range(least, most + 1))
    return _Ways(factor, once.power * most)


def _of_lengths(least: int, most: Any) -> _Ways:
    few = most != _constants.MAXREPEAT and most - least < _FEW
    return _Ways(factor=most - least + 1) if few else _Ways(power=1)


def _of_branch(alternatives: list[list[Any]], after: Sequence[Any]) -> _Ways:
    ways = [_of_sequence(each, after) for each in alternatives]
    firsts = [each[0] if each else _UNKNOWN for each in alternatives]
    literals = {value for kind, value in firsts if kind is _constants.LITERAL}
    join = max if len(literals) == len(firsts) else sum  # those that begin differently exclude each other
    return _Ways(join(each.factor for each in ways), max(each.power for each in ways))


def _begins_the_text(nodes: Sequence[Any]) -> bool:
    """Whether it is tried at the first character alone."""
    if not nodes:
        return False
    kind, value = nodes[0]
    return kind is _constants.AT and value in (_constants.AT_BEGINNING, _constants.AT_BEGINNING_STRING)


def _firsts(node: Any) -> Sequence[Any]:
    """What a match of *node* begins with: one node of several."""
    kind, value = node
    if kind is _constants.SUBPATTERN and len(value[3]):
        return _firsts(value[3][0])
    if kind in (_constants.MAX_REPEAT, _constants.MIN_REPEAT) and value[0] > 0 and len(value[2]):
        return _firsts(value[2][0])
    if kind is _constants.BRANCH:
        return [first for each in value[1] for first in (_firsts(each[0]) if len(each) else [_UNKNOWN])]
    return [node]


def _end_it(accepts: Callable[[str], bool], after: Sequence[Any]) -> bool:
    """Whether a repetition of single characters can only end where its last one is: what follows is none of them."""
    return bool(after) and all(_ends_it(accepts, each) for each in after)


def _ends_it(accepts: Callable[[str], bool], following: Any) -> bool:
    kind, value = following
    if kind is _constants.AT:
        return value in (_constants.AT_END, _constants.AT_END_STRING) and not accepts("\n")
    if kind is not _constants.LITERAL:
        return False
    letter = chr(value)
    return not any(accepts(each) for each in {letter, letter.lower(), letter.upper()})


def _characters(node: Any) -> Callable[[str], bool] | None:
    """What a node that stands for one character accepts; None for any other node."""
    kind, value = node
    if kind is _constants.LITERAL:
        return lambda letter: letter == chr(value)
    if kind is _constants.NOT_LITERAL:
        return lambda letter: letter != chr(value)
    if kind is _constants.ANY:
        return lambda letter: True
    if kind is _constants.IN:
        return lambda letter: _is_in(value, letter)
    if kind is _constants.SUBPATTERN and len(value[3]) == 1:
        return _characters(value[3][0])
    return None


def _is_in(items: Sequence[Any], letter: str) -> bool:
    negated, found = False, False
    for kind, value in items:
        if kind is _constants.NEGATE:
            negated = True
        elif kind is _constants.LITERAL:
            found |= value == ord(letter)
        elif kind is _constants.RANGE:
            found |= value[0] <= ord(letter) <= value[1]
        else:
            found |= re.fullmatch(_CATEGORIES[value], letter) is not None
    return found != negated
