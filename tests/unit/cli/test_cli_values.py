# SPDX-License-Identifier: BSD-2-Clause
"""Values of options, held against what the cluster reads."""

import pytest

from ganeti.base.errors import UnitParseError
from ganeti.base.units import parse_duration_s, parse_size_mib
from ganeti.cli import values
from ganeti.cli.failures import UsageError
from ganeti.cli.option_kinds import READERS


@pytest.mark.parametrize("text", ["1024", "1G", "512m", "1.5g", "2T", "3 GB", "1MiB", "1k", "0", "10tb", "0.1g"])
def test_sizes_are_read_as_the_cluster_reads_them(text):
    assert values.read_size("-s", text) == parse_size_mib(text)


@pytest.mark.parametrize("text", ["", "x", "1x", "g", "-1", "1.2.3", "1.", ".5", "1 2", "1gg", "1b2"])
def test_what_is_no_size_is_none_to_the_cluster_either(text):
    with pytest.raises(UnitParseError):
        parse_size_mib(text)
    with pytest.raises(UsageError, match="is not a size: write a number"):
        values.read_size("-s", text)


@pytest.mark.parametrize("text", ["9" * 400, "9" * 5000, "9" * 400 + ".5g"])
def test_a_size_beyond_all_numbers_is_refused(text):
    for refused in (lambda: parse_size_mib(text), lambda: values.read_size("-s", text)):
        with pytest.raises((UnitParseError, UsageError), match="is larger than any size: give at most") as caught:
            refused()
        assert len(str(caught.value)) < 120, "the number itself is not told to its end"
    huge = "99999999999999999999t"
    assert values.read_size("-s", huge) == parse_size_mib(huge) > 2**63, "the master knows what is too much"


@pytest.mark.parametrize("text", ["9" * 19, "9" * 5000, "9" * 400 + "w", "15250284452472w"])
def test_a_time_beyond_all_bounds_is_refused(text):
    for refused in (lambda: parse_duration_s(text), lambda: values.read_duration("-t", text)):
        with pytest.raises((UnitParseError, UsageError), match="is longer than any time: give at most") as caught:
            refused()
        assert len(str(caught.value)) < 120


@pytest.mark.parametrize("text", ["0", "30", "5m", "2h", "1d", "3w", "7s"])
def test_durations_are_read_as_the_cluster_reads_them(text):
    assert values.read_duration("-t", text) == parse_duration_s(text)


@pytest.mark.parametrize("text", ["", "1.5m", "m", "5M", "5y", "-1"])
def test_what_is_no_duration(text):
    with pytest.raises(UnitParseError):
        parse_duration_s(text)
    with pytest.raises(UsageError, match="suffix s, m, h, d or w"):
        values.read_duration("-t", text)


def test_key_values_have_four_forms():
    assert values.read_key_values("-H", "a=1,no_b,-c,d,e=x=y,f=") == {
        "a": "1",
        "b": False,
        "c": "default",
        "d": True,
        "e": "x=y",
        "f": "",
    }
    assert values.read_key_values("-H", "") == {}


def test_a_backslash_keeps_a_comma():
    assert values.read_key_values("-H", r"args=a\,b,x=\\,y=\n") == {"args": "a,b", "x": "\\", "y": r"\n"}
    assert values.read_list("-t", r"a\,b,c,") == ["a,b", "c"]


@pytest.mark.parametrize("text", ["node1:node2", "node1,node2"])
def test_the_nodes_of_an_instance(text):
    assert values.read_nodes("-n", text) == ["node1", "node2"]
    assert values.read_nodes("-n", "node1") == ["node1"]
    with pytest.raises(UsageError, match="NODE:SECONDARY"):
        values.read_nodes("-n", "node1:")


@pytest.mark.parametrize(
    ("text", "message"),
    [("=1", "has no name"), ("a=1,a=2", "'a' is given twice"), ("no_", "no name"), ("a,,b", "no name")],
)
def test_bad_key_values(text, message):
    with pytest.raises(UsageError, match=message):
        values.read_key_values("-B", text)


def test_disks_are_put_in_order_with_sizes_in_mib():
    assert values.collect_disks("--disk", ["1:size=512m,mode=ro", "0:size=1g,spindles=2"]) == [
        {"size": 1024, "spindles": 2},
        {"size": 512, "mode": "ro"},
    ]
    assert values.collect_disks("--disk", ["0:adopt=lv0"]) == [{"adopt": "lv0", "size": 0}]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["0"], "0: the size is missing"),
        (["1:size=1g"], "0: the size is missing"),
        (["0:size=1x"], "'1x' is not a size"),
        (["0:size"], "'True' is not a size"),
        (["a:size=1g"], "'a' is not an index from 0 to 15"),
        (["16:size=1g"], "'16' is not an index from 0 to 15"),
        (["-1:size=1g"], "not an index"),
        (["size=1g"], "no identifier"),
        (["0:size=1g", "0:size=2g"], "index 0 is given twice"),
        (["0:size=1g,adopt=x"], "exclude each other"),
        (["0:size=1g,spindles=many"], "not a whole number"),
    ],
)
def test_bad_disks(texts, message):
    with pytest.raises(UsageError, match=message):
        values.collect_disks("--disk", texts)


def test_nics_fill_gaps_with_defaults():
    assert values.collect_nics("--net", ["1:ip=10.0.0.1"]) == [{}, {"ip": "10.0.0.1"}]
    with pytest.raises(UsageError, match="index from 0 to 7"):
        values.collect_nics("--net", ["8:ip=10.0.0.1"])


def test_idents():
    assert values.collect_idents("-H", ["kvm:acpi=no,no_rng", "fake"]) == {
        "kvm": {"acpi": "no", "rng": False},
        "fake": {},
    }
    with pytest.raises(UsageError, match="has no identifier"):
        values.collect_idents("-H", ["acpi=no"])
    with pytest.raises(UsageError, match="'kvm' is given twice"):
        values.collect_idents("-H", ["kvm:a=1", "kvm:b=2"])


def test_changes_of_disks_know_all_forms():
    read = values.collect_changes
    assert read("--disk", ["add:size=1g", "0:remove", "-1:add,size=512", "root:modify,mode=ro", "1:name=x"]) == [
        ["add", -1, {"size": 1024}],
        ["remove", 0, {}],
        ["add", -1, {"size": 512}],
        ["modify", "root", {"mode": "ro"}],
        ["modify", 1, {"name": "x"}],
    ]
    assert read("--disk", ["attach:name=data", "detach"]) == [["attach", -1, {"name": "data"}], ["detach", -1, {}]]
    for text, place in (("add:size=x", "add"), ("-1:add,size=x", "-1"), ("0:size=x", "0")):
        with pytest.raises(UsageError, match=f"^--disk {place}: size: 'x' is not a size"):
            read("--disk", [text])


def test_ranges_and_bounds():
    assert values.read_ranges("--uid-pool", "1000,2000-2010") == [[1000, 1000], [2000, 2010]]
    with pytest.raises(UsageError, match="'5-1' is not a range"):
        values.read_ranges("--uid-pool", "5-1")
    assert values.read_bounds("-i", "default") == values.read_ratio("-i", "default") == "default"
    assert values.read_ratio("-i", "2") == 2.0
    assert values.read_bounds("-i", "min:memory-size=1g,cpu-count=1/max:cpu-count=4") == [
        {"min": {"memory-size": 1024, "cpu-count": 1}, "max": {"cpu-count": 4}}
    ]
    with pytest.raises(UsageError, match="must have both sides"):
        values.read_bounds("-i", "min:cpu-count=1")


@pytest.mark.parametrize(
    ("text", "value"), [("yes", True), ("No", False), ("TRUE", True), ("false", False), ("on", True), ("off", False)]
)
def test_yes_and_no(text, value):
    assert values.read_yes_no("-C", text) is value


def test_neither_yes_nor_no():
    with pytest.raises(UsageError, match="'maybe' is neither yes nor no"):
        values.read_yes_no("-C", "maybe")


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "x", ""])
def test_what_is_no_number(text):
    with pytest.raises(UsageError):
        values.read_float("--interval", text)


def test_seconds_of_a_name_are_a_number_of_microseconds():
    read = READERS["name-seconds"]
    assert read("--data-collector-interval", "diagnose=0.5,lv=60") == {"diagnose": 500_000, "lv": 60_000_000}
    for text in ("diagnose", "no_diagnose"):
        with pytest.raises(UsageError, match="write NAME=SECONDS, such as diagnose=60"):
            read("--data-collector-interval", text)
