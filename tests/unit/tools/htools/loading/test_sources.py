# SPDX-License-Identifier: BSD-2-Clause
"""What loading makes of a cluster and the options: aliases, movable instances, offline nodes, loads, warnings."""

from dataclasses import replace
from pathlib import Path

import pytest

from ganeti.placement.cluster.picture import Cluster, Group, Instance, Node
from ganeti.tools.htools.command_line.options import Options
from ganeti.tools.htools.haskell.failures import ToolError
from ganeti.tools.htools.loading.sources import Source, common_suffix, find, load, prepared
from ganeti.tools.htools.loading.utilization import read_file

NODES = [Node(f"n{number}.x", "g1" if number < 3 else "g2") for number in range(1, 5)]
INSTANCES = [
    Instance("a.x", 0, 0, 1, "drbd", "n1.x", "n2.x"),
    Instance("b.x", 0, 0, 1, "drbd", "n2.x", "n3.x"),
    Instance("c.x", 0, 0, 1, "plain", "n4.x"),
]
CLUSTER = Cluster(NODES, INSTANCES, [Group("g1", "one"), Group("g2", "two")])


@pytest.mark.parametrize(
    ("names", "suffix"),
    [
        (["a.x.y", "b.x.y"], ".x.y"),
        (["a.x.y", "bx.y"], ".y"),
        (["a", "b"], ""),
        (["ab", "cb"], ""),
        (["x.y", "y"], ""),
        (["a.x"], ".x"),
        ([], ""),
        (["a.", "b."], "."),
    ],
)
def test_common_suffix(names: list[str], suffix: str) -> None:
    assert common_suffix(names) == suffix


@pytest.mark.parametrize(
    ("name", "found"),
    [("a", "a.x"), ("a.x", "a.x"), ("b", None), ("b.x", "b.x"), ("a.", None), ("c", None), ("", None)],
)
def test_names_match_whole_or_up_to_a_dot(name: str, found: str | None) -> None:
    assert find(name, ["a.x", "b.x", "b.y"]) == found


def test_instances_in_two_groups_do_not_move() -> None:
    loaded = prepared(Source(CLUSTER, ["n1.x"]), Options())
    assert loaded.movable == [True, False, True]
    assert loaded.split == ["b.x"]
    assert loaded.selected_instances == ["a.x", "c.x"]
    assert loaded.master == "n1.x"
    assert loaded.alias_of("n1.x") == "n1"
    assert loaded.alias_of("other") == "other"


def test_selection_and_exclusion() -> None:
    options = Options()
    options.select_instances, options.exclude_instances = ["a", "c.x"], ["c"]
    assert prepared(Source(CLUSTER), options).movable == [True, False, False]


def test_offline_nodes_stay_as_they_were_in_what_was_read() -> None:
    options = Options()
    options.offline = ["n2"]
    loaded = prepared(Source(CLUSTER), options)
    assert [node.unavailable for node in loaded.cluster.nodes] == ["", "offline", "", ""]
    assert list(loaded.as_read.nodes) == NODES


def test_limits_of_the_options_reach_the_state() -> None:
    options = Options()
    options.min_disk_ratio, options.max_cpu_ratio, options.exclusion_tags = 0.5, 3.0, ["a"]
    nodes = [replace(node, total_disk_mib=1000.0, free_disk_mib=1000) for node in NODES]
    state = prepared(Source(replace(CLUSTER, nodes=nodes)), options).state()
    assert state.low_disk == [500] * 4
    assert state.vcpu_ratio == [3.0] * 4
    assert state.rules.exclusion == ("a:",)


def test_missing_memory_and_disk_are_told_latest_node_first(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [
        replace(NODES[0], total_memory_mib=513.0),
        replace(NODES[1], total_memory_mib=512.0, total_disk_mib=1024.0),
        replace(NODES[2], total_disk_mib=2049.0),
        NODES[3],
    ]
    prepared(Source(replace(CLUSTER, nodes=nodes)), Options())
    assert capsys.readouterr().err == (
        "Warning: cluster has inconsistent data:\n"
        "  - node n3.x is missing 0 MB ram and 2 GB disk\n"
        "  - node n1.x is missing 513 MB ram and 0 GB disk\n\n"
    )


def test_of_two_nodes_with_one_name_the_later_has_the_instances(capsys: pytest.CaptureFixture[str]) -> None:
    twin = Node("n.x", "g1", total_disk_mib=5120.0)
    instance = Instance("a.x", 0, 5120, 1, "plain", "n.x")
    prepared(Source(Cluster([twin, twin], [instance], CLUSTER.groups)), Options())
    assert capsys.readouterr().err.count("n.x is missing 0 MB ram and 5 GB disk") == 1


def test_a_forthcoming_instance_explains_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    instance = Instance("a.x", 0, 5120, 1, "plain", "n.x", forthcoming=True)
    node = Node("n.x", "g1", total_disk_mib=5120.0)
    prepared(Source(Cluster([node], [instance], CLUSTER.groups)), Options())
    assert "n.x is missing 0 MB ram and 5 GB disk" in capsys.readouterr().err


def test_a_quiet_tool_says_nothing_of_missing_memory(capsys: pytest.CaptureFixture[str]) -> None:
    options = Options()
    options.verbosity = 0
    prepared(Source(replace(CLUSTER, nodes=[replace(node, total_memory_mib=9999.0) for node in NODES])), options)
    assert capsys.readouterr().err == ""


def test_measured_load(tmp_path: Path) -> None:
    path = tmp_path / "load"
    path.write_text("a.x 1 2 3 4.5\nunknown 1 1 1 1\n")
    options, measured = Options(), read_file(str(path))
    loads = [instance.load for instance in prepared(Source(CLUSTER), options, measured=measured).cluster.instances]
    assert loads == [(1.0, 2.0, 3.0, 4.5), (1.0,) * 4, (1.0,) * 4]
    options.ignore_utilization = True
    ignored = prepared(Source(CLUSTER), options, measured=measured)
    assert {instance.load for instance in ignored.cluster.instances} == {(0.0,) * 4}


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"\xff\xfe\n\n\n\n")
    options = Options()
    options.text_data = str(path)
    with pytest.raises(ToolError, match=r"hGetContents: invalid argument \(invalid byte sequence\)"):
        load(options)
