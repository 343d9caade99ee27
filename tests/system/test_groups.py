# SPDX-License-Identifier: BSD-2-Clause
"""Several node groups on real daemons: made, named anew, given nodes, allocated to, verified and emptied."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
ADD = ("gnt-instance", "add", "-o", "noop+default", "--no-name-check", "--no-start", "-t", "sharedfile")
DISK = ("--disk", "0:size=16m")


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    """Two nodes in each group: an instance on shared storage needs one more that could take it over."""
    layout = testbed.up(tmp_path_factory.mktemp("groups").resolve(), 4, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        bed = FakeBed(layout)
        bed.run("gnt-group", "add", "--alloc-policy", "last_resort", "--ipolicy-vcpu-ratio", "2", "green")
        bed.run("gnt-group", "assign-nodes", "green", "node3", "node4")
        yield bed
    finally:
        testbed.down(layout)


def listed(bed: FakeBed, fields: str, *names: str, what: str = "gnt-group") -> list[str]:
    return bed.run(what, "list", "--no-headers", "--separator", ":", "-o", fields, *names).splitlines()


def place(bed: FakeBed, name: str, *words: str) -> str:
    """Make an instance where the allocator says; gives the group it is in."""
    bed.run(*ADD, *DISK, "-I", "hail", *words, name)
    [group] = listed(bed, "pnode.group", name, what="gnt-instance")
    return group


@pytest.mark.requirement("S1.1", "S1.10", "S1.12", "S1.19")
def test_every_node_is_in_one_group(bed: FakeBed) -> None:
    assert listed(bed, "name,node_cnt,alloc_policy") == ["default:2:preferred", "green:2:last_resort"]
    assert listed(bed, "name,group", what="gnt-node") == [
        "node1:default",
        "node2:default",
        "node3:green",
        "node4:green",
    ]


@pytest.mark.requirement("S1.5", "S1.14")
def test_nodes_are_listed_by_group_and_are_candidates_in_any(bed: FakeBed) -> None:
    fields = ("--no-headers", "--separator", ":", "-o", "name,role", "-g", "green")
    bed.run("gnt-node", "modify", "--master-candidate=no", "--auto-promote", "node2")
    bed.run("gnt-node", "modify", "--master-candidate=yes", "node4")
    assert bed.run("gnt-node", "list", *fields).splitlines()[1] == "node4:C"
    said = bed.run("gnt-node", "info", "-g", "green")
    assert "Node name: node3" in said and "Node name: node4" in said and "Node name: node1" not in said


@pytest.mark.requirement("S1.3", "S1.4", "S1.13")
def test_another_name_changes_nothing_else(bed: FakeBed) -> None:
    before = listed(bed, "uuid,node_list", "green")
    bed.run("gnt-group", "rename", "green", "blue")
    assert listed(bed, "uuid,node_list", "blue") == before
    assert listed(bed, "group", "node3", what="gnt-node") == ["blue"]
    assert bed.config()["nodegroups"][before[0].split(":")[0]]["name"] == "blue"
    bed.run("gnt-group", "rename", "blue", "green")


@pytest.mark.requirement("S1.15", "S1.18")
def test_a_node_changes_its_group_and_instances_are_chosen_by_group(bed: FakeBed) -> None:
    bed.run("gnt-node", "modify", "-g", "green", "node2")
    assert listed(bed, "group", "node2", what="gnt-node") == ["green"]
    bed.run("gnt-node", "modify", "-g", "default", "node2")
    bed.run(*ADD, *DISK, "-n", "node1", "here")
    bed.run(*ADD, *DISK, "-n", "node3", "there")
    bed.run("gnt-instance", "startup", "--node-group", "green")
    assert listed(bed, "name,admin_state", what="gnt-instance") == ["here:down", "there:up"]
    bed.run("gnt-instance", "remove", "-f", "here")
    bed.run("gnt-instance", "remove", "-f", "there")


@pytest.mark.requirement("S1.11")
def test_a_group_with_nodes_stays(bed: FakeBed) -> None:
    assert "green" in bed.run("gnt-group", "remove", "green", expect=1)
    bed.run("gnt-group", "add", "short")
    bed.run("gnt-group", "remove", "short")
    assert listed(bed, "name") == ["default", "green"]


@pytest.mark.requirement("S1.20", "S1.21", "S1.22", "S1.26")
def test_the_policy_of_a_group_holds_whether_it_is_named_or_not(bed: FakeBed) -> None:
    assert place(bed, "policy1") == "default"
    assert place(bed, "policy2", "--node-group", "green") == "green"
    bed.run("gnt-group", "modify", "--alloc-policy", "unallocable", "default")
    assert place(bed, "policy3") == "green", "the last resort"
    bed.run("gnt-group", "add", "blue")
    assert place(bed, "several", "--node-group", "blue,green") == "green"
    bed.run("gnt-instance", "remove", "--force", "several")
    bed.run("gnt-group", "remove", "blue")
    bed.run("gnt-group", "modify", "--alloc-policy", "unallocable", "green")
    bed.run(*ADD, *DISK, "-I", "hail", "policy4", expect=1)
    assert "green takes no new instances" in bed.run(*ADD, *DISK, "-I", "hail", "-g", "green", "policy4", expect=1)
    assert "mars" in bed.run(*ADD, *DISK, "-I", "hail", "-g", "mars", "policy4", expect=1)
    for name, policy in (("default", "preferred"), ("green", "last_resort")):
        bed.run("gnt-group", "modify", "--alloc-policy", policy, name)
    bed.run("gnt-instance", "remove", "--force", "policy1")
    bed.run("gnt-instance", "remove", "--force", "policy2")
    bed.check()


def test_what_a_group_hands_down_is_changed_and_taken_back(bed: FakeBed) -> None:
    said = bed.run("gnt-group", "modify", "--node-parameters", "spindle_count=3", "green")
    assert "ndparams" in said
    assert listed(bed, "ndp/spindle_count", what="gnt-node") == ["1", "1", "3", "3"]
    said = bed.run("gnt-group", "modify", "--ipolicy-disk-templates", "file", "green")
    assert "Instance policy3 is kept, but lies outside the new policy" in said
    bed.run(
        "gnt-group",
        "modify",
        "--ipolicy-disk-templates",
        "default",
        "--node-parameters",
        "spindle_count=default",
        "green",
    )
    assert listed(bed, "ndp/spindle_count", "node3", what="gnt-node") == ["1"]


@pytest.mark.requirement("S1.35", "S1.36")
def test_groups_are_verified_one_job_each(bed: FakeBed) -> None:
    said = bed.run("gnt-cluster", "verify", expect=None)
    assert "Verifying group 'default'" in said and "Verifying group 'green'" in said
    said = bed.run("gnt-cluster", "verify", "--node-group", "green", expect=None)
    assert "Verifying group 'green'" in said and "Verifying group 'default'" not in said
    assert place(bed, "policy4", "--node-group", "default") == "default"
    said = bed.run("gnt-cluster", "repair-disk-sizes")
    assert "for group default" in said and "for group green" in said
    bed.run("gnt-instance", "remove", "--force", "policy4")


@pytest.mark.requirement("S1.9")
def test_objects_name_others_by_their_uuid(bed: FakeBed) -> None:
    config = bed.config()
    names = {each["name"] for kind in ("nodes", "instances") for each in config[kind].values()}
    assert {"node1", "policy3"} <= names
    assert {path[-1] for path, value in _texts(config) if value in names} == {"name"}
    [instance] = [each for each in config["instances"].values() if each["name"] == "policy3"]
    assert instance["primary_node"] in config["nodes"] and set(instance["disks"]) <= set(config["disks"])


def _texts(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each text of a JSON value, with the keys that lead to it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, (*path, key))
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, path)


def test_a_disk_that_is_too_short_or_gone_is_found(bed: FakeBed) -> None:
    [disk] = bed.config()["disks"].values()
    path = disk["logical_id"][1]
    [home] = listed(bed, "pnode", "policy3", what="gnt-instance")  # either node of the group is as good
    verify = ("gnt-cluster", "verify", "--error-codes", "--node-group", "green")
    bed.run("truncate", "-s", "1M", path, node=home)
    assert f"EINSTANCEFAULTYDISK:instance:policy3:disk/0 on node {home}: {path} has 1 MiB of its 16 MiB" in bed.run(
        *verify, expect=None
    )
    bed.run("mv", path, f"{path}.away", node=home)
    assert "EINSTANCEMISSINGDISK:instance:policy3:disk/0" in bed.run(*verify, expect=None)
    bed.run("mv", f"{path}.away", path, node=home)
    bed.run("truncate", "-s", "16M", path, node=home)
    assert "DISK:instance" not in bed.run(*verify, expect=None)


@pytest.mark.requirement("S1.28")
def test_an_instance_changes_its_group_only_when_told(bed: FakeBed) -> None:
    assert listed(bed, "pnode.group", "policy3", what="gnt-instance") == ["green"]
    bed.run("gnt-instance", "change-group", "-I", "hail", "--to", "default", "policy3")
    assert listed(bed, "pnode.group", "policy3", what="gnt-instance") == ["default"]
    bed.run("gnt-group", "modify", "--alloc-policy", "preferred", "green")
    assert "All instances evacuated successfully." in bed.run("gnt-group", "evacuate", "--to", "green", "default")
    assert listed(bed, "pnode.group", "policy3", what="gnt-instance") == ["green"]
    bed.check()


@pytest.mark.requirement("S1.29", "S1.30", "S1.31")
def test_a_mirrored_instance_changes_its_group_and_an_interrupted_move_is_taken_back_or_completed(bed: FakeBed) -> None:
    bed.run(*ADD, *DISK, "-t", "mirror", "-n", "node1:node2", "twin")

    def place() -> set[str]:
        [line] = listed(bed, "pnode,snodes", "twin", what="gnt-instance")
        return set(line.split(":"))

    assert "is in node group default: name another one" in bed.run(
        "gnt-instance", "change-group", "--to", "default", "twin", expect=1
    )
    bed.run("gnt-instance", "change-group", "-I", "hail", "--to", "green", "twin")
    assert place() == {"node3", "node4"}
    bed.run("gnt-instance", "startup", "twin")
    bed.run("gnt-instance", "change-group", "-n", "node2:node1", "twin")
    assert listed(bed, "pnode,snodes,status", "twin", what="gnt-instance") == ["node2:node1:running"]
    step = {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "instance_name": "twin", "mode": "replace_new_secondary"}
    halfway = json.dumps([step | {"remote_node": "node3", "between_groups": True}])
    for target, nodes in (("default", {"node1", "node2"}), ("green", {"node3", "node4"})):
        bed.run("sh", "-c", f"echo '{halfway}' | gnt-debug submit-job -")
        bed.wait(lambda: place() == {"node2", "node3"}, "the first step is done")
        assert "--to green or --to default" in bed.run("gnt-instance", "change-group", "twin", expect=1)
        bed.run("gnt-instance", "change-group", "-I", "hail", "--to", target, "twin")
        assert place() == nodes
    bed.run("gnt-instance", "remove", "-f", "twin")
    bed.check()


def test_a_command_of_the_administrator_runs_on_a_group(bed: FakeBed) -> None:
    assert "Restricted commands are off" in bed.run("gnt-node", "restricted-command", "where", "node3", expect=1)
    for node in ("node3", "node4"):
        bed.run(
            "sh",
            "-c",
            "d=/etc/ganeti/restricted-commands; mkdir -m 755 $d; printf '#!/bin/sh\\nhostname\\n' >$d/where"
            "; chmod 755 $d/where",
            node=node,
        )
    said = bed.run("gnt-node", "restricted-command", "-M", "-g", "green", "where")
    assert [line for line in said.splitlines() if ":" in line] == ["node3: node3", "node4: node4"]
