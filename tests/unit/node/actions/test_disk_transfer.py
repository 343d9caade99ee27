# SPDX-License-Identifier: BSD-2-Clause
"""Calls about disks that move or change under a running guest: what is refused, and what a loss of power leaves."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.one_node import OneNode, disk_spec, instance_spec

from ganeti.base.errors import BlockDeviceError
from ganeti.node import exchange_note

SPEC = instance_spec(disks=[disk_spec()])
COPY = replace(disk_spec(), uuid="copy", logical_id=["loop", "/srv/disks/web1/copy"])


@pytest.fixture
def node(tmp_path: Path) -> OneNode:
    made = OneNode(tmp_path)
    made.call("blockdev_create", disk=disk_spec())
    made.call("instance_start", instance=SPEC)
    made.call("blockdev_create", disk=COPY)
    return made


def exchange(node: OneNode, **changes: Any) -> bool:
    return bool(node.call("instance_exchange_disks", instance=SPEC, disks=[COPY], **changes).settled)


def test_a_copy_is_not_removed_under_its_guest(node: OneNode) -> None:
    with pytest.raises(BlockDeviceError, match=r"is here: disk 0 is not removed under it.*migrate --cleanup"):
        node.call("instance_copy_remove", instance=SPEC, disk=disk_spec())
    node.call("instance_shutdown", instance=SPEC, timeout_s=0)
    for _ in range(2):
        node.call("instance_copy_remove", instance=SPEC, disk=disk_spec())
    assert node.call("blockdev_find", disk=disk_spec()) is None


def test_an_exchange_that_was_not_begun_is_not_completed(node: OneNode) -> None:
    node.call("instance_mirror_disks", instance=SPEC, disks=[COPY])
    assert not exchange(node, finish=True)
    assert not exchange(node, give_up=True)


def test_an_exchange_is_completed_though_the_guest_has_ended(node: OneNode) -> None:
    node.call("instance_mirror_disks", instance=SPEC, disks=[COPY])
    assert exchange(node)
    assert exchange(node, finish=True)
    node.call("instance_shutdown", instance=SPEC, timeout_s=0)
    assert exchange(node, finish=True)
    assert not exchange_note.has(node.state.paths, SPEC.name, [disk_spec()])
    exchange_note.forget(node.state.paths, SPEC.name)
    assert not exchange(node, finish=True)
