# SPDX-License-Identifier: BSD-2-Clause
"""Numbers as 3.1 reads them: blanks of any alphabet before them, no digits but ours."""

import pytest

from ganeti.tools.htools.haskell.numerals import Unreadable, integer, real


@pytest.mark.parametrize("blank", [" ", "\t", "\v", "\u00a0", "\u1680", "\u2003", "\u202f", "\u205f", "\u3000"])
def test_any_blank_may_stand_before_a_number(blank: str) -> None:
    assert integer(f"{blank}7") == integer(f"({blank}7{blank})") == 7
    assert real(f"{blank}{blank}-{blank}7.5") == -7.5


@pytest.mark.parametrize(
    "text", ["\u0663", "\uff17", "1_000", "\x1c7", "\u00857", "\u20287", "\ufeff7", "+1", ".5", "5."]
)
def test_what_other_languages_take_for_a_number_is_none(text: str) -> None:
    for read in (integer, real):
        with pytest.raises(Unreadable, match=r"cannot parse string|leftover characters"):
            read(text)
