# SPDX-License-Identifier: BSD-2-Clause
"""Numbers as 3.1 prints them."""

import pytest

from ganeti.tools.htools.haskell.figures import fixed, general, shown


@pytest.mark.parametrize(
    ("value", "places", "text"),
    [
        (0.12345, 4, "0.1234"),  # the binary value lies above the tie, the digits on it: to even
        (0.12315, 4, "0.1232"),  # the binary value lies below
        (0.125, 2, "0.12"),
        (0.875, 2, "0.88"),
        (16384.5, 0, "16384"),
        (1.5e-08, 8, "0.00000002"),
        (2.5e-08, 8, "0.00000002"),
        (1.0000000050000001, 8, "1.00000001"),
        (3, 3, "3.000"),
        (7505999378950.922, 8, "7505999378950.92200000"),  # its exact value ends with .921875
        (123456789.1, 8, "123456789.10000000"),
        (-123456789.123456784, 7, "-123456789.1234568"),
        (-1125899906842623.25, 4, "-1125899906842623.3000"),
        (1125899906842623.125, 4, "1125899906842623.1000"),
        (1e22, 2, "10000000000000000000000.00"),
        (1e23, 0, "99999999999999990000000"),  # half way between two numbers
        (-1e23, 0, "-99999999999999990000000"),
        (1.5e300, 1, f"15{'0' * 299}.0"),
        (8192.0, 0, "8192"),
        (1e15 + 0.5, 0, "1000000000000000"),
        (float("nan"), 8, "NaN"),
        (float("inf"), 2, "Infinity"),
        (float("-inf"), 2, "-Infinity"),
    ],
)
def test_fixed_rounds_the_shortest_digits_to_even(value: float, places: int, text: str) -> None:
    assert fixed(value, places) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000000"),
        (3.575, "3.575000"),
        (0.1, "0.100000"),
        (9999999.0, "9999999.000000"),
        (0.025, "2.500000e-2"),
        (1e-9, "1.000000e-9"),
        (1e7, "1.000000e7"),
        (123456789.0, "1.234568e8"),
        (0.099999999999, "1.000000e-1"),
    ],
)
def test_general_turns_to_powers_of_ten(value: float, text: str) -> None:
    assert general(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (64.0, "64.0"),
        (0.1, "0.1"),
        (0.05, "5.0e-2"),
        (1e7, "1.0e7"),
        (12345678.5, "1.23456785e7"),
        (0.0, "0.0"),
        (1e23, "9.999999999999999e22"),
        (2.0**54, "1.8014398509481984e16"),
        (-30516.5811767578125, "-30516.581176757813"),  # half way between two of 17 digits
    ],
)
def test_shown_gives_all_digits(value: float, text: str) -> None:
    assert shown(value) == text
