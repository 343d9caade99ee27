# SPDX-License-Identifier: BSD-2-Clause
"""What hroller says of the colourings it found."""

import pytest

from ganeti.placement.balance.rolling import Colouring
from ganeti.tools.htools.programs.hroller import comparison

ONE, TWO, THREE = ((1, 2, 3),), ((1,), (2, 3)), ((1,), (2,), (3,))


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ((ONE, ONE, ONE), "Dcolor: 1 (3) TIE Dsatur: 1 (3) TIE LF: 1 (3)"),
        ((ONE, TWO, TWO), "LF: 1 (3) LOOSE Dcolor: 2 (1,2) TIE Dsatur: 2 (1,2)"),
        ((THREE, ONE, TWO), "Dsatur: 1 (3) LOOSE Dcolor: 2 (1,2) LOOSE LF: 3 (1,1,1)"),
        ((TWO, TWO, THREE), "Dsatur: 2 (1,2) TIE LF: 2 (1,2) LOOSE Dcolor: 3 (1,1,1)"),
    ],
)
def test_each_colouring_is_compared_with_the_one_before(
    found: tuple[tuple[tuple[int, ...], ...], ...], line: str
) -> None:
    names = ("LF", "Dsatur", "Dcolor")
    assert comparison([Colouring(name, classes) for name, classes in zip(names, found, strict=True)]) == line
