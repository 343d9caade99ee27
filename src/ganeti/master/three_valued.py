# SPDX-License-Identifier: BSD-2-Clause
"""Predicates that may not know: true, false, or None where nothing can be said. Pure.

Query filters and the predicates of job filters are made of these; what an unknown answer means in the end, each says.
"""

from collections.abc import Callable, Sequence
from typing import Any

Truth = bool | None
Predicate = Callable[[Any], Truth]


def all_of(parts: Sequence[Predicate]) -> Predicate:
    """False if one part is; else unknown if one is; else true."""

    def predicate(item: Any) -> Truth:
        result: Truth = True
        for part in parts:
            truth = part(item)
            if truth is False:
                return False
            if truth is None:
                result = None
        return result

    return predicate


def any_of(parts: Sequence[Predicate]) -> Predicate:
    """True if one part is; else unknown if one is; else false."""

    def predicate(item: Any) -> Truth:
        result: Truth = False
        for part in parts:
            truth = part(item)
            if truth is True:
                return True
            if truth is None:
                result = None
        return result

    return predicate


def negated(part: Predicate) -> Predicate:
    """The opposite; what is unknown stays so."""
    return lambda item: None if (truth := part(item)) is None else not truth
