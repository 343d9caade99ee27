# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that copy the disks of a running guest to the node that it migrates to."""

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disk_transfer import (
    DiskDoor,
    InstanceCopyRemove,
    InstanceDisksReceived,
    InstanceHandOverDisks,
    InstanceReceiveDisks,
    InstanceSendDisks,
    InstanceStopSending,
)
from ganeti.model.node_calls.hotplug import MirrorProgress
from ganeti.node.actions.registry import answers
from ganeti.node.state import NodeState


@answers(InstanceReceiveDisks)
async def instance_receive_disks(node: NodeState, asked: InstanceReceiveDisks) -> DiskDoor:
    """On the target, after `accept_instance`."""
    door = await node.hypervisor_of(asked.instance).devices.receive_disks(asked.instance, asked.address)
    node.world.log(f"instance {asked.instance.name}: its disks are awaited from {asked.instance.primary_node}")
    return door


@answers(InstanceSendDisks)
async def instance_send_disks(node: NodeState, asked: InstanceSendDisks) -> list[MirrorProgress]:
    """On the source, before `instance_migrate`."""
    return await node.hypervisor_of(asked.instance).devices.send_disks(asked.instance, asked.door)


@answers(InstanceHandOverDisks)
async def instance_hand_over_disks(node: NodeState, asked: InstanceHandOverDisks) -> None:
    """On the source, at its switchover."""
    await node.hypervisor_of(asked.instance).devices.hand_over_disks(asked.instance)
    node.world.log(f"instance {asked.instance.name}: its disks are whole on the node that it moves to")


@answers(InstanceDisksReceived)
async def instance_disks_received(node: NodeState, asked: InstanceDisksReceived) -> None:
    """On the target, after `instance_hand_over_disks`."""
    await node.hypervisor_of(asked.instance).devices.disks_received(asked.instance)


@answers(InstanceStopSending)
async def instance_stop_sending(node: NodeState, asked: InstanceStopSending) -> None:
    """On the source, where the move is taken back."""
    await node.hypervisor_of(asked.instance).devices.stop_sending(asked.instance)


@answers(InstanceCopyRemove)
async def instance_copy_remove(node: NodeState, asked: InstanceCopyRemove) -> None:
    """On the target, where the move is taken back."""
    if await node.hypervisor_of(asked.instance).info(asked.instance.name) is not None:
        raise BlockDeviceError(
            f"Instance {asked.instance.name} is here: disk {asked.disk.index} is not removed under it. See where it "
            f"runs (gnt-instance migrate --cleanup {asked.instance.name})"
        )
    await node.template_of(asked.disk).deactivate(asked.disk)
    await node.template_of(asked.disk).remove(asked.disk)
