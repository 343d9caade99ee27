# SPDX-License-Identifier: BSD-2-Clause
"""Strings in sentences of 3.1."""

import pytest

from ganeti.tools.htools.haskell.json_mistakes import shown
from ganeti.tools.htools.haskell.quoting import quote, quoted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", '""'),
        ("a b", '"a b"'),
        ('"\\', '"\\"\\\\"'),
        ("é0", '"\\233\\&0"'),
        ("éa", '"\\233a"'),
        ("№", '"\\8470"'),
        ("\x0eH\x0eI\t\x7f1", '"\\SO\\&H\\SOI\\t\\DEL1"'),
    ],
)
def test_quote(text: str, shown: str) -> None:
    assert quote(text) == shown


def test_quoted() -> None:
    assert quoted([]) == "[]"
    assert quoted(["a", "é"]) == '["a","\\233"]'


def test_a_document_shows_its_strings_the_same_way() -> None:
    """As Debian's 3.0.2 shows a category of a report."""
    assert shown(["x\x01\x0eHé5\t"]) == r'JSArray [JSString (JSONString {fromJSString = "x\SOH\SO\&H\233\&5\t"})]'
