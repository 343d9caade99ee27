# SPDX-License-Identifier: BSD-2-Clause
"""Named laws of the query filter over random filters and rows.

NotIsAnOpposite    where every value is there, `!` f passes exactly the rows f does not
AndOrAreSets       `&` passes the intersection, `|` the union of what its parts pass
MissingPasses      a row whose compared value is missing passes that comparison, and not its negation
NonsenseIsRefused  whatever is no filter is an error of ours, never a crash
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.thoroughness import examples

from ganeti.base.errors import GanetiError
from ganeti.master.query.fields import NUMBER, OTHER, TEXT, UNAVAILABLE, Field, table
from ganeti.master.query.filters import compile_filter, passes

LAW = settings(max_examples=examples(100, quick=40))


@dataclass(frozen=True)
class Row:
    number: int
    text: str
    items: tuple[str, ...]


FIELDS = table(
    [
        Field("number", "N", NUMBER, "", lambda row: row.number),
        Field("text", "T", TEXT, "", lambda row: row.text),
        Field("items", "I", OTHER, "", lambda row: list(row.items)),
        Field("absent", "A", NUMBER, "", lambda row: UNAVAILABLE),
    ]
)
words = st.sampled_from(["", "a", "ab", "b"])
rows = st.lists(st.builds(Row, st.integers(0, 5), words, st.lists(words, max_size=2).map(tuple)), max_size=8)
comparisons = st.one_of(
    st.tuples(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), st.just("number"), st.integers(0, 5)),
    st.tuples(st.sampled_from(["==", "!=", "<", ">="]), st.just("text"), words),
    st.tuples(st.just("=~"), st.just("text"), st.sampled_from(["^a", "b$", "."])),
    st.tuples(st.just("=[]"), st.just("items"), words),
    st.tuples(st.just("?"), st.sampled_from(["number", "text", "items"])),
).map(list)
filters = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(lambda part: ["!", part], inner),
        st.builds(lambda sign, parts: [sign, *parts], st.sampled_from("&|"), st.lists(inner, max_size=3)),
    ),
    max_leaves=8,
)
json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.sampled_from("&|!?"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=12,
)


def passing(qfilter: Any, among: list[Row]) -> list[Row]:
    predicate, _ = compile_filter(qfilter, FIELDS)
    return [row for row in among if passes(predicate, row)]


@LAW
@given(filters, rows)
def test_not_is_an_opposite(qfilter, among):
    kept = passing(qfilter, among)
    assert passing(["!", qfilter], among) == [row for row in among if row not in kept]


@LAW
@given(st.lists(filters, max_size=3), rows)
def test_and_or_are_sets(parts, among):
    each = [passing(part, among) for part in parts]
    assert passing(["&", *parts], among) == [row for row in among if all(row in kept for kept in each)]
    assert passing(["|", *parts], among) == [row for row in among if any(row in kept for kept in each)]


@LAW
@given(st.sampled_from(["==", "<", ">"]), st.integers(), rows)
def test_missing_passes(operator, value, among):
    comparison = [operator, "absent", value]
    assert passing(comparison, among) == passing(["!", ["!", comparison]], among) == among
    assert passing(["!", comparison], among) == passing(["!=", "absent", value], among) == []
    assert passing(["&", comparison, ["==", "number", 2]], among) == passing(["==", "number", 2], among)


@LAW
@given(json, rows)
def test_nonsense_is_refused(qfilter, among):
    try:
        passing(qfilter, among)
    except GanetiError as err:
        assert str(err)
