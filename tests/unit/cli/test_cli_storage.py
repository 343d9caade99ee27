# SPDX-License-Identifier: BSD-2-Clause
"""gnt-storage: what is printed of providers."""


def test_each_node_is_a_line_and_one_that_cannot_use_it_a_failure(gnt, master):
    path = "/srv/ganeti/extstorage/san"
    nodes = {
        "n1": [[path, True, "", [["pool", "where"], ["fast", ""]]]],
        "n2": [[path, False, "the script grow is missing", []]],
        "n3": [],
    }
    master.job([["san", nodes, {"default": False}]])
    ran = gnt("gnt-storage diagnose")
    assert (ran.status, ran.out) == (
        1,
        "Provider: san\n---\n"
        f"  Node: n1, status: valid (path: {path}) [parameters: pool, fast]\n"
        f"  Node: n2, status: invalid - the script grow is missing (path: {path}) [no parameters]\n"
        "  Node: n3, status: not found\n"
        "  --\n  For nodegroup: default --> invalid\n\n",
    )
    fields = ["name", "node_status", "nodegroup_status"]
    assert master.submitted() == [{"OP_ID": "OP_EXT_STORAGE_DIAGNOSE", "output_fields": fields, "names": []}]


def test_parameters(gnt, master):
    master.job([["san", {"default": True}, [["pool", "where disks lie"]]]])
    ran = gnt("gnt-storage info")
    usable = "san:\n  - Valid for nodegroups:\n      default\n"
    assert (ran.status, ran.out) == (0, f"{usable}  - Supported parameters:\n      pool: where disks lie\n\n")
    master.job([["san", {"default": False}, [["pool", "where disks lie"]]]])
    assert gnt("gnt-storage info").out == "san:\n  - Invalid for all nodegroups\n\n"


def test_parameters_of_those_named(gnt, master):
    master.job([["san", {"default": True}, []], ["tape", {"default": True}, []]])
    ran = gnt("gnt-storage info san nope")
    assert (ran.status, ran.out) == (1, "san:\n  - Valid for nodegroups:\n      default\n  - Supported parameters:\n\n")
    assert ran.err == "There is no provider nope: gnt-storage info shows all of them.\n"
