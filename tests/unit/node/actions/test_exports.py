# SPDX-License-Identifier: BSD-2-Clause
"""Exports on a node: whole at their end, never a path outside, not across a restart."""

import os
from pathlib import Path

import pytest
from tests.fakes.one_node import OneNode

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.exports import UNFINISHED
from ganeti.system.boot import boot_identity

NEW = {"directory": f"web1{UNFINISHED}", "dump": "disk0.dump"}
CONFIG = "[export]\nversion = 0\n"


def begin(node: OneNode) -> str:
    """A dump as a transfer leaves it."""
    place = Path(node.paths.export_dir, NEW["directory"])
    place.mkdir(parents=True, exist_ok=True)
    (place / NEW["dump"]).write_bytes(b"abc")
    return boot_identity()


def test_an_export_is_there_at_its_end(node: OneNode) -> None:
    boot = begin(node)
    assert node.call("export_list") == []
    node.call("export_finish", name="web1", config=CONFIG, boot=boot)
    assert node.call("export_list") == ["web1"]
    assert node.call("export_info", directory="web1") == CONFIG
    assert node.call("export_dump_sizes", directory="web1", dumps=["disk0.dump"]) == [3]
    begin(node)
    node.call("export_finish", name="web1", config=CONFIG + "os = new\n", boot="")
    assert "os = new" in node.call("export_info", directory="web1")
    assert (node.call("export_remove", name="web1"), node.call("export_remove", name="web1")) == (True, False)


def test_what_is_unfinished_can_be_taken_back(node: OneNode) -> None:
    begin(node)
    node.call("export_discard", name="web1")
    node.call("export_discard", name="web1")
    assert os.listdir(node.paths.export_dir) == []


@pytest.mark.parametrize("directory", ["..", "../..", ".", "", "/etc", "web1/..", "a/b", "/srv/ganeti/export"])
def test_nothing_outside_is_reached(node: OneNode, directory: str) -> None:
    begin(node)
    with pytest.raises(BlockDeviceError, match="is no directory of an export: it must lie directly below"):
        node.call("export_info", directory=directory)


def test_a_link_that_leads_out_and_a_dump_that_is_a_path_are_refused(node: OneNode) -> None:
    begin(node)
    os.symlink("/etc", f"{node.paths.export_dir}/web2")
    with pytest.raises(BlockDeviceError, match="is no directory of an export"):
        node.call("export_info", directory="web2")
    with pytest.raises(BlockDeviceError, match="cannot be the name of a dump"):
        node.call("export_dump_sizes", directory=NEW["directory"], dumps=["../../x"])


def test_a_damaged_description_and_a_missing_one_are_named(node: OneNode) -> None:
    node.call("export_finish", name="web1", config="version = 0\n", boot=boot_identity())
    with pytest.raises(BlockDeviceError, match=r"config.ini is damaged: .* Export the instance again"):
        node.call("export_info", directory="web1")
    with pytest.raises(BlockDeviceError, match=r"There is no export in .*: see gnt-backup list"):
        node.call("export_info", directory="web9")


def test_a_node_that_has_restarted_does_not_go_on(node: OneNode) -> None:
    begin(node)
    with pytest.raises(BlockDeviceError, match="has restarted while web1 was exported"):
        node.call("export_finish", name="web1", config=CONFIG, boot="before")


def test_a_dump_that_is_missing_is_named(node: OneNode) -> None:
    boot = begin(node)
    node.call("export_finish", name="web1", config=CONFIG, boot=boot)
    with pytest.raises(
        BlockDeviceError, match=r"is damaged: its dump disk1.dump is missing. Export the instance again"
    ):
        node.call("export_dump_sizes", directory="web1", dumps=["disk0.dump", "disk1.dump"])
