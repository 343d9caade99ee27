# SPDX-License-Identifier: BSD-2-Clause
"""Filter expressions as people type them, such as ``pnode == "node1" and not status =* "ERROR*"`` (protocols, 2.1).

expression = both ("or" both)*            both  = one ("and" one)*
one        = ["not"] ("(" expression ")" | condition)
condition  = FIELD | FIELD OPERATOR VALUE | VALUE ["not"] "in" FIELD
"""

import re
from typing import Any

from ganeti.cli.failures import Failure

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<paren>[()])
    | (?P<operator>==|=~|=\*|!=|!~|!\*|<=|>=|<|>|=)
    | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<number>-?[0-9]+(?![\w.]))
    | (?P<word>[A-Za-z_][\w./-]*)
    )""",
    re.VERBOSE,
)
_REGEX = re.compile(r"\s*m?(?P<mark>[/#^|])")
_KEYWORDS = ("and", "or", "not", "in")


def parse_filter(text: str) -> list[Any]:
    """Give the filter in the form the query language sends; raises `Failure` naming the place that is wrong."""
    reader = _Reader(text)
    result = reader.expression()
    if reader.kind != "end":
        raise reader.wrong("an 'and', an 'or' or the end")
    return result


class _Reader:
    """Reads one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._start = 0
        self.kind = ""
        self.token = ""
        self._next()

    def wrong(self, wanted: str) -> Failure:
        found = self._text[self._start :].strip() or "the end"
        return Failure(f"Failure: error while parsing query filter: expected {wanted} before '{found}'")

    def expression(self) -> list[Any]:
        parts = [self._both()]
        while self._take_word("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else ["|", *parts]

    def _both(self) -> list[Any]:
        parts = [self._one()]
        while self._take_word("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else ["&", *parts]

    def _one(self) -> list[Any]:
        if self._take_word("not"):
            return ["!", self._one()]
        if self._take_paren("("):
            inner = self.expression()
            if not self._take_paren(")"):
                raise self.wrong("a closing parenthesis")
            return inner
        return self._condition()

    def _condition(self) -> list[Any]:
        if self.kind in ("string", "number"):
            value = self._value()
            negated = self._take_word("not")
            if not self._take_word("in"):
                raise self.wrong("'in'")
            contains = ["=[]", self._field(), value]
            return ["!", contains] if negated else contains
        field = self._field()
        if self.kind != "operator":
            return ["?", field]
        operator = self.token
        if operator in ("=~", "!~"):
            pattern = self._pattern()
            return ["=~", field, pattern] if operator == "=~" else ["!", ["=~", field, pattern]]
        self._next()
        value = self._value()
        if operator in ("=*", "!*"):
            match = ["=~", field, _glob_pattern(str(value))]
            return match if operator == "=*" else ["!", match]
        return ["==" if operator == "=" else operator, field, value]

    def _field(self) -> str:
        if self.kind != "word" or self.token in _KEYWORDS:
            raise self.wrong("the name of a field")
        name = self.token
        self._next()
        return name

    def _value(self) -> str | int:
        kind, token = self.kind, self.token
        if kind not in ("string", "number"):
            raise self.wrong("a number or a text in quotes")
        self._next()
        return int(token) if kind == "number" else re.sub(r"\\(.)", r"\1", token[1:-1])

    def _pattern(self) -> str:
        """Read ``m/…/is`` after the operator; the token has not been read yet."""
        start = _REGEX.match(self._text, self._position)
        if start is None:
            self._next()
            value = self._value()
            return _checked(str(value), self)
        mark = start["mark"]
        end = start.end()
        while end < len(self._text) and self._text[end] != mark:
            end += 2 if self._text[end] == "\\" else 1
        if end >= len(self._text):
            raise Failure(f"Failure: error while parsing query filter: the regular expression has no closing '{mark}'")
        pattern = self._text[start.end() : end].replace(f"\\{mark}", mark)
        flags = re.compile("[is]*").match(self._text, end + 1)
        assert flags is not None
        self._position = flags.end()
        self._next()
        letters = "".join(sorted(set(flags[0])))
        return _checked(f"(?{letters}){pattern}" if letters else pattern, self)

    def _take_paren(self, which: str) -> bool:
        if self.kind == "paren" and self.token == which:
            self._next()
            return True
        return False

    def _take_word(self, word: str) -> bool:
        if self.kind == "word" and self.token == word:
            self._next()
            return True
        return False

    def _next(self) -> None:
        self._start = self._position
        if not self._text[self._position :].strip():
            self.kind, self.token = "end", ""
            return
        match = _TOKEN.match(self._text, self._position)
        if match is None:
            raise self.wrong("a field, an operator or a value")
        self.kind, self.token = str(match.lastgroup), match[str(match.lastgroup)]
        self._position = match.end()


def _checked(pattern: str, reader: _Reader) -> str:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as err:
        raise Failure(
            f"Failure: error while parsing query filter: '{pattern}' is no regular expression: {err}"
        ) from None
    return pattern


def _glob_pattern(text: str) -> str:
    return "^" + "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in text) + "$"
