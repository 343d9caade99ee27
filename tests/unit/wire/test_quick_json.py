# SPDX-License-Identifier: BSD-2-Clause
"""Commands write and read JSON as the standard library does, without paying for its package."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti.wire import quick_json

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(DOCUMENTS)
def test_documents_are_those_of_the_standard_library(value):
    written = quick_json.encode(value)
    assert written == json.dumps(value, separators=(",", ":")).encode()
    assert quick_json.decode(written) == json.loads(written) == value
    spaced = json.dumps(value, indent=1)
    assert quick_json.decode(f" \n{spaced}\r\n\t".encode()) == value


@pytest.mark.parametrize(
    "document", [b"", b" ", b"nonsense", b"[1", b'{"a"', b"[1] 2", b"'a'", b"\xff", b'"\x01"', b"[1,]", b"{1:2}"]
)
def test_what_is_no_document_is_a_value_error(document):
    with pytest.raises(ValueError):
        quick_json.decode(document)


def test_letters_need_not_be_escaped():
    assert quick_json.decode('{"ä":"€𝄞"}'.encode()) == {"ä": "€𝄞"}


def test_tuples_and_numbers_that_are_none():
    assert quick_json.encode((1, (2.0, None), True)) == b"[1,[2.0,null],true]"
    assert quick_json.decode(b"[Infinity,-Infinity]") == [math.inf, -math.inf]
    assert math.isnan(quick_json.decode(b"NaN"))


def test_what_cannot_be_written_is_told():
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        quick_json.encode({1, 2})
    inside: list[object] = []
    inside.append(inside)
    with pytest.raises(ValueError, match="Circular"):
        quick_json.encode(inside)
    deep = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(RecursionError):
        quick_json.decode(deep)
