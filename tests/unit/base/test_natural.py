# SPDX-License-Identifier: BSD-2-Clause
"""Natural order of names."""

from ganeti.base.natural import natural_key


def test_numbers_are_compared_by_value_and_only_digits_make_numbers() -> None:
    names = ["node10", "node2", "10", "net²", "net1", "", "9a", "²"]
    assert sorted(names, key=natural_key) == ["", "9a", "10", "net1", "net²", "node2", "node10", "²"]
