# SPDX-License-Identifier: BSD-2-Clause
"""Numbers as the placement tools print them (spec: htools, 5 and 7).

3.1 rounds the shortest decimal digits of a number, halves to even; Python rounds the exact binary value. The two
differ on ties, such as 0.12345 to four places, and where more digits are wanted than a number has: these go the long
way.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decimal import Decimal

_SURE_DIGITS = 15
"""So many decimal digits of a number are those of its exact value."""
_ALL_WHOLE = 2.0**53
"""From here on there are whole numbers between two that a float can be."""


def fixed(value: float, places: int) -> str:
    """Give *value* with *places* decimals."""
    special = _special(value)
    if special:
        return special
    if abs(value) >= 10 ** (_SURE_DIGITS - places):
        return _shortest(value, places)
    return _tie_to_even(value, places) if _is_tie(value, places) else f"{value:.{places}f}"


def _special(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return ""


def _is_tie(value: float, places: int) -> bool:
    """Whether the shortest digits of *value* end with a 5 just behind the last place."""
    mantissa, _, exponent = repr(value).partition("e")
    if not mantissa.endswith("5"):
        return False
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    return decimals == places + 1


def _tie_to_even(value: float, places: int) -> str:
    """Round *value*, whose digits end with a 5 just behind the last place."""
    digits = int(repr(value).partition("e")[0].replace(".", "").lstrip("-")) // 10
    text = str(digits + digits % 2).rjust(places + 1, "0")
    whole, fraction = text[: len(text) - places], text[len(text) - places :]
    return f"{'-' if value < 0 else ''}{whole}{'.' if places else ''}{fraction}"


def _shortest(value: float, places: int) -> str:
    """Round the shortest digits of *value*; behind them come zeros."""
    from decimal import Context, Decimal

    every_digit = Context(prec=1200)
    return f"{every_digit.quantize(_greater(value), Decimal(1).scaleb(-places)):f}"


def _greater(value: float) -> "Decimal":
    """The shortest digits of *value*: of two numbers that are as short 3.1 shows the greater."""
    from decimal import Decimal

    digits = Decimal(_digits(value))
    last = Decimal(1).scaleb(int(digits.as_tuple().exponent))
    return digits + last.copy_sign(digits) if abs(Decimal(value)) - abs(digits) == last / 2 else digits


def _digits(value: float) -> str:
    """The shortest digits that mean *value*; Python takes some that lie half way to another number too, 3.1 none."""
    text = repr(value)
    if abs(value) < _ALL_WHOLE:
        return text
    from fractions import Fraction
    from math import inf, nextafter

    exact = Fraction(value)
    for places in range(len(text)):
        shorter = text if not places else f"{value:.{_SURE_DIGITS + places - 2}e}"
        away = Fraction(shorter) - exact
        if abs(away) * 2 < abs(Fraction(nextafter(value, inf if away > 0 else -inf)) - exact):
            return shorter
    return text


def general(value: float) -> str:
    """Give *value* with six decimals, in powers of ten where that would lose digits: ``2.500000e-2``."""
    size = abs(value)
    if _special(value) or size == 0 or 0.1 <= size < 10**7:
        return fixed(value, 6)
    exponent = int(f"{size:.17e}".partition("e")[2])
    mantissa = _digits(value).partition("e")[0].replace(".", "").replace("-", "").strip("0")
    scaled = fixed(float(f"{mantissa[0]}.{mantissa[1:] or '0'}"), 6)
    if scaled.startswith("10."):
        scaled, exponent = "1.000000", exponent + 1
    return f"{'-' if value < 0 else ''}{scaled}e{exponent}"


def shown(value: float) -> str:
    """Give all digits of *value*: ``64.0``, ``1.0e7``, ``5.0e-2``."""
    size = abs(value)
    if _special(value):
        return _special(value)
    if size == 0 or 0.1 <= size < 10**7:
        text = repr(value)
        return text if len(text) <= _SURE_DIGITS else str(_greater(value))
    decimal = _greater(value)
    (sign, digits, _), exponent = decimal.as_tuple(), decimal.adjusted()
    rest = "".join(map(str, digits[1:])).rstrip("0")
    return f"{'-' if sign else ''}{digits[0]}.{rest or '0'}e{exponent}"
