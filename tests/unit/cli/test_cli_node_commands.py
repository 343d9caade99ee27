# SPDX-License-Identifier: BSD-2-Clause
"""gnt-node restricted-command, powercycle, volumes, modify-storage and repair-storage."""

import pytest

from ganeti.cli import confirm


@pytest.fixture
def nodes(master):
    """Two nodes in two groups, as a query for their ways gives them."""
    values = [["n1", "10.0.0.1", "10.0.0.1", False, True, 22, "default"]]
    values.append(["n2", "10.0.0.2", "10.0.0.2", False, False, 22, "green"])
    rows = [[[0, value] for value in row] for row in values]

    def answer(what, fields, qfilter):
        if what == "group":
            return {"data": [[[0, "green"]]] if qfilter[1][2] in ("green", "uuid-green") else []}
        named = {each[2] for each in qfilter[1:]} if qfilter else {"n1", "n2"}
        chosen = [row for row in rows if row[0][1] in named]
        return {"data": chosen if len(fields) > 1 else [row[:1] for row in chosen]}

    master.answers["Query"] = answer
    return master


def test_the_output_of_each_node(gnt, nodes):
    nodes.job([[True, "fine\nindeed"], [False, "off"]])
    ran = gnt("gnt-node restricted-command --sync check n1 n2")
    assert nodes.submitted() == [
        {"OP_ID": "OP_RESTRICTED_COMMAND", "command": "check", "nodes": ["n1", "n2"], "use_locking": True}
    ]
    line = "-" * 48
    assert (ran.status, ran.out) == (1, f"{line}\nnode: n1\nfine\nindeed\n{line}\nnode: n2\nerror: off\n")


def test_a_group_that_is_not_there(gnt, nodes):
    ran = gnt("gnt-node restricted-command -g nope check")
    assert (ran.status, ran.err) == (1, "There is no node group 'nope': see gnt-group list\n")


@pytest.mark.parametrize("group", ["green", "uuid-green"])
def test_only_a_group_with_names_before_each_line(gnt, nodes, group):
    nodes.job([[True, "fine\nindeed"]])
    ran = gnt(f"gnt-node restricted-command -M -g {group} check")
    assert nodes.submitted() == [{"OP_ID": "OP_RESTRICTED_COMMAND", "command": "check", "nodes": ["n2"]}]
    assert (ran.status, ran.out) == (0, f"{'-' * 48}\nn2: fine\nn2: indeed\n")


def test_it_needs_nodes(gnt, master):
    assert "name them, or a node group with -g" in gnt("gnt-node restricted-command check").err


def test_a_powercycle_is_not_asked_about_with_yes_or_force(gnt, master):
    for option, more in (("--yes", {}), ("-f", {"force": True})):
        master.job("Reboot scheduled in 5 seconds")
        assert gnt(f"gnt-node powercycle {option} n1").status == 0
        assert master.submitted()[-1] == {"OP_ID": "OP_NODE_POWERCYCLE", "node_name": "n1", **more}


def test_volumes_are_a_table(gnt, master):
    master.job([["n1", "/dev/sda", "xenvg", "d0", "64", "web1"]])
    ran = gnt("gnt-node volumes --units m n1")
    fields = ["node", "phys", "vg", "name", "size", "instance"]
    assert master.submitted() == [{"OP_ID": "OP_NODE_QUERYVOLS", "output_fields": fields, "nodes": ["n1"]}]
    assert ran.out == "Node PhysDev  VG    Name Size Instance\nn1   /dev/sda xenvg d0     64 web1\n"


def test_places_are_changed_and_repaired(gnt, master):
    master.job()
    assert gnt("gnt-node modify-storage --allocatable no n1 lvm-pv /dev/sdb").status == 0
    assert gnt("gnt-node repair-storage --ignore-consistency n1 lvm-vg xenvg").status == 0
    assert master.submitted() == [
        {
            "OP_ID": "OP_NODE_MODIFY_STORAGE",
            "node_name": "n1",
            "storage_type": "lvm-pv",
            "name": "/dev/sdb",
            "changes": {"allocatable": False},
        },
        {
            "OP_ID": "OP_REPAIR_NODE_STORAGE",
            "node_name": "n1",
            "storage_type": "lvm-vg",
            "name": "xenvg",
            "ignore_consistency": True,
        },
    ]


def evacuated(gnt, master, line):
    row = [[0, value] for value in ("n1", ["web1"], ["web2"])]
    master.answers["Query"] = {"data": [row]}
    master.job({"jobs": []})
    return gnt(f"gnt-node evacuate {line} n1")


def test_a_node_for_new_mirrors_means_secondary_instances_alone(gnt, master):
    ran = evacuated(gnt, master, "-f -n n2")
    (opcode,) = master.submitted()
    assert (opcode["mode"], opcode["remote_node"]) == ("secondary-only", "n2")
    assert "New secondary node given (disabling iallocator), hence evacuating secondary instances only." in ran.err


def test_an_evacuation_that_nobody_confirms_ends_with_the_status_of_3_1(gnt, master):
    ran = evacuated(gnt, master, "-p")
    assert (ran.status, master.submitted()) == (13, [])
    assert "primary instance(s) 'web1'" in ran.err


def test_a_place_without_a_change_costs_no_job(gnt, master):
    ran = gnt("gnt-node modify-storage n1 lvm-pv /dev/sdb")
    assert (ran.status, ran.out, ran.err) == (0, "No changes to perform, exiting.\n", "")
    assert master.submitted() == []


def test_without_a_yes_a_powercycle_ends_with_2_as_in_3_1(gnt, nodes, monkeypatch):
    for answer, words in ((None, "give -f"), (False, "Nothing was done")):
        monkeypatch.setattr(confirm, "ask", lambda question, answer=answer: answer)
        ran = gnt("gnt-node powercycle n1")
        assert (ran.status, words in ran.err) == (2, True)
    assert nodes.submitted() == []


@pytest.mark.requirement("S1.18")
@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("gnt-node volumes -g {}", "nodes"),
        ("gnt-node list-storage -g {}", "nodes"),
        ("gnt-node health -g {}", "node_names"),
        ("gnt-node power -g {} status", "node_names"),
    ],
)
def test_nodes_are_chosen_by_group(gnt, master, line, field):
    """Those of the group, or those of the named that are in it."""
    members = ["n1.x", "n2.x"]

    def query(what, _, condition):
        if what == "group":
            return {"data": [[[0, "rack1"]]] if "rack1" in str(condition) else []}
        return {"data": [[[0, name]] for name in members]}

    master.answers["Query"] = query
    master.job([])
    assert gnt(line.format("rack1")).status == 0
    [asked] = master.submitted()
    assert asked[field] == members and "group" not in asked
    members.clear()
    ran = gnt(f"{line.format('rack1')} n9")
    assert (ran.status, ran.err) == (1, "Of n9 none is in the node group rack1: see gnt-node list -o name,group\n")
    assert gnt(line.format("rack7")).err == "There is no node group 'rack7': see gnt-group list\n"
