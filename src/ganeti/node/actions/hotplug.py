# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about devices of a running guest."""

from ganeti.model.node_calls.hotplug import (
    DisksExchanged,
    HotplugObstacles,
    InstanceChangeDisks,
    InstanceChangeNics,
    InstanceChangeParameters,
    InstanceExchangeDisks,
    InstanceHotplugObstacles,
    InstanceMirrorDisks,
    MirrorProgress,
)
from ganeti.node import exchange_note
from ganeti.node.actions.instances import attach_disks, note_opened
from ganeti.node.actions.registry import answers
from ganeti.node.state import NodeState


@answers(InstanceHotplugObstacles)
async def instance_hotplug_obstacles(node: NodeState, asked: InstanceHotplugObstacles) -> HotplugObstacles:
    """Why devices of a running guest cannot change."""
    return await node.hypervisor_of(asked.instance).devices.hotplug_obstacles(asked.instance.name)


@answers(InstanceChangeNics)
async def instance_change_nics(node: NodeState, asked: InstanceChangeNics) -> None:
    """Plug and unplug NICs of a guest while it runs."""
    await node.hypervisor_of(asked.instance).devices.change_nics(asked.instance)
    node.world.log(f"instance {asked.instance.name} given the NICs of its configuration")


@answers(InstanceChangeDisks)
async def instance_change_disks(node: NodeState, asked: InstanceChangeDisks) -> None:
    """Plug and unplug disks of a guest while it runs."""
    hypervisor = node.hypervisor_of(asked.instance)
    if await hypervisor.info(asked.instance.name) is None:
        return
    await hypervisor.devices.change_disks(asked.instance, await attach_disks(node, asked.instance))
    await note_opened(node, asked.instance.disks)
    node.world.log(f"instance {asked.instance.name} given the disks of its configuration")


@answers(InstanceChangeParameters)
async def instance_change_parameters(node: NodeState, asked: InstanceChangeParameters) -> list[str]:
    """Change parameters of a guest while it runs."""
    taken = await node.hypervisor_of(asked.instance).devices.change_parameters(asked.instance, asked.names)
    if taken:
        node.world.log(f"instance {asked.instance.name} has taken over {', '.join(taken)}")
    return taken


@answers(InstanceMirrorDisks)
async def instance_mirror_disks(node: NodeState, asked: InstanceMirrorDisks) -> list[MirrorProgress]:
    """Copy disks of a guest while it runs."""
    targets = [await node.template_of(disk).activate(disk, asked.instance.name) for disk in asked.disks]
    progress = await node.hypervisor_of(asked.instance).devices.mirror_disks(asked.instance, targets)
    await note_opened(node, asked.disks)
    return progress


@answers(InstanceExchangeDisks)
async def instance_exchange_disks(node: NodeState, asked: InstanceExchangeDisks) -> DisksExchanged:
    """Have a guest use the copies of its disks."""
    devices = node.hypervisor_of(asked.instance).devices
    if asked.give_up:
        await devices.give_up_exchange(asked.instance)
        exchange_note.forget(node.paths, asked.instance.name)
        return DisksExchanged(settled=False)
    noted = exchange_note.has(node.paths, asked.instance.name, asked.disks)
    if asked.finish and not noted:
        return DisksExchanged(settled=False)
    if noted and await node.hypervisor_of(asked.instance).info(asked.instance.name) is None:
        # The guest has ended since, with this node's power perhaps: what it wrote last is on the copies.
        return DisksExchanged(settled=True)
    targets = [await node.template_of(disk).activate(disk, asked.instance.name) for disk in asked.disks]
    if not noted:
        await devices.hold_copies(asked.instance, targets)
        exchange_note.write(node.paths, asked.instance.name, asked.disks)
    await devices.exchange_disks(asked.instance, targets)
    node.world.log(f"instance {asked.instance.name} uses the copies of its disks")
    return DisksExchanged(settled=True)
