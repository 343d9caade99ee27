# SPDX-License-Identifier: BSD-2-Clause
"""Alignment of tables, nesting of info texts."""

import os

from ganeti.cli import tabular
from ganeti.cli.infotext import Ordered, render
from ganeti.cli.tabular import aligned, print_table

ROWS = [["Name", "Size", "Text"], ["a-long-name", "1", "x"], ["b", "1000", "y z"]]


def test_numbers_go_right_and_the_last_text_is_not_padded():
    assert aligned(ROWS, [False, True, False]) == [
        "Name        Size Text",
        "a-long-name    1 x",
        "b           1000 y z",
    ]


def test_a_last_number_is_padded():
    assert aligned([["N"], ["10"]], [True]) == [" N", "10"]


def test_wide_text_columns_give_way_to_the_terminal():
    rows = [["Name", "N"], ["x" * 50, "12345678"]]
    lines = aligned(rows, [False, True], limit=30)
    assert [len(line) for line in lines] == [30, 30]
    assert lines[1] == "x" * 20 + "… 12345678"


def test_a_terminal_that_does_not_know_its_width_gets_all(monkeypatch, capsys):
    monkeypatch.setattr(tabular.sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(tabular.sys.stdout, "fileno", lambda: 1)
    monkeypatch.setattr(tabular.os, "get_terminal_size", lambda _: os.terminal_size((0, 0)))
    print_table(["Name"], [False], [["x" * 50]])
    assert capsys.readouterr().out == f"Name\n{'x' * 50}\n"


def test_numbers_are_never_cut():
    assert aligned([["12345678"], ["1"]], [True], limit=3) == ["12345678", "       1"]


def test_info_texts_nest():
    value = [
        Ordered(
            [
                ("b", 1.0),
                ("empty", []),
                ("list", [[1, "x"], {"k": None}]),
                ("pair", (1, True, 2.5)),
                ("deep", {"b": {}, "a": {"c": "two\nlines"}}),
            ]
        ),
        "plain",
    ]
    assert render(value) == (
        "- b: 1\n"
        "  empty: \n"
        "  list: \n"
        "    - - 1\n"
        "      - x\n"
        "    - k: None\n"
        "  pair: [1, True, 2.5]\n"
        "  deep: \n"
        "    a: \n"
        "      c: two\n"
        "        lines\n"
        "    b: \n"
        "- plain\n"
    )
