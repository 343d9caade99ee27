# SPDX-License-Identifier: BSD-2-Clause
"""Numbers as the tools have always taken them, on the command line and in text files, and the words for bad ones.

Blanks before a number, parentheses around it and `0x1f`, `0o17` are accepted; `.5`, `5.` and `+1` are not. Integers are
those of 64 bits: a bigger one wraps, as it always did. Light on imports: every command line needs it.
"""

from __future__ import annotations

_BLANKS = " \t\n\r\f\v\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_DECIMAL = "0123456789"
_DIGITS = {"x": ("0123456789abcdefABCDEF", 16), "o": ("01234567", 8)}
_WORDS = {"NaN": float("nan"), "Infinity": float("inf")}
_INTEGER_BITS = 64


class Unreadable(ValueError):
    """The text is no number; the message is the sentence for the user, without saying which number was wanted."""


def integer(text: str) -> int:
    """Read a whole number of 64 bits; raises `Unreadable`."""
    if text.isdecimal() and text.isascii() and len(text) < 19:  # any 18 digits fit 64 bits
        return int(text)
    value, rest = leading_integer(text)
    if rest:
        raise Unreadable(f"leftover characters when parsing '{text}': '{rest}'")
    return value


def leading_integer(text: str) -> tuple[int, str]:
    """Read the whole number *text* begins with; gives it and what follows. Raises `Unreadable`."""
    value, rest = _number(text, 0)
    if not isinstance(value, int):
        raise Unreadable(f"cannot parse string '{text}'")
    half = 1 << (_INTEGER_BITS - 1)
    return (value + half) % (2 * half) - half, text[rest:]


def real(text: str) -> float:
    """Read a number; raises `Unreadable`."""
    value, rest = _number(text, 0)
    if value is None:
        raise Unreadable(f"cannot parse string '{text}'")
    if rest < len(text):
        raise Unreadable(f"leftover characters when parsing '{text}': '{text[rest:]}'")
    if value == 0 and text.lstrip(_BLANKS).startswith("-"):
        return -0.0
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _number(text: str, start: int) -> tuple[int | float | None, int]:
    """Read what a number can be at *start*: its value, or None, and where it ends."""
    at = _past_blanks(text, start)
    if text[at : at + 1] == "(":
        value, end = _number(text, at + 1)
        end = _past_blanks(text, end)
        return (value, end + 1) if text[end : end + 1] == ")" else (None, start)
    negative = text[at : at + 1] == "-"
    value, end = _magnitude(text, _past_blanks(text, at + 1) if negative else at)
    return (-value if negative and value is not None else value), end


def _magnitude(text: str, at: int) -> tuple[int | float | None, int]:
    for word, value in _WORDS.items():
        if text.startswith(word, at) and not text[at + len(word) : at + len(word) + 1].isalnum():
            return value, at + len(word)
    if text[at : at + 1] == "0" and text[at + 1 : at + 2].lower() in _DIGITS:
        digits, base = _DIGITS[text[at + 1].lower()]
        end = _past(text, at + 2, digits)
        if end > at + 2:
            return int(text[at + 2 : end], base), end
    end = _past(text, at, _DECIMAL)
    if end == at:
        return None, at
    return _with_fraction(text, at, end)


def _with_fraction(text: str, at: int, end: int) -> tuple[int | float, int]:
    """Go on after the digits from *at* to *end*: `.5` and `e-3` belong to the number if digits follow."""
    whole = True
    if text[end : end + 1] == "." and _past(text, end + 1, _DECIMAL) > end + 1:
        end, whole = _past(text, end + 1, _DECIMAL), False
    if text[end : end + 1] in ("e", "E"):
        sign = text[end + 1 : end + 2] in ("+", "-")
        first = end + 1 + sign
        last = _past(text, first, _DECIMAL)
        if last > first:
            end, whole = last, False
    return (int(text[at:end]) if whole else float(text[at:end])), end


def _past(text: str, at: int, digits: str) -> int:
    while at < len(text) and text[at] in digits:
        at += 1
    return at


def _past_blanks(text: str, at: int) -> int:
    return _past(text, at, _BLANKS)
