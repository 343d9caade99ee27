# SPDX-License-Identifier: BSD-2-Clause
"""A full directory of exports is told as that, with the path and the ways out; other failures are told as they are."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.one_node import OneNode, disk_spec, instance_spec

from ganeti.base.errors import BlockDeviceError, CommandError, ExecutionError
from ganeti.model.node_calls.exports import UNFINISHED
from ganeti.node import export_room
from ganeti.node.dump_file import DumpFile
from ganeti.node.exports import Exports

DUMP = {"directory": f"web1{UNFINISHED}", "dump": "disk0.dump"}
WAYS_OUT = (
    r"has no room \(0 MiB are free there\): remove older exports .*gnt-backup remove.*, or export to another node"
)


def free_pages(monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    said = os.statvfs_result((4096, 4096, 1000, pages, pages, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: said)


@pytest.fixture
def node(tmp_path: Path) -> OneNode:
    """The script of its OS cannot write, and says so in its own words."""
    made = OneNode(tmp_path)
    made.definition(export="echo 'it went wrong' >&2; exit 1")
    disk = Path(made.paths.under("/srv/disks/web1/d0.file.disk0"))
    disk.parent.mkdir(parents=True)
    disk.write_bytes(bytes(1024 * 1024))
    return made


def export(node: OneNode) -> Any:
    return node.call("export_dump", instance=instance_spec(disks=[disk_spec()]), index=0, debug=0, token="", **DUMP)


def test_a_script_that_fails_in_a_full_directory_is_told_as_that(
    node: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    free_pages(monkeypatch, 3)
    with pytest.raises(BlockDeviceError, match=rf"/srv/ganeti/export/web1.new/disk0.dump {WAYS_OUT}"):
        export(node)


def test_a_script_that_fails_elsewhere_is_told_as_it_is(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    free_pages(monkeypatch, 100)
    with pytest.raises(ExecutionError, match="it went wrong"):
        export(node)


def test_a_dump_that_is_known_to_be_too_large_is_refused_with_its_size(
    node: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    free_pages(monkeypatch, 100)
    with pytest.raises(BlockDeviceError, match=rf"disk0.dump of 409601 bytes {WAYS_OUT}"):
        export_room_of(node, 409601)
    assert export_room_of(node, 409600).endswith("disk0.dump")


def export_room_of(node: OneNode, size: int) -> str:
    return Exports(node.paths).require_room(DUMP["directory"], DUMP["dump"], size)


@pytest.mark.parametrize(("number", "sentence"), [(errno.ENOSPC, WAYS_OUT), (errno.EDQUOT, WAYS_OUT), (errno.EIO, "I")])
def test_a_dump_from_another_node_says_what_keeps_it_from_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, sentence: str
) -> None:
    free_pages(monkeypatch, 0)
    file = DumpFile(str(tmp_path / "disk0.dump"))

    def fails(*_: Any) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwrite", fails)
    with pytest.raises(CommandError, match=rf"disk0.dump .*{sentence}"):
        file.write(b"x")
    file.close()


def test_a_file_system_that_does_not_answer_is_not_called_full(tmp_path: Path) -> None:
    assert not export_room.is_full(str(tmp_path / "gone" / "web" / "disk0.dump"))
    assert "the file system is full" in export_room.no_room(str(tmp_path / "gone" / "web" / "disk0.dump"))
