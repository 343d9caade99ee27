# SPDX-License-Identifier: BSD-2-Clause
"""Disks for and from a backup: how long a guest is frozen, and that checking a backup writes nothing."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.one_node import OneNode

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.backups import Chunk, OpenedView
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.wire.sealing import CHUNK_BYTES, NONCE_BYTES, Sealing

DISK = DiskSpec(uuid="d0", template="file", logical_id=["loop", "/srv/disks/web1/d0"], size_mib=1, index=0)
INSTANCE = InstanceSpec(
    name="web1",
    uuid="uuid-web1",
    hypervisor="fake",
    os="",
    primary_node="node1",
    primary_node_uuid="uuid-node1",
    hvparams={},
    beparams={"maxmem": 128, "vcpus": 1},
    disks=[DISK],
)
KEY = b"k" * 32


class Story:
    """A guest's agent and its moments, which tell what was asked of them."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.refusal: Exception | None = None

    async def freeze(self, name: str) -> bool:
        self.told.append("freeze")
        return True

    async def thaw(self, name: str) -> None:
        self.told.append("thaw")

    async def open(self, spec: InstanceSpec, *, mark: str, since: str) -> list[bool]:
        self.told.append("open")
        if self.refusal is not None:
            raise self.refusal
        return [True, False]

    async def changed(self, name: str, disk: int) -> list[tuple[int, int]]:
        self.told.append(f"changed {disk}")
        return [(4, 1)]


@pytest.fixture
def story(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> Story:
    made = Story()
    driver: Any = SimpleNamespace(snapshots=lambda: made, devices=SimpleNamespace(frozen_views=lambda: made))
    monkeypatch.setattr(node.state, "hypervisor", lambda name: driver)
    monkeypatch.setattr(node.state, "hypervisor_of", lambda spec: driver)
    return made


def test_a_guest_is_frozen_until_its_disks_are_held_and_no_longer(node: OneNode, story: Story) -> None:
    opened = node.call("backup_open", instance=INSTANCE, mark="two", since="one")
    assert story.told == ["freeze", "open", "thaw", "changed 0"]
    assert opened == OpenedView(frozen=True, dirty=[[(4, 1)], None])
    story.told.clear()
    story.refusal = BlockDeviceError("no")
    with pytest.raises(BlockDeviceError):
        node.call("backup_open", instance=INSTANCE, mark="two", since="one")
    assert story.told == ["freeze", "open", "thaw"]


def test_a_backup_that_is_only_checked_leaves_the_disk_as_it_is(node: OneNode) -> None:
    node.call("blockdev_create", disk=DISK)
    place = Path(node.paths.under("/srv/disks/web1/d0"))
    before = os.urandom(CHUNK_BYTES)
    place.write_bytes(before + bytes(1024 * 1024 - CHUNK_BYTES))
    sealing = Sealing(KEY, INSTANCE.uuid)
    data = os.urandom(CHUNK_BYTES)
    good = Chunk(number=0, digest=sealing.digest(data), data=sealing.seal(0, 0, data, bytes(NONCE_BYTES)))
    bad = Chunk(number=0, digest=good.digest, data=good.data[:-1] + bytes([good.data[-1] ^ 1]))
    outside = Chunk(number=16, digest=good.digest, data=sealing.seal(0, 16, data, bytes(NONCE_BYTES)))

    def fill(chunk: Chunk, *, writes: bool) -> None:
        common = {"instance": INSTANCE, "disk": DISK, "source_uuid": INSTANCE.uuid, "source_disk": 0, "key": KEY}
        node.call("backup_fill", chunks=[chunk], first=0, end=16, zeroes=True, syncs=True, writes=writes, **common)

    fill(good, writes=False)
    for chunk in (bad, outside):
        with pytest.raises(BlockDeviceError):
            fill(chunk, writes=False)
        with pytest.raises(BlockDeviceError):
            fill(chunk, writes=True)
    assert place.read_bytes()[:CHUNK_BYTES] == before
    fill(good, writes=True)
    assert place.read_bytes()[:CHUNK_BYTES] == data
