# SPDX-License-Identifier: BSD-2-Clause
"""JSON for commands: that of the standard library without the package `json`, whose regular expressions are half of a
command's start.

The two functions that do the work there are taken from where `json` has them from; a Python that has them otherwise
gets `json` itself.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Decoding:
    """What the scanner of `json` reads of its decoder."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    memo: dict[str, str] = {}

    @staticmethod
    def parse_constant(name: str) -> float:
        return float(name)  # NaN, Infinity, -Infinity


def _refuse(value: Any) -> Any:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _quick() -> tuple[Callable[[Any], str], Callable[[str], Any]]:
    """Raises `ImportError`, `AttributeError` or `TypeError` where this Python has no such functions."""
    import _json

    scan: Callable[[str, int], Any] = _json.make_scanner(_Decoding)  # type: ignore[arg-type]
    written = _json.encode_basestring_ascii

    def encode(value: Any) -> str:
        # One for each document: it notes what it is inside of, to refuse what contains itself.
        pieces = _json.make_encoder({}, _refuse, written, None, ":", ",", False, False, True)
        return "".join(pieces(value, 0))

    def decode(text: str) -> Any:
        value, end = scan(text, 0)
        if end != len(text):
            raise ValueError(f"more follows the document, at character {end}")
        return value

    if encode([{"a": 1.5}]) != '[{"a":1.5}]' or decode('{"a":[1.5]}') != {"a": [1.5]}:
        raise ImportError
    return encode, decode


try:
    _encode, _decode = _quick()
except (ImportError, AttributeError, TypeError):
    import json

    def _encode(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"))

    _decode = json.loads


def encode(value: Any) -> bytes:
    """Give *value* as a document without spaces, in ASCII."""
    return _encode(value).encode()


def decode(document: bytes) -> Any:
    """Read a document; raises `ValueError`."""
    text = document.decode().strip(" \t\n\r")
    try:
        return _decode(text)
    except StopIteration:
        raise ValueError("it is empty, or has something else where a value should be") from None
