# SPDX-License-Identifier: BSD-2-Clause
"""Disks on a Ceph cluster that hangs, and on images that another node has taken."""

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes.ceph_tools import CephTools
from tests.fakes.one_node import OneNode, disk_spec, instance_spec

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.verify import NodeChecks
from ganeti.model.node_requests import DiskSpec
from ganeti.noded.lost_guests import IDLE_S, LostGuests

LIMIT_S = 0.5
DISKS = 40
SILENT = "does not answer this node"


@pytest.fixture
def node(tmp_path: Path) -> OneNode:
    return OneNode(tmp_path)


@pytest.fixture
def tools(node: OneNode) -> CephTools:
    return CephTools(node, LIMIT_S)


def disks(count: int = DISKS) -> list[DiskSpec]:
    return [
        disk_spec(uuid=f"uuid-{index}", template="rbd", logical_id=["rbd", f"image-{index}"], index=index)
        for index in range(count)
    ]


def plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


def test_what_looks_at_all_disks_ends_after_one_limit(node: OneNode, tools: CephTools) -> None:
    tools.hang(stopped=True)
    begun_s = time.monotonic()
    found = node.call("node_verify", checks=plain(NodeChecks(disk_status=disks()))).disk_status
    assert len(found) == DISKS and all(SILENT in fault for fault in found.values())
    told = node.call("blockdev_find_each", disks=plain(disks()))
    assert {each.fault for each in told} == set(found.values()), "the same sentence"
    assert time.monotonic() - begun_s < 10 * LIMIT_S
    assert tools.asked <= 4, "as many as are looked at together"


def test_an_operation_and_its_undo_end_after_one_limit(node: OneNode, tools: CephTools) -> None:
    tools.hang(stopped=True)
    instance = plain(instance_spec(disks=disks()))
    begun_s = time.monotonic()
    with pytest.raises(BlockDeviceError, match=SILENT):
        node.call("instance_disks_assemble", instance=instance, as_primary=True)
    node.call("instance_disks_shutdown", instance=instance)
    assert "counts as closed, as this node has not opened it" in node.logged[-1]
    for disk in disks():
        with pytest.raises(BlockDeviceError, match=SILENT):
            node.call("blockdev_remove", disk=plain(disk))
    with pytest.raises(BlockDeviceError, match=SILENT):
        node.call("blockdev_steal", disk=plain(disks()[0]), owner="web1", reason="failover")
    assert time.monotonic() - begun_s < 10 * LIMIT_S
    assert tools.asked == 1


def test_what_this_node_has_opened_is_not_said_to_be_closed(node: OneNode, tools: CephTools) -> None:
    instance = plain(instance_spec(disks=disks(1)))
    node.call("instance_disks_assemble", instance=instance, as_primary=True)
    tools.hang(stopped=True)
    with pytest.raises(BlockDeviceError, match=SILENT):
        node.call("instance_disks_shutdown", instance=instance)


def test_what_another_node_uses_is_refused_and_not_held(node: OneNode, tools: CephTools) -> None:
    tools.note("ganeti.node", "node2")
    instance = plain(instance_spec(disks=disks(1)))
    with pytest.raises(BlockDeviceError, match="is in use on node node2"):
        node.call("instance_disks_assemble", instance=instance, as_primary=True)
    assert node.run(guard(node, []).look()) == IDLE_S, "nothing is held here"


def guard(node: OneNode, told: list[str]) -> LostGuests:
    """The look at what Ceph keeps."""
    return next(each for each in LostGuests.all(node.state, lambda name, why: told.append(why)) if each.template)


class Guest:
    """A running guest on an image."""

    def __init__(self, node: OneNode, limit_s: int = 8) -> None:
        self.node = node
        self.told: list[str] = []
        self.guard = guard(node, self.told)
        Path(node.paths.ssconf_file("hypervisor_list")).write_text("fake\n")
        (disk,) = disks(1)
        self.disk = msgspec.structs.replace(disk, params={"lost_lock_timeout": limit_s})
        spec = instance_spec(disks=[self.disk])
        attached = node.call("instance_disks_assemble", instance=plain(spec), as_primary=True)
        node.run(node.state.hypervisor("fake").start(spec, attached))

    def look(self, times: int = 1) -> float:
        return [self.node.run(self.guard.look()) for _ in range(times)][-1]

    def runs(self) -> bool:
        return bool(self.node.run(self.node.state.hypervisor("fake").list_instances()))


def test_a_guest_whose_image_another_node_has_taken_is_ended_at_the_second_look(
    node: OneNode, tools: CephTools
) -> None:
    guest = Guest(node)
    assert guest.look(3) == 2.0 and guest.runs(), "four looks within the limit"
    tools.note("ganeti.node", "node2")
    guest.look()
    assert guest.runs() and not guest.told
    guest.look()
    assert not guest.runs()
    assert guest.told == ["guest ended on this node: node node2 has taken image rbd/image-0"]
    node.call("blockdev_shutdown", disk=plain(guest.disk))
    assert tools.noted()["ganeti.node"] == "node2", "the other node keeps it"
    assert guest.look() == IDLE_S


def test_a_guest_on_its_way_and_one_without_limit_go_on(node: OneNode, tools: CephTools) -> None:
    guest = Guest(node)
    tools.note("ganeti.incoming", "node2")
    guest.look(3)
    assert guest.runs(), "it leaves"
    tools.note("ganeti.node", "node2")
    tools.note("ganeti.incoming", "node1")
    guest.look(3)
    assert guest.runs(), "it has come here"


def test_an_answer_that_cannot_be_read_ends_neither_a_guest_nor_the_looks(node: OneNode, tools: CephTools) -> None:
    guest = Guest(node)
    tools.note("ganeti.node", '"')
    assert guest.look(3) == IDLE_S and guest.runs()
    tools.note("ganeti.node", "node2")
    guest.look(2)
    assert not guest.runs()


def test_a_limit_of_zero_leaves_it_running(node: OneNode, tools: CephTools) -> None:
    guest = Guest(node, limit_s=0)
    tools.note("ganeti.node", "node2")
    assert guest.look(3) == IDLE_S and guest.runs()


def test_a_cluster_that_does_not_answer_ends_nothing_and_is_asked_all_the_time(node: OneNode, tools: CephTools) -> None:
    """A node that was cut off finds out as soon as it reaches the cluster, whatever else is not asked meanwhile."""
    guest = Guest(node)
    tools.note("ganeti.node", "node2")
    tools.hang(stopped=True)
    assert guest.look(2) == 1.0 and guest.runs()
    tools.hang(stopped=False)
    guest.look(2)
    assert not guest.runs()
    assert node.call("blockdev_find", disk=plain(guest.disk)) is not None, "an answer to the look ends the silence"
