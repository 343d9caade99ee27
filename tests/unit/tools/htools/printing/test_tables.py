# SPDX-License-Identifier: BSD-2-Clause
"""Tables: alignment, chosen fields. Whole tables are compared in ``test_outputs``."""

import pytest

from ganeti.placement.cluster.picture import Cluster, Group, Instance, Node
from ganeti.placement.kernel.state import ClusterState
from ganeti.tools.htools.printing.tables import (
    DEFAULT_FIELDS,
    chosen_fields,
    coefficient_table,
    group_table,
    instance_table,
    node_table,
    table,
)


@pytest.fixture
def state() -> ClusterState:
    nodes = [Node("a.x", "g", 1000, 100, 600, 4096, 2048, 4), Node("b.x", "g", 1000, 100, 900, 4096, 2048, 4)]
    instances = [
        Instance("i", 300, 1024, 1, "drbd", "a.x", "b.x"),
        Instance("promised", 300, 1024, 1, "drbd", "a.x", "b.x", forthcoming=True),
    ]
    return ClusterState(Cluster(nodes, instances, [Group("g", "group")]))


def test_columns_are_padded_on_the_side_of_their_kind() -> None:
    assert table(">", ("N", "Value"), [["long", "1"]], (False, True)) == "> N    Value\n> long     1\n"


def test_a_last_column_of_text_keeps_its_padding() -> None:
    assert table("", ("N", "T"), [["1", "long"], ["2", ""]], (True, False)) == " N T   \n 1 long\n 2     \n"


@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        ([], [*DEFAULT_FIELDS]),
        (["+"], [*DEFAULT_FIELDS]),
        (["+name", "idx"], [*DEFAULT_FIELDS, "name", "idx"]),
        (["name"], ["name"]),
        (["", ""], ["", ""]),
        (["+", "name"], [*DEFAULT_FIELDS, "", "name"]),
    ],
)
def test_a_plus_adds_to_the_default_fields(asked: list[str], fields: list[str]) -> None:
    assert chosen_fields(asked) == fields


def test_forthcoming_instances_are_no_primaries_yet(state: ClusterState) -> None:
    text = node_table(state, [0, 1], ["name", "pcnt", "scnt", "plist", "slist", "peermap"], lambda name: name[:1])
    assert text.splitlines() == [
        " Name pcnt scnt primaries secondaries PeerMap  ",
        " a       1    0       [0]          [] []       ",
        " b       0    1        []         [0] [(0,300)]",
    ]


def test_an_unknown_field_says_so(state: ClusterState) -> None:
    assert node_table(state, [0], ["nothing"], str) == " <unknown field>\n <unknown field>\n"


def test_instances_show_full_names_of_nodes(state: ClusterState) -> None:
    assert " R i        a.x      b.x      Y " in instance_table(state, [0, 1])


def test_without_parts_of_the_score_there_are_no_rows() -> None:
    assert coefficient_table({}) == "   Field Value Weight\n"


def test_a_group_that_is_not_redundant() -> None:
    row = ("g", 3, 4, 1, 2, False, 0.5)
    assert group_table([row]).splitlines()[1] == "   g         3         4         1             2 False 0.50000000"
