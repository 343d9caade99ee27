# SPDX-License-Identifier: BSD-2-Clause
"""Numbers that end with a point are read, as 3.0.2 does; those that say something else are not taken for numbers."""

import time

import pytest

from ganeti.placement.request.terms import RequestError
from ganeti.tools.htools.haskell.json_mistakes import parsed


@pytest.mark.parametrize(
    ("text", "found"), [("[1.]", [1]), ("[-1., 2.]", [-1, 2]), ('["1.", 1.5, 3.]', ["1.", 1.5, 3]), ("[ 12. ]", [12])]
)
def test_digits_may_be_missing_behind_a_point(text: str, found: list[object]) -> None:
    assert parsed(text, "X", list) == found


@pytest.mark.parametrize("text", ["[1..5]", "[1e5.5]", "[1.2.3]", "[12.34.5]", "[1.-5]", "[1.e5]", '{"a":1.2.3}'])
def test_a_number_with_more_points_is_none(text: str) -> None:
    with pytest.raises(RequestError, match="unterminated"):
        parsed(text, "X", list)


def test_many_such_numbers_are_read_in_one_go() -> None:
    text = "[" + ",".join(['{"a":1.}'] * 20000) + "]"
    begun_s = time.process_time()
    assert len(parsed(text, "X", list)) == 20000
    assert time.process_time() - begun_s < 5


def test_a_number_of_too_many_digits_is_named_without_words_of_python() -> None:
    with pytest.raises(RequestError, match="X: Malformed JSON: a number has too many digits"):
        parsed("[" + "9" * 5000 + "]", "X", list)
