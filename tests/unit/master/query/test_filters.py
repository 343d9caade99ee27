# SPDX-License-Identifier: BSD-2-Clause
"""The filter language over rows: operators, order, missing values, and what is refused."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from ganeti.base.errors import GanetiError, PrerequisiteError, QueryFilterParseError
from ganeti.master.query.fields import (
    BOOL,
    NUMBER,
    OTHER,
    TEXT,
    TIMES,
    TIMESTAMP,
    UNAVAILABLE,
    Field,
    Resource,
    table,
)
from ganeti.master.query.filters import asked_names, check_work
from ganeti.master.query.running import describe_fields, legacy_rows, run_query


async def beat(rows: Any, inquiry: Any) -> None:
    """Stands for asking; `ask` fills the rows."""


@dataclass
class Row:
    name: str
    size: int
    tags: list[str]
    note: str | None = None
    live: Any = UNAVAILABLE


THINGS = Resource(
    "thing",
    "name",
    table(
        [
            Field("name", "Name", TEXT, "Name", lambda row: row.name, host_name=True),
            Field("size", "Size", NUMBER, "Size", lambda row: row.size),
            Field("even", "Even", BOOL, "Even", lambda row: row.size % 2 == 0),
            Field("born", "Born", TIMESTAMP, "Born", lambda row: row.size + 0.75),
            Field("tags", "Tags", OTHER, "Tags", lambda row: row.tags),
            Field("note", "Note", TEXT, "Note", lambda row: UNAVAILABLE if row.note is None else row.note),
            Field("beat", "Beat", NUMBER, "Beat", lambda row: row.live, live=(beat,)),
            Field(
                "begun", "Begun", OTHER, "Begun", lambda row: [row.size, 250000] if row.size < 3 else None, shown=TIMES
            ),
            Field("none", "None", OTHER, "None", lambda row: None),
            Field("values", "Values", OTHER, "Values", lambda row: {"size": row.size}),
            Field("secret", "Secret", OTHER, "Hidden", lambda row: 1, hidden=True),
        ]
    ),
    "Thing",
)
ROWS = [Row("a1.example.com", 1, ["x"]), Row("a2.example.com", 2, ["x", "y"], "hello"), Row("a10.example.com", 3, [])]


def ask(qfilter: Any, fields: tuple[str, ...] = ("name",), collected: list[Any] | None = None) -> list[Any]:
    async def collect(rows: Any, fields: Any) -> None:
        if collected is not None:
            collected.append(([row.name for row in rows], sorted({field.name for field in fields})))
        for row in rows:
            row.live = row.size * 10

    rows = [Row(row.name, row.size, row.tags, row.note) for row in ROWS]
    _, data = asyncio.run(run_query(THINGS, rows, fields, qfilter, collect))
    return [row if len(fields) > 1 else row[0][1].partition(".")[0] for row in data]


@pytest.mark.parametrize(
    ("qfilter", "names"),
    [
        (None, ["a1", "a2", "a10"]),
        (["==", "size", 2], ["a2"]),
        (["=", "size", 2], ["a2"]),
        (["!=", "size", 2], ["a1", "a10"]),
        (["<", "size", 2], ["a1"]),
        (["<=", "size", 2], ["a1", "a2"]),
        ([">", "size", 2], ["a10"]),
        ([">=", "size", 2.0], ["a2", "a10"]),
        (["?", "even"], ["a2"]),
        (["!", ["?", "even"]], ["a1", "a10"]),
        (["==", "even", False], ["a1", "a10"]),
        (["=~", "name", "^a1"], ["a1", "a10"]),
        (["=[]", "tags", "y"], ["a2"]),
        (["&", ["=[]", "tags", "x"], [">", "size", 1]], ["a2"]),
        (["|", ["==", "size", 1], ["==", "size", 3]], ["a1", "a10"]),
        (["&"], ["a1", "a2", "a10"]),
        (["|"], []),
        (["==", "born", 2], ["a2"]),
        (["<", "born", 2.9], ["a1"]),
        (["==", "begun", 2], ["a2"]),
        ([">", "begun", 1], ["a2"]),
        (["<=", "begun", [2, 5]], ["a1", "a2"]),
        (["!=", "begun", None], ["a1", "a2"]),
        (["<", "none", 5], []),
        (["!", ["<", "none", 5]], ["a1", "a2", "a10"]),
        (["==", "born", float("inf")], []),
        (["==", "note", "hello"], ["a1", "a2", "a10"]),
        (["!=", "note", "hello"], []),
        (["!=", "note", "other"], ["a2"]),
        (["!", ["==", "note", "other"]], ["a2"]),
        (["?", "note"], ["a1", "a2", "a10"]),
        (["!", ["?", "note"]], []),
        (["|", ["!=", "note", "hello"], ["==", "size", 1]], ["a1"]),
        (["&", ["==", "note", "hello"], ["==", "size", 3]], ["a10"]),
        (["==", "name", "a10"], ["a10"]),
        (["==", "name", "a10.example"], ["a10"]),
        (["|", ["==", "name", "a10"], ["==", "name", "a1"], ["==", "name", "a10"]], ["a10", "a1"]),
        (["==", "beat", 20], ["a2"]),
        (["&", ["==", "name", "a1"], ["==", "size", 1]], ["a1"]),
    ],
)
def test_rows_that_pass_in_their_order(qfilter, names):
    assert ask(qfilter) == names


@pytest.mark.parametrize(
    "qfilter",
    [
        [],
        "name",
        7,
        ["=="],
        ["==", "size"],
        ["==", "size", 1, 2],
        ["~", "size", 1],
        ["!"],
        ["!", 5],
        ["?", 5],
        ["==", "nothing", 1],
        ["?", "nothing"],
        ["==", "size", "two"],
        ["<", "size", "two"],
        ["==", "even", 1],
        ["=~", "size", "1"],
        ["=~", "name", "("],
        ["=~", "name", 5],
        ["=[]", "name", "a"],
        ["=~", "name", "a{99999999999999}"],
        ["==", "born", ["yesterday"]],
        ["<", "born", [None]],
        ["<", "begun", ["yesterday"]],
        ["<", "none", None],
        ["<", "tags", [1]],
        ["<", "values", {}],
        ["&", ["==", "size", None], 3],
    ],
)
def test_filters_that_are_refused(qfilter):
    with pytest.raises(GanetiError) as raised:
        ask(qfilter)
    assert len(str(raised.value)) > 10


@pytest.mark.parametrize(
    ("qfilter", "says"),
    [
        ("name", "^'name' is not a filter"),
        (["<", "name", 3], "^Field 'name' is text: it cannot be compared with 3$"),
        (["==", "even", "yes"], "^Field 'even' is a truth value: it"),
        (["==", "size", "two"], "^Field 'size' is a number: it"),
        (["==", "tags", 1], "^Field 'tags' is no single value: it"),
        (["<", "values", {}], "^Field 'values' has no order: compare it with == or !=$"),
    ],
)
def test_refusals_are_in_plain_words(qfilter, says):
    with pytest.raises(GanetiError, match=says):
        ask(qfilter)


def test_a_filter_nested_too_deep_is_refused():
    qfilter: Any = ["?", "even"]
    for _ in range(3000):
        qfilter = ["!", qfilter]
    with pytest.raises(GanetiError, match="nested"):
        ask(qfilter)


def test_names_nested_too_deep_are_no_list_of_names():
    """They are asked for before the filter is read."""
    qfilter: Any = ["==", "name", "a1"]
    for _ in range(3000):
        qfilter = ["|", qfilter]
    assert asked_names(qfilter, "name") is None
    with pytest.raises(GanetiError, match="nested"):
        ask(qfilter)


@pytest.mark.parametrize("part", [["==", "name", "a1"], ["|"], ["!", ["?", "even"]]])
def test_a_filter_with_very_many_parts_is_refused(part):
    """It would keep the daemon busy for minutes."""
    with pytest.raises(QueryFilterParseError, match="has more than 20000 parts: divide it"):
        ask(["|", *[part] * 20_001])


def test_a_filter_is_as_long_as_there_are_few_rows():
    long = ["|", *[["==", "even", True]] * 999]
    check_work(long, 5000)
    with pytest.raises(QueryFilterParseError, match="has 1000 parts, too many for 5001 objects"):
        check_work(long, 5001)


def test_an_unknown_name_is_an_error_that_says_so():
    with pytest.raises(PrerequisiteError, match=r"Thing 'a7' not known: there are a1"):
        ask(["|", ["==", "name", "a1"], ["==", "name", "a7"]])


def test_only_rows_that_are_shown_cost_a_question_unless_the_filter_needs_it():
    collected: list[Any] = []
    assert ask(["==", "size", 2], ("name", "beat"), collected) == [[[0, "a2.example.com"], [0, 20]]]
    assert collected == [(["a2.example.com"], ["beat"])]
    collected.clear()
    ask([">", "beat", 15], ("name", "size"), collected)
    assert collected == [(["a1.example.com", "a2.example.com", "a10.example.com"], ["beat"])]
    collected.clear()
    ask(None, ("name", "size"), collected)
    assert collected == []


def test_unknown_fields_and_missing_values():
    assert ask(["==", "name", "a1"], ("nonsense", "note")) == [[[1, None], [3, None]]]
    fields, data = asyncio.run(run_query(THINGS, ROWS[:1], ["nonsense"], None, None))
    assert fields[0].describe()["kind"] == "unknown"
    with pytest.raises(PrerequisiteError, match="Unknown output fields selected: nonsense"):
        legacy_rows(THINGS, fields, data)


def test_fields_are_listed_in_natural_order_without_hidden_ones():
    names = [field["name"] for field in describe_fields(THINGS, None)["fields"]]
    assert names == ["beat", "begun", "born", "even", "name", "none", "note", "size", "tags", "values"]
    assert [field["kind"] for field in describe_fields(THINGS, ["secret", "what"])["fields"]] == ["other", "unknown"]


@pytest.mark.parametrize("pattern", ["([a-z0-9.]+)+A$", "(a*)*b", "a{2,99}" * 9])
def test_a_pattern_that_could_keep_the_daemon_busy_for_hours_is_refused(pattern: str) -> None:
    with pytest.raises(GanetiError, match=r"is not a regular expression for a filter: it has .*repetition"):
        ask(["=~", "name", pattern])


def test_a_pattern_that_takes_too_long_for_a_value_is_refused() -> None:
    row = Row("a" * 3000, 1, [])
    with pytest.raises(GanetiError, match=r"cannot be looked for in field 'name': .*3000 characters"):
        asyncio.run(run_query(THINGS, [row], ["name"], ["=~", "name", ".*a.*b"], collect_nothing))


async def collect_nothing(rows: Any, fields: Any) -> None:
    """No field is live."""
