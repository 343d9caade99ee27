# SPDX-License-Identifier: BSD-2-Clause
"""gnt-network connect and disconnect: nothing is submitted where a node group or the network does not exist."""

import pytest


@pytest.fixture
def groups(master):
    master.answers["QueryClusterInfo"] = {"nicparams": {"default": {"mode": "bridged", "link": "br0", "vlan": ""}}}
    master.answers["QueryGroups"] = [["default", "u1"], ["green", "u2"]]
    master.answers["QueryNetworks"] = [["lan", "u3"], ["dmz", "u4"]]
    return master


def test_an_unknown_network_is_told_once(gnt, groups):
    for line in ("connect moon", "disconnect moon default"):
        ran = gnt(f"gnt-network {line}")
        assert (ran.status, ran.err) == (1, "Network 'moon' not known: there are lan, dmz\n")
    assert groups.submitted() == []


def test_an_unknown_group_ends_it_before_anything_is_connected(gnt, groups):
    """So it is with the words of older releases, which had mode and link among the arguments."""
    for line in ("connect lan bridged br0 default", "disconnect lan default moon"):
        ran = gnt(f"gnt-network {line}")
        assert ran.status == 1
        assert "not known: there are default, green" in ran.err
    assert groups.submitted() == []
    assert "mode and link are given with -N" in gnt("gnt-network connect lan bridged br0 default").err
    assert "-N" not in gnt("gnt-network disconnect lan moon").err


def test_groups_are_named_or_all_are_meant(gnt, groups):
    groups.answers["SubmitManyJobs"] = [[False, "not now"]]
    gnt("gnt-network connect -N link=br7 lan u2")
    gnt("gnt-network disconnect lan")
    asked = [(each["OP_ID"], each["group_name"], each.get("network_link")) for each in groups.submitted()]
    gone = "OP_NETWORK_DISCONNECT"
    assert asked == [("OP_NETWORK_CONNECT", "u2", "br7"), (gone, "default", None), (gone, "green", None)]
