# SPDX-License-Identifier: BSD-2-Clause
"""Templates that keep no snapshots refuse with the reason; what must not happen beside a call that takes one."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
from tests.fakes.one_node import OneNode, disk_spec, instance_spec

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disks import Snapshot
from ganeti.node.storage import image_io
from ganeti.node.storage.interface import DiskTemplate


@pytest.mark.parametrize("template", ["blockdev"])
def test_a_template_without_snapshots_says_why_and_what_to_do(node: OneNode, template: str) -> None:
    instance = instance_spec(disks=[disk_spec(template)])
    with pytest.raises(BlockDeviceError, match=rf"^Disks of template {template} keep no snapshots, since .*export"):
        node.call("instance_snapshots", instance=instance)
    assert DiskTemplate.registry[template].why_no_snapshots != DiskTemplate.why_no_snapshots


def test_what_removes_a_snapshot_waits_for_the_call_that_takes_it(
    node: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The master gives a call up that takes too long, and then has nothing but its undo."""
    disk = disk_spec("sharedfile", params={"format": "raw"})
    instance = instance_spec(disks=[disk])
    started, go_on, copy = threading.Event(), threading.Event(), image_io.copy_raw

    def slowly(source: str, target: str) -> None:
        started.set()
        assert go_on.wait(60)
        copy(source, target)

    monkeypatch.setattr(image_io, "copy_raw", slowly)

    async def both() -> list[list[Snapshot]]:
        await node.make_call("blockdev_create", disk=disk)
        taken = asyncio.create_task(node.make_call("instance_snapshot_take", instance=instance, name="third"))
        await asyncio.to_thread(started.wait, 60)
        removed = asyncio.create_task(node.make_call("instance_snapshot_remove", instance=instance, name="third"))
        await asyncio.wait([removed], timeout=0.2)
        go_on.set()
        await asyncio.gather(taken, removed)
        return await node.make_call("instance_snapshots", instance=instance)

    assert asyncio.run(both()) == [[]]


def test_an_agent_that_did_not_answer_in_time_is_told_to_let_the_guest_go_on(
    node: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = Agent()
    hypervisor = SimpleNamespace(info=guest.info, snapshots=lambda: guest)
    monkeypatch.setattr(node.state, "hypervisor_of", lambda instance: hypervisor)
    disk = disk_spec("sharedfile", params={"format": "raw"})
    node.call("blockdev_create", disk=disk)
    with pytest.raises(BlockDeviceError, match="raw image that the guest writes"):
        node.call("instance_snapshot_take", instance=instance_spec(disks=[disk]), name="third")
    assert guest.asked == ["freeze", "thaw"]


class Agent:
    """Of a guest that runs: it freezes, and says so too late."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def info(self, name: str) -> str:
        return name

    async def freeze(self, name: str) -> bool:
        self.asked.append("freeze")
        return False

    async def thaw(self, name: str) -> None:
        self.asked.append("thaw")
