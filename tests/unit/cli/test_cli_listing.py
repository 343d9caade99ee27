# SPDX-License-Identifier: BSD-2-Clause
"""Tables of list and list-fields, and the questions they ask."""

import time

import pytest
from fake_master import Turns

from ganeti.cli.commands import listing


def field(name, kind, title=None):
    return {"name": name, "kind": kind, "title": title or name.capitalize(), "doc": f"About {name}"}


def answer(*columns):
    """Columns as (field, cell, cell…); a cell given as a tuple is (status, value)."""
    rows = zip(*(column[1:] for column in columns), strict=True)
    return {
        "fields": [column[0] for column in columns],
        "data": [[list(cell) if isinstance(cell, tuple) else [0, cell] for cell in row] for row in rows],
    }


SIZES = answer((field("name", "text"), "a", "b", "c"), (field("dfree", "unit"), 512, 1536, 3 * 1024**2))


@pytest.mark.parametrize(
    ("options", "column"),
    [
        ("", ["512M", "1.5G", "3.0T"]),
        ("--units h --separator=:", ["512M", "1.5G", "3.0T"]),
        ("--separator=:", ["512", "1536", "3145728"]),
        ("--units m", ["512", "1536", "3145728"]),
        ("--units g", ["0.5", "1.5", "3072.0"]),
        ("--units t", ["0.0", "0.0", "3.0"]),
    ],
)
def test_units(gnt, master, options, column):
    master.answers["Query"] = SIZES
    ran = gnt(f"gnt-node list --no-headers {options}")
    assert [line.replace(":", " ").split()[1] for line in ran.out.splitlines()] == column


@pytest.mark.parametrize(
    ("mib", "shown"),
    [(0, "0M"), (1023, "1023M"), (1024, "1.0G"), (1024**2 - 1, "1024.0G"), (1024**2, "1.0T"), (5 * 1024**2, "5.0T")],
)
def test_the_unit_of_a_size_is_the_largest_that_it_reaches(mib, shown):
    assert listing.size(mib, "h") == shown


def test_what_is_not_known_has_a_sign_or_a_word(gnt, master):
    master.answers["Query"] = answer(
        (field("name", "text"), "a"),
        (field("w", "unit"), (1, None)),
        (field("x", "number"), (2, None)),
        (field("y", "text"), (3, None)),
        (field("z", "bool"), (4, None)),
    )
    assert gnt("gnt-node list --no-headers").out == "a ?? ? - *\n"
    assert gnt("gnt-node list --no-headers -v").out == "a (unknown) (nodata) (unavail) (offline)\n"


def test_kinds_of_values(gnt, master, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    master.answers["Query"] = answer(
        (field("b", "bool"), True),
        (field("n", "bool"), False),
        (field("ctime", "timestamp"), 1795187492.9),
        (field("ndparams", "other"), {"a": 1}),
        (field("tags", "other"), ["x", "y"]),
        (field("f", "float"), 1.25),
    )
    assert gnt("gnt-node list --no-headers --separator=|").out == "Y|N|2026-11-20 15:11:32|{'a': 1}|x,y|1.25\n"


def test_an_unknown_field_is_status_14(gnt, master):
    master.answers["Query"] = answer((field("name", "text"), "a"), (field("foo", "unknown"), (1, None)))
    ran = gnt("gnt-node list -o name,foo")
    assert ran.status == 14
    assert ran.err == "Unknown field: foo; see 'gnt-node list-fields' for those there are\n"
    assert ran.out == "Name Foo\na    ??\n"


def test_list_fields(gnt, master):
    master.answers["QueryFields"] = {"fields": [field("name", "text"), field("dfree", "unit"), field("x", "other")]}
    ran = gnt("gnt-node list-fields")
    assert ran.out.splitlines() == [
        "Name  Type         Title Description",
        "name  Text         Name  About name",
        "dfree Storage size Dfree About dfree",
        "x     Custom       X     About x",
    ]
    assert gnt("gnt-node list-fields --no-headers --separator=| name").out.startswith("name|Text|Name|About name\n")
    assert master.calls("QueryFields") == [["node", []], ["node", ["name"]]]


def test_list_fields_of_an_unknown_one(gnt, master):
    master.answers["QueryFields"] = {"fields": [field("nosuch", "unknown")]}
    assert gnt("gnt-instance list-fields nosuch").status == 14


@pytest.mark.parametrize(
    ("line", "fields", "condition"),
    [
        ("gnt-node list", listing.NODE.fields, None),
        ("gnt-node list -o +uuid,tags", [*listing.NODE.fields, "uuid", "tags"], None),
        ("gnt-node list -o name a b", ["name"], ["|", ["==", "name", "a"], ["==", "name", "b"]]),
        ("gnt-node list -o name web*.x?", ["name"], ["|", ["=~", "name", "^web.*\\.x.$"]]),
        ("gnt-node list -o name master_candidate", ["name"], ["|", ["==", "name", "master_candidate"]]),
        ("gnt-node list -o name -F master_candidate", ["name"], ["?", "master_candidate"]),
        ("gnt-node list -o name mfree>512", ["name"], [">", "mfree", 512]),
    ],
)
def test_questions_about_nodes(gnt, master, line, fields, condition):
    master.answers["Query"] = answer()
    gnt(line)
    assert master.calls("Query") == [["node", fields, condition]]


def test_nodes_of_a_group_by_its_name_or_uuid(gnt, master):
    master.answers["Query"] = lambda what, *_: answer((field("name", "text"), "rack1"))
    in_group = ["==", "group", "rack1"]
    for line, condition in (
        ("gnt-node list -o name -g uuid1", in_group),
        ("gnt-node list -o name -g rack1 a", ["&", ["|", ["==", "name", "a"]], in_group]),
    ):
        gnt(line)
        asked = line.split()[5]
        assert master.calls("Query")[-2:] == [
            ["group", ["name"], ["|", ["==", "name", asked], ["==", "uuid", asked]]],
            ["node", ["name"], condition],
        ]


@pytest.mark.parametrize("command", ["list", "info"])
def test_a_group_that_is_not_there_has_no_nodes(gnt, master, command):
    master.answers["Query"] = answer()
    ran = gnt(f"gnt-node {command} -g nope")
    assert (ran.status, ran.out, ran.err) == (1, "", "There is no node group 'nope': see gnt-group list\n")


EVERY_JOB = ["|", ["?", "archived"], ["!", ["?", "archived"]]]


@pytest.mark.parametrize(
    ("words", "condition"),
    [
        ("", None),
        ("3 14", ["|", ["==", "id", 3], ["==", "id", 14]]),
        ("--running", ["|", ["==", "status", "running"]]),
        ("--pending", ["|", ["==", "status", "queued"], ["==", "status", "waiting"], ["==", "status", "canceling"]]),
        ("--archived", EVERY_JOB),
        ("--archived --running", ["&", ["|", ["==", "status", "running"]], EVERY_JOB]),
        ("--error 3", ["&", ["|", ["==", "id", 3]], ["|", ["==", "status", "error"]]]),
    ],
)
def test_questions_about_jobs(gnt, master, words, condition):
    master.answers["Query"] = answer()
    gnt(f"gnt-job list {words}")
    assert master.calls("Query") == [["job", ["id", "status", "summary"], condition]]


def test_times_of_jobs(gnt, master, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    stamp = [1795187492, 417975]
    master.answers["Query"] = answer((field("opstart", "other"), [stamp, None]), (field("end_ts", "other"), None))
    assert gnt("gnt-job list --no-headers").out == "2026-11-20 15:11:32.417975,None -\n"


def test_whole_floats_stand_without_a_point_as_in_3_1(gnt, master):
    master.answers["Query"] = answer((field("ndp/cpu_speed", "float"), 1.0, 2.5, (3, None)))
    assert gnt("gnt-node list --no-headers -o ndp/cpu_speed").out == "  1\n2.5\n  -\n"


def test_node_groups(gnt, master):
    """Parameters stand as pairs, by name."""
    master.answers["Query"] = answer(
        (field("name", "text"), "rack1", "rack2"), (field("ndparams", "other"), {"ssh_port": 22, "cpu_speed": 1.0}, {})
    )
    assert gnt("gnt-group list --no-headers").out == "rack1 cpu_speed=1, ssh_port=22\nrack2 (empty)\n"
    gnt("gnt-group list -o name rack1")
    assert master.calls("Query") == [
        ["group", ["name", "node_cnt", "pinst_cnt", "alloc_policy", "ndparams"], None],
        ["group", ["name"], ["|", ["==", "name", "rack1"]]],
    ]


def test_networks(gnt, master):
    """Connected groups stand with how their nodes are connected."""
    connected = [["rack1", "bridged", "br0", ""], ["rack2", "openvswitch", "sw0", ".1"]]
    master.answers["Query"] = answer((field("name", "text"), "lan"), (field("group_list", "other"), connected))
    assert gnt("gnt-network list --no-headers").out == "lan rack1 (bridged, br0, ), rack2 (openvswitch, sw0, .1)\n"
    fields = ["name", "network", "gateway", "mac_prefix", "group_list", "tags"]
    assert master.calls("Query") == [["network", fields, None]]


def test_locks(gnt, master):
    master.answers["Query"] = answer(
        (field("name", "other"), "cluster/BGL", "node/a"),
        (field("mode", "other"), "shared", None),
        (field("owner", "other"), ["job 1", "job 2"], None),
        (field("pending", "other"), [], [["exclusive", ["3", "4"]]]),
    )
    assert gnt("gnt-debug locks").out.splitlines()[1:] == [
        "cluster/BGL shared job 1,job 2 -",
        "node/a      -      -           exclusive:3,4",
    ]


def test_locks_again_and_again(gnt, master, monkeypatch):
    master.answers["Query"] = Turns(answer((field("name", "other"), "a")), answer((field("name", "other"), "b")))
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        if len(waited) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(listing.time, "sleep", sleep)
    ran = gnt("gnt-debug locks --interval 2.5 --no-headers")
    assert (ran.status, ran.out, waited) == (0, "a\n\nb\n", [2.5, 2.5])


def test_default_options_from_the_environment(gnt, master, monkeypatch):
    monkeypatch.setenv("GNT_NODE_LIST", "--no-headers --separator='; '")
    monkeypatch.setenv("GNT_JOB_LIST", "--no-headers")
    master.answers["Query"] = answer((field("name", "text"), "a"), (field("x", "text"), "b"))
    assert gnt("gnt-node list").out == "a; b\n"
    assert gnt("gnt-node list --separator=|").out == "a|b\n"
    assert gnt("gnt-job list").out.startswith("Name X\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("gnt-node list -o", "needs FIELDS after it"),
        ("gnt-node list -o ,", "-o needs at least one field"),
        ("gnt-node list --units k", "must be one of h, m, g, t"),
        ("gnt-node list -F a b", "as one argument"),
        ("gnt-job list web1", "'web1' is not a job id"),
    ],
)
def test_wrong_words(gnt, master, line, message):
    ran = gnt(line)
    assert ran.status != 0
    assert message in ran.err
