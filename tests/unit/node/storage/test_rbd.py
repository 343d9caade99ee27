# SPDX-License-Identifier: BSD-2-Clause
"""Calls about disks on a Ceph cluster whose tools hang: each ends soon, whatever the number of disks."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes.one_node import OneNode, disk_spec, instance_spec

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.verify import NodeChecks
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.ceph_silence import CephSilence
from ganeti.ports.node_world import Completed

LIMIT_S = 0.5
DISKS = 40


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OneNode:
    """Its programs rbd and ceph hang."""
    node = OneNode(tmp_path)
    tools = {
        name: str(node.program(f"/tools/{name}", f"echo {name} $* >>{tmp_path}/asked; exec sleep 600"))
        for name in ("rbd", "ceph")
    }
    run = node.state.world.run

    async def run_false(argv: Sequence[str], **options: Any) -> Completed:
        return await run([tools.get(argv[0], argv[0]), *argv[1:]], **options)

    monkeypatch.setattr(node.state.world, "run", run_false)
    node.state.template("rbd").silence = CephSilence(LIMIT_S)  # type: ignore[attr-defined]
    return node


def disks(count: int = DISKS) -> list[DiskSpec]:
    return [
        disk_spec(uuid=f"uuid-{index}", template="rbd", logical_id=["rbd", f"image-{index}"], index=index)
        for index in range(count)
    ]


def asked(node: OneNode) -> int:
    return len(Path(node.paths.under("/asked")).read_text().splitlines())


def test_what_looks_at_all_disks_ends_after_one_limit(node: OneNode) -> None:
    begun_s = time.monotonic()
    found = node.call("node_verify", checks=msgspec.to_builtins(NodeChecks(disk_status=disks()))).disk_status
    assert len(found) == DISKS and all("does not answer this node" in fault for fault in found.values())
    told = node.call("blockdev_find_each", disks=msgspec.to_builtins(disks()))
    assert {each.fault for each in told} == set(found.values()), "the same sentence"
    assert time.monotonic() - begun_s < 10 * LIMIT_S
    assert asked(node) <= 4, "as many as are looked at together"


def test_an_operation_and_its_undo_end_after_one_limit(node: OneNode) -> None:
    instance = msgspec.to_builtins(instance_spec(disks=disks()))
    begun_s = time.monotonic()
    with pytest.raises(BlockDeviceError, match="does not answer this node"):
        node.call("instance_disks_assemble", instance=instance, as_primary=True)
    for disk in disks():
        for name in ("blockdev_shutdown", "blockdev_remove"):
            with pytest.raises(BlockDeviceError, match="does not answer this node"):
                node.call(name, disk=msgspec.to_builtins(disk))
    with pytest.raises(BlockDeviceError, match="does not answer this node"):
        node.call("blockdev_steal", disk=msgspec.to_builtins(disks()[0]), owner="web1", reason="failover")
    assert time.monotonic() - begun_s < 10 * LIMIT_S
    assert asked(node) == 1
