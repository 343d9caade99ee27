# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster and gnt-group show-ispecs-cmd: options that make the same bounds again."""

import pytest

SMALL, LARGE = {"memory-size": 4, "cpu-count": 1}, {"memory-size": 64, "cpu-count": 8}
PAIR = {"min": SMALL, "max": LARGE}
BOUNDS = "min:cpu-count=1,memory-size=4/max:cpu-count=8,memory-size=64"


def test_the_cluster(gnt, master):
    master.answers["QueryClusterInfo"] = {"name": "c.example", "ipolicy": {"std": SMALL, "minmax": [PAIR, PAIR]}}
    assert gnt("gnt-cluster show-ispecs-cmd").out == (
        "gnt-cluster init --ipolicy-std-specs cpu-count=1,memory-size=4"
        f" --ipolicy-bounds-specs {BOUNDS}//{BOUNDS} c.example\n"
    )


@pytest.mark.parametrize(
    ("option", "field", "policy", "line"),
    [
        ("", "custom_ipolicy", {}, "gnt-group add east"),
        ("", "custom_ipolicy", {"minmax": [PAIR]}, f"gnt-group add --ipolicy-bounds-specs {BOUNDS} east"),
        ("--include-defaults", "ipolicy", {"minmax": [PAIR]}, f"gnt-group add --ipolicy-bounds-specs {BOUNDS} east"),
    ],
)
def test_a_group(gnt, master, option, field, policy, line):
    master.answers["Query"] = {"data": [[[0, "east"], [0, "u1"], [0, policy]]]}
    assert gnt(f"gnt-group show-ispecs-cmd {option} east").out == f"{line}\n"
    assert master.calls("Query")[0][1] == ["name", "uuid", field]


def test_a_group_that_is_not_there(gnt, master):
    master.answers["Query"] = {"data": []}
    ran = gnt("gnt-group show-ispecs-cmd nowhere")
    assert (ran.status, "no node group nowhere" in ran.err) == (1, True)


def test_a_name_with_a_space_is_one_word(gnt, master):
    master.answers["Query"] = {"data": [[[0, "east rack"], [0, "u1"], [0, {}]]]}
    assert gnt("gnt-group show-ispecs-cmd", "east rack").out == "gnt-group add 'east rack'\n"
