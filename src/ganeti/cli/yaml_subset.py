# SPDX-License-Identifier: BSD-2-Clause
"""The part of YAML that descriptions of a cluster need: maps, lists, scalars and comments, in blocks or in one line.

What is not in it (anchors, tags, texts over several lines, more than one document) is refused by name and line. JSON is
part of it.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#\[\]{},"'&*!|>%@`-][^#]*?|-[^\s#][^#]*?)\s*:(?:\s+|$)""")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "yes": True, "no": False, "": None}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]+)?")
_REFUSED = {"&": "an anchor", "*": "an alias", "!": "a tag", "|": "a text over several lines", ">": "a folded text"}


class YamlFault(ValueError):
    """The text is not understood; the sentence names the line."""


class _Line:
    def __init__(self, number: int, indent: int, text: str) -> None:
        self.number, self.indent, self.text = number, indent, text

    def fault(self, what: str) -> YamlFault:
        return YamlFault(f"line {self.number}: {what}")


def read(text: str) -> Any:
    """Give the value of a document; raises `YamlFault`."""
    if text.lstrip().startswith(("{", "[")):
        try:
            return json.loads(text)
        except ValueError:
            pass
    lines = [_line(number, raw) for number, raw in enumerate(text.splitlines(), 1)]
    kept = [line for line in lines if line.text and line.text != "---"]
    if not kept:
        return None
    value, rest = _block(kept, 0, kept[0].indent)
    if rest < len(kept):
        raise kept[rest].fault("it is indented less than what it follows, or belongs to nothing")
    return value


def _line(number: int, raw: str) -> _Line:
    text = _without_comment(raw.rstrip())
    indent = len(text) - len(text.lstrip(" "))
    line = _Line(number, indent, text.strip())
    if "\t" in text[: len(text) - len(text.lstrip())]:
        raise line.fault("it is indented with a tab: use spaces")
    return line


_PIECE = re.compile(r"""(?<![^\s\[{,:])"(?:[^"\\]|\\.)*"|(?<![^\s\[{,:])'(?:[^']|'')*'|(?:^|(?<=\s))\#.*|.""")


def _without_comment(text: str) -> str:
    """Leave out what follows a ``#`` at the begin or after a space, unless it stands within quotes."""
    for found in _PIECE.finditer(text):
        if found[0].lstrip().startswith("#"):
            return text[: found.start()].rstrip()
    return text


def _block(lines: list[_Line], at: int, indent: int) -> tuple[Any, int]:
    """Read the block whose lines have this indent; gives its value and the line after it."""
    if lines[at].text == "-" or lines[at].text.startswith("- "):
        return _list(lines, at, indent)
    if _KEY.match(lines[at].text):
        return _map(lines, at, indent)
    return _scalar(lines[at], lines[at].text), at + 1


def _list(lines: list[_Line], at: int, indent: int) -> tuple[list[Any], int]:
    found = []
    while at < len(lines) and lines[at].indent == indent and (lines[at].text == "-" or lines[at].text.startswith("- ")):
        line = lines[at]
        rest = line.text[1:].lstrip()
        if not rest:
            value, at = _nested(lines, at + 1, indent)
        else:
            inner = indent + len(line.text) - len(rest)
            lines[at] = _Line(line.number, inner, rest)
            value, at = _block(lines, at, inner)
        found.append(value)
    return found, at


def _map(lines: list[_Line], at: int, indent: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    while at < len(lines) and lines[at].indent == indent:
        line = lines[at]
        match = _KEY.match(line.text)
        if match is None:
            raise line.fault(f"'{line.text}' is no 'KEY: VALUE'")
        key = str(_scalar(line, match[1]) if match[1][0] in "\"'" else match[1])
        if key in found:
            raise line.fault(f"'{key}' is there twice")
        rest = line.text[match.end() :]
        if rest:
            found[key], at = _scalar(line, rest), at + 1
        else:
            found[key], at = _nested(lines, at + 1, indent)
    if at < len(lines) and lines[at].indent > indent:
        raise lines[at].fault("it is indented more than what it follows")
    return found, at


def _nested(lines: list[_Line], at: int, indent: int) -> tuple[Any, int]:
    """What stands below a key or a dash: a deeper block, a list of the same indent below a key, or nothing."""
    if at < len(lines) and lines[at].indent > indent:
        return _block(lines, at, lines[at].indent)
    if at < len(lines) and lines[at].indent == indent and lines[at].text.startswith("- "):
        return _list(lines, at, indent)
    return None, at


def _scalar(line: _Line, text: str) -> Any:
    if text[:1] in ("[", "{"):
        value, rest = _flow(line, text)
        if rest.strip():
            raise line.fault(f"'{rest.strip()}' follows a list or map that has ended")
        return value
    if text[:1] in ("'", '"'):
        return _quoted(line, text)
    if text[:1] in _REFUSED:
        raise line.fault(f"{_REFUSED[text[0]]} is not understood here: write the value in one line, or in quotes")
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def _quoted(line: _Line, text: str) -> str:
    if len(text) < 2 or text[-1] != text[0]:
        raise line.fault("a quote is not closed in its line")
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    try:
        return str(json.loads(text))
    except ValueError:
        raise line.fault(f"{text} is no text in quotes") from None


def _flow(line: _Line, text: str) -> tuple[Any, str]:
    """Read ``[a, b]`` or ``{a: b}``; gives the value and what follows it."""
    closing = "]" if text[0] == "[" else "}"
    items: list[Any] = []
    pairs: dict[str, Any] = {}
    rest = text[1:].lstrip()
    while rest[:1] != closing:
        if not rest:
            raise line.fault(f"'{closing}' is missing")
        if closing == "]":
            value, rest = _flow_value(line, rest, ",]")
            items.append(value)
        else:
            key, rest = _flow_value(line, rest, ":")
            value, rest = _flow_value(line, rest[1:].lstrip(), ",}")
            pairs[str(key)] = value
        rest = rest.lstrip()
        if rest[:1] == ",":
            rest = rest[1:].lstrip()
        elif rest[:1] != closing:
            raise line.fault(f"',' or '{closing}' is missing before '{rest}'")
    return (items if closing == "]" else pairs), rest[1:]


def _flow_value(line: _Line, text: str, ends: str) -> tuple[Any, str]:
    if text[:1] in ("[", "{"):
        return _flow(line, text)
    found = re.match(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*""", text)
    if found is not None:
        return _quoted(line, found[1]), text[found.end() :]
    length = next((index for index, letter in enumerate(text) if letter in ends), None)
    if length is None:
        raise line.fault(f"one of '{ends}' is missing after '{text}'")
    return _scalar(line, text[:length].strip()), text[length:]
