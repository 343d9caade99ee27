# SPDX-License-Identifier: BSD-2-Clause
"""gnt-os info, diagnose and modify."""

import pytest

GOOD = ["/srv/os/noop", True, "", ["default"], [], [20], True]
BAD = ["/srv/os/noop", False, "no create script", [], [], [], False]


def test_info(gnt, master):
    master.job(
        [
            ["image", True, False, True, [20], ["default"], [["dhcp", "ask for addresses"]], False],
            ["broken", False, True, False, [], [], [], False],
        ]
    )
    assert gnt("gnt-os info").out.splitlines() == [
        *("image:", "  - valid: True", "  - hidden: False", "  - blacklisted: True"),
        *("  - API versions:", "    - 20", "  - variants:", "    - default"),
        *("  - parameters:", "    - dhcp: ask for addresses", "  - trusted: False", ""),
        *("broken:", "  - valid: False", "  - hidden: True", "  - blacklisted: False", ""),
    ]


def test_info_of_those_named(gnt, master):
    master.job([[name, False, False, False, [], [], [], False] for name in ("broken", "image")])
    shown = "image:\n  - valid: False\n  - hidden: False\n  - blacklisted: False\n\n"
    ran = gnt("gnt-os info image")
    assert (ran.status, ran.out, ran.err) == (0, shown, "")
    ran = gnt("gnt-os info image nope")
    fault = "There is no OS nope: gnt-os info shows all of them, without variants.\n"
    assert (ran.status, ran.out, ran.err) == (1, shown, fault)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([GOOD], "valid (path: /srv/os/noop) [API versions: 20] [variants: default] [no parameters] [trusted]"),
        ([BAD], "invalid - no create script (path: /srv/os/noop)"),
        ([], "not found"),
    ],
)
def test_diagnose(gnt, master, found, words):
    valid = found == [GOOD]
    master.job([["noop", valid, ["default"], {"u1": found}, False, False]])
    ran = gnt("gnt-os diagnose")
    assert ran.status == (0 if valid else 1)
    assert ran.out.splitlines() == [
        f"OS: noop [global status: {'valid' if valid else 'invalid'}]",
        "  Variants: [default]",
        f"  Node: u1, status: {words}",
        "",
    ]


def test_diagnose_marks_what_is_not_offered(gnt, master):
    master.job([["noop", True, [], {}, True, False], ["old", True, [], {}, True, True]])
    assert gnt("gnt-os diagnose").out.splitlines()[::2] == [
        "OS: noop [global status: valid] [hidden]",
        "OS: old [global status: valid] [hidden] [blacklisted]",
    ]


def test_a_node_without_an_answer(gnt, master):
    master.job([], log=([1, [0, 0], "message", "node2 is down"],))
    assert "node2 is down" in gnt("gnt-os diagnose").err


def test_modify(gnt, master):
    master.job([])
    gnt("gnt-os modify -H kvm:acpi=false -O dhcp=no --os-parameters-private key=x image")
    gnt("gnt-os modify --hidden yes --blacklisted no --dry-run image")
    assert master.submitted() == [
        {
            "OP_ID": "OP_CLUSTER_SET_PARAMS",
            "os_hvp": {"image": {"kvm": {"acpi": "false"}}},
            "osparams": {"image": {"dhcp": "no"}},
            "osparams_private_cluster": {"image": {"key": "x"}},
        },
        {
            "OP_ID": "OP_CLUSTER_SET_PARAMS",
            "hidden_os": [["add", "image"]],
            "blacklisted_os": [["remove", "image"]],
            "dry_run": True,
        },
    ]


def test_something_is_changed(gnt, master):
    ran = gnt("gnt-os modify image")
    assert (ran.status, "at least one" in ran.err) == (1, True)


@pytest.mark.requirement("S1.35")
@pytest.mark.parametrize("command", ["list", "diagnose", "info"])
def test_one_node_group_may_be_asked_alone(gnt, master, command):
    master.job([])
    assert gnt(f"gnt-os {command} -g rack1").status == 0
    assert master.submitted()[0]["group_name"] == "rack1"
