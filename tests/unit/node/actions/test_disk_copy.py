# SPDX-License-Identifier: BSD-2-Clause
"""Copying a disk by node calls: whole at its end, and not across a restart of the node."""

import pytest
from tests.fakes.one_node import OneNode

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_requests import DiskSpec, InstanceSpec

SIZE = 1024 * 1024
DISK = DiskSpec(uuid="d0", template="file", logical_id=["loop", "/srv/disks/web1/d0"], size_mib=1, index=0)
INSTANCE = InstanceSpec(
    name="web1",
    uuid="uuid-web1",
    hypervisor="fake",
    os="test",
    primary_node="node1",
    primary_node_uuid="uuid-node1",
    hvparams={},
    beparams={"maxmem": 128, "vcpus": 1},
    disks=[DISK],
)


def test_a_copy_is_a_disk_at_its_end(node: OneNode) -> None:
    assert not node.call("instance_disks_arrived", instance=INSTANCE).settled
    boot = node.call("blockdev_copy_begin", disk=DISK, size=SIZE)
    wrote = node.call("blockdev_copy_write", disk=DISK, offset=4096, data=b"abc", compression="none", boot=boot)
    assert wrote == 4099
    assert not node.call("instance_disks_arrived", instance=INSTANCE).settled
    node.call("blockdev_copy_end", disk=DISK, boot=boot)
    assert node.call("instance_disks_arrived", instance=INSTANCE).settled
    piece = node.call("blockdev_read", disk=DISK, offset=0)
    assert (piece.offset, piece.size, piece.data.strip(b"\0")) == (0, SIZE, b"abc")
    assert node.call("blockdev_read", disk=DISK, offset=4099).offset == SIZE


@pytest.mark.parametrize("call", ["blockdev_copy_write", "blockdev_copy_end"])
def test_a_node_that_has_restarted_does_not_go_on(node: OneNode, call: str) -> None:
    node.call("blockdev_copy_begin", disk=DISK, size=SIZE)
    arguments = {"offset": 0, "data": b"abc", "compression": "none"} if call == "blockdev_copy_write" else {}
    with pytest.raises(BlockDeviceError, match=r"has restarted while disk .* was copied to it"):
        node.call(call, disk=DISK, boot="before", **arguments)
