# SPDX-License-Identifier: BSD-2-Clause
"""JSON texts, and what is wrong with them in the words of 3.1's reader (spec: htools, 1 and 10)."""

import json
import re
import string
from collections.abc import Mapping
from typing import Any, NoReturn

from ganeti.placement.request.terms import RequestError
from ganeti.tools.htools.haskell.quoting import quote, quoted

_BLANKS = " \t\r\n"
_BLANKS_BEHIND = _BLANKS + "\f\v"
"""What may stand behind a document."""
_SHOWN = 8
"""How many letters of what could not be read are shown."""
_SHOWN_BEHIND = 10
"""The same of what follows a document."""
_HEX_LETTERS = 4
_WORDS: dict[type, str] = {dict: "JSObject", list: "list"}
_NO_NUMBER = re.compile(r'"(?:\\.|[^"\\])*"|(NaN|-?Infinity)')

_POINT_AT_END = re.compile(r'"(?:\\.|[^"\\])*"|(?<![\w.+-])(-?\d+)\.(?![\d.])(?=([eE]?))')
"""Texts, to pass over, and whole numbers that end with a point, and whether an exponent would follow."""


class _NoNumberError(Exception):
    """A word that Python's reader takes for a number, and nobody else's."""


def parsed(text: str, what: str, kind: type) -> Any:
    """The one object or list (*kind*) that *text* is; raises `RequestError` that begins with *what*."""
    stripped = text.rstrip(_BLANKS_BEHIND)
    if not stripped.startswith(("{", "[")):
        raise RequestError(f"{what}: Invalid JSON: a JSON text a serialized object or array at the top level.")
    try:
        found, behind = _decoded(stripped)
    except json.JSONDecodeError as error:
        raise RequestError(f"{what}: {words_of(error)}") from None
    except _NoNumberError:
        at = next(match.start(1) for match in _NO_NUMBER.finditer(stripped) if match[1])
        raise RequestError(f"{what}: {_no_value(stripped[at : at + _SHOWN], stripped[at + 2 :])}") from None
    except RecursionError:
        raise RequestError(f"{what}: Malformed JSON: brackets within brackets beyond reason") from None
    except ValueError:
        raise RequestError(f"{what}: Malformed JSON: a number has too many digits") from None
    behind = behind.lstrip(_BLANKS)
    if behind:
        raise RequestError(f"{what}: Invalid tokens at end of JSON string: {quoted([behind[:_SHOWN_BEHIND]])[1:-1]}")
    if not isinstance(found, kind):
        raise RequestError(f"{what}: Unable to read {_WORDS[kind]}")
    return found


def _decoded(text: str) -> tuple[Any, str]:
    """The document that *text* begins with, and what is behind it; digits may be missing behind a point, as in 3.1."""
    try:
        found, end = _DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        if text[error.pos : error.pos + 1] != "." or not text[error.pos - 1].isdecimal():
            raise
        text = _POINT_AT_END.sub(_without_point, text)
        found, end = _DECODER.raw_decode(text)
    return found, text[end:]


def _without_point(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    return f"{match[1]} " if match[2] else match[1]  # no exponent of what ended with its point


def _first_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of fields that are called the same 3.1 takes the first."""
    found = dict(pairs)
    if len(found) < len(pairs):
        found = {}
        for key, value in pairs:
            found.setdefault(key, value)
    return found


def _refuse(word: str) -> NoReturn:
    raise _NoNumberError


_DECODER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_first_of_each)


def shown(value: Any) -> str:
    """A value of a document as 3.1 shows it where it makes no sense."""
    match value:
        case None:
            return "JSNull"
        case bool():
            return f"JSBool {value}"
        case str():
            return f"JSString (JSONString {{fromJSString = {quote(value)}}})"
        case list():
            return f"JSArray [{','.join(map(shown, value))}]"
        case Mapping():
            items = ",".join(f"({quote(key)},{shown(item)})" for key, item in value.items())
            return f"JSObject (JSONObject {{fromJSObject = [{items}]}})"
    return f"JSRational False ({shown_number(value)})"


def shown_number(value: float) -> str:
    """A number as a fraction, as 3.1 reads it."""
    whole, parts = fraction_of(value)
    return f"({whole}) % {parts}" if whole < 0 else f"{whole} % {parts}"


def fraction_of(value: float) -> tuple[int, int]:
    """The number as its digits say it, above and below."""
    from fractions import Fraction  # it is slow to import, and needed for mistakes only

    return Fraction(repr(value)).as_integer_ratio()


def words_of(error: json.JSONDecodeError) -> str:
    """The sentence for *error*."""
    rest = error.doc[error.pos :][:_SHOWN]
    match error.msg:
        case "Expecting property name enclosed in double quotes":
            return f"Malformed JSON: expecting string: {rest}"
        case "Expecting value":
            return _no_value(rest, error.doc[error.pos + 2 :])
        case "Expecting ':' delimiter":
            return f"Malformed JSON labelled field: {_from_last_token(error)}"
        case "Expecting ',' delimiter" if rest[:1] in ("e", "E") and error.doc[error.pos - 1].isdecimal():
            digits = re.sub(r"^.[+-]?", "", error.doc[error.pos :], flags=re.DOTALL)
            return f"Unable to parse JSON exponential: {digits[:_SHOWN]}"
        case "Expecting ',' delimiter":
            kind = _innermost(error.doc[: error.pos])
            what = "array: unterminated array" if kind == "[" else "object: unterminated sequence"
            return f"Unable to parse JSON {what}: {_from_last_token(error)}"
        case "Unterminated string starting at":
            return "Unable to parse JSON String: unterminated String: "
        case "Invalid \\escape":
            return f"Unable to parse JSON String: invalid escape char: '{rest[1:2]}'"
        case "Invalid \\uXXXX escape":
            return f"Unable to parse JSON String: invalid hex: {_bad_hex(error.doc, error.pos)[:_SHOWN]}"
        case "Invalid control character at":
            return f"Illegal unescaped character in string: {rest}"
    return f"Malformed JSON: {error}"


def _bad_hex(text: str, at: int) -> str:
    """The four letters of an escape at *at* as far as they could be read; all that is left where there are fewer."""
    letters = text[text.index("u", at) + 1 :][:_HEX_LETTERS]
    if len(letters) < _HEX_LETTERS:
        return letters
    digits = letters[: len(letters) - len(letters.lstrip(string.hexdigits))]
    return f"[({int(digits, 16)},{quote(letters[len(digits) :])})]" if digits else "[]"


def _no_value(rest: str, behind: str) -> str:
    if rest.startswith("-"):
        return f"Unable to parse JSON Rational: {behind[:_SHOWN]}"
    for word in ("true", "false"):
        if rest[:2] == word[:2]:
            return f"Unable to parse JSON Bool: {rest}"
    return f"Malformed JSON: invalid token in this context {rest}"


def _from_last_token(error: json.JSONDecodeError) -> str:
    """What follows the last thing that could be read, blanks included."""
    return error.doc[len(error.doc[: error.pos].rstrip(_BLANKS)) :][:_SHOWN]


def _innermost(text: str) -> str:
    """The bracket that is open at the end of *text*, which is right so far."""
    opened: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == '"':
            at += 1
            while text[at] != '"':
                at += 2 if text[at] == "\\" else 1
        elif text[at] in "[{":
            opened.append(text[at])
        elif text[at] in "]}":
            opened.pop()
        at += 1
    return opened[-1]
