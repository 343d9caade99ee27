# SPDX-License-Identifier: BSD-2-Clause
"""Volumes of a node as LVM tells of them, and what LVM is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ganeti.base.errors import CommandError, ExecutionError
from ganeti.model.node_calls.storage import StorageUnit
from ganeti.node.actions.storage import space_of
from ganeti.ports.node_world import Completed

SEGMENT = (
    "uuid;d0;-wi-ao----;-1;-1;253;1;67108864B;1;;;group;xenvg;linear;0B;0;67108864B;;"
    "/dev/sda:0-7;/dev/sda(0),/dev/sdb(3)"
)


@pytest.fixture
def ran(node: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What was run in place of LVM."""
    told: list[list[str]] = []

    async def run(argv: Any, **_: Any) -> Completed:
        told.append(list(argv))
        if argv[-1] == "gone":
            raise CommandError("vgreduce failed with status 5: no such volume group")
        return Completed(tuple(argv), 0, f"  {SEGMENT}\n" if argv[0] == "lvs" else "", "")

    monkeypatch.setattr(node.state.world, "run", run)
    return told


def test_a_line_for_each_device(node: Any, ran: list[list[str]]) -> None:
    found = node.call("node_volumes")
    assert [(each.device, each.group, each.name, each.size_mib) for each in found] == [
        ("/dev/sda", "xenvg", "d0", 64),
        ("/dev/sdb", "xenvg", "d0", 64),
    ]


def test_what_lvm_is_told(node: Any, ran: list[list[str]]) -> None:
    node.call("storage_modify", name="/dev/sdb", allocatable=False)
    node.call("storage_repair", name="xenvg")
    assert ran == [["pvchange", "--allocatable", "n", "/dev/sdb"], ["vgreduce", "--removemissing", "xenvg"]]


@pytest.mark.parametrize(("name", "words"), [("--all", "begins as an option"), ("gone", "no such volume group")])
def test_what_fails_is_told(node: Any, ran: list[list[str]], name: str, words: str) -> None:
    with pytest.raises(ExecutionError, match=words):
        node.call("storage_repair", name=name)


@pytest.mark.parametrize(("asked", "counted"), [(True, (3, 1)), (False, (None, None))])
def test_physical_volumes_are_counted_where_that_is_asked(
    node: Any, monkeypatch: pytest.MonkeyPatch, asked: bool, counted: tuple[int | None, int | None]
) -> None:
    volumes = ["/dev/sda|66060288|33030144|33030144|a--", "/dev/sdb|66060288|66060288|0|a--", "/dev/sdc|9|9|0|u--"]

    async def run(argv: Any, **_: Any) -> Completed:
        text = "\n".join(volumes) if argv[0] == "pvs" else "132120576|99090432|1048576"
        return Completed(tuple(argv), 0, f"  {text}\n", "")

    monkeypatch.setattr(node.state.world, "run", run)
    unit = StorageUnit(template="plain", setting="xenvg", spindles=asked)
    found = asyncio.run(space_of(node.state, unit))
    assert (found.storage_size, found.storage_free) == (126, 94)
    assert (found.spindles, found.free_spindles) == counted
