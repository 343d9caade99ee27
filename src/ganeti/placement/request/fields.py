# SPDX-License-Identifier: BSD-2-Clause
"""JSON objects of others, read field by field with their types checked, in the words of 3.1 (spec: protocols, 7)."""

import json
import math
from collections.abc import Collection, Mapping
from typing import Any

from ganeti.placement.request.terms import RequestError

_TYPE_WORDS = {int: "Int", float: "Double", str: "String", bool: "Bool", list: "list", dict: "JSObject"}
MISSING = object()
"""In place of a default: the field must be there."""
_HALF_RANGE = 1 << 63


class Fields:
    """A JSON object with its name for messages; values come out with their type checked.

    *inner*: it is a record within another, of which 3.1 speaks in other words. *strict*: null does not stand for what
    is missing.
    """

    def __init__(self, what: str, data: Any, *, inner: bool = False, strict: bool = False) -> None:
        self.what = what
        self.strict = strict
        self._naming = "Can't parse value for" if inner else "key"
        if not isinstance(data, Mapping):
            raise RequestError(f"{what}: Unable to read JSObject")
        self.data: Mapping[str, Any] = data

    def get(self, key: str, kind: type, default: Any = MISSING) -> Any:
        """Value of *key* as *kind*; raises `RequestError` when it is missing without a default, or of another type."""
        value = self.data.get(key, MISSING)
        if value is MISSING or (value is None and default is not MISSING and not self.strict):
            if default is not MISSING:
                return default
            keys = json.dumps(list(self.data), ensure_ascii=False, separators=(",", ":"))
            raise RequestError(f"{self.what}: key '{key}' not found, object contains only {keys}")
        try:
            return self._typed(value, kind)
        except _Unreadable as reason:
            raise RequestError(f"{self.what}: {self._naming} '{key}': {reason}") from None

    def perhaps(self, key: str, kind: type, default: Any) -> Any:
        """The same of what may be null; 3.1 does not say where such a value stands."""
        value = self.data.get(key)
        try:
            return default if value is None else self._typed(value, kind)
        except _Unreadable as reason:
            raise RequestError(f"key '{key}': {reason}") from None

    def _typed(self, value: Any, kind: type) -> Any:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if kind is float and number:
            return float(value) + 0.0  # nothing has no sign in 3.1
        if kind is int and number and math.isfinite(value):
            return wrapped(round(value))
        if kind is str:
            return _text(value)
        if kind is tuple:
            return tuple(_text(item) for item in self._typed(value, list))
        if kind is not int and isinstance(value, kind):
            return value
        raise _Unreadable(f"Unable to read {_TYPE_WORDS[kind]}")

    def strings(self, key: str, default: Any = MISSING) -> tuple[str, ...]:
        return tuple(self.get(key, tuple, default))

    def sub(self, key: str) -> "Fields":
        return Fields(f"{self.what}: {self._naming} '{key}'", self.get(key, dict), inner=True, strict=self.strict)

    def word(self, key: str, words: Collection[str], of: str, default: Any = MISSING) -> str:
        """One of *words*, which are those of the type *of*."""
        if default is not MISSING and self.data.get(key, None if self.strict else MISSING) is MISSING:
            return str(default)
        return self._known(key, self.get(key, object, default), words, of)

    def words(self, key: str, words: Collection[str], of: str, default: Any = MISSING) -> tuple[str, ...]:
        """A list of such words."""
        return tuple(self._known(key, value, words, of) for value in self.get(key, list, default))

    def _known(self, key: str, value: Any, words: Collection[str], of: str) -> str:
        try:
            found = _text(value)
        except _Unreadable as reason:
            raise RequestError(f"{self.what}: {self._naming} '{key}': Can't parse value for '{of}': {reason}") from None
        if found not in words:
            raise RequestError(f"{self.what}: {self._naming} '{key}': Invalid string value for type {of}: \"{found}\"")
        return found


class _Unreadable(Exception):
    """A value has another type than it must; the message says in 3.1's words what it is not."""


def _text(value: Any) -> str:
    """A string, which to 3.1 is a list of letters as well."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise _Unreadable("Unable to read String")
    if not all(isinstance(letter, str) and len(letter) == 1 for letter in value):
        raise _Unreadable("Unable to read Char")
    return "".join(value)


def wrapped(value: int) -> int:
    """*value* as 3.1 has it in 64 bits."""
    return (value + _HALF_RANGE) % (2 * _HALF_RANGE) - _HALF_RANGE
