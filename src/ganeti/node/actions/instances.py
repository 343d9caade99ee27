# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that run instances: start, stop, look, install."""

from typing import Any

import msgspec

from ganeti.model.node_calls.disks import DiskUse, InstanceDisksInUse
from ganeti.model.node_calls.instances import (
    AllInstancesInfo,
    Console,
    FoundInstance,
    InstanceConsoleInfo,
    InstanceInfo,
)
from ganeti.model.node_requests import AttachedDisk, DiskSpec, InstanceSpec
from ganeti.node import metadata
from ganeti.node.actions.migration import forget_migrated, tell_metadata, yield_disks
from ganeti.node.actions.registry import DAY_S, NORMAL_S, SLOW_S, URGENT_S, answers, node_call
from ganeti.node.hypervisors.interface import RunningInstance
from ganeti.node.os import runner
from ganeti.node.state import NodeState

FORCE_AFTER_S = 30.0


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is left: a successor that completes a removal may forget the instance."""

    settled: bool = True


def _found(hypervisor: str, running: RunningInstance) -> FoundInstance:
    return FoundInstance(
        name=running.name,
        hypervisor=hypervisor,
        memory_mib=running.memory_mib,
        vcpus=running.vcpus,
        state=running.state,
        cpu_time_s=running.cpu_time_s,
    )


async def attach_disks(node: NodeState, instance: InstanceSpec, *, for_migration: bool = False) -> list[AttachedDisk]:
    """Make all disks of *instance* usable here; those that are already stay so."""
    return [
        await node.template_of(disk).activate(disk, instance.name, for_migration=for_migration)
        for disk in instance.disks
    ]


async def attach_files(node: NodeState, instance: InstanceSpec) -> list[AttachedDisk]:
    """The same for programs that read and write files: each disk has a path."""
    attached = await attach_disks(node, instance)
    return [await node.template_of(disk.spec).as_file(disk) for disk in attached]


async def detach_disks(node: NodeState, instance: InstanceSpec) -> None:
    for disk in reversed(instance.disks):
        await node.template_of(disk).deactivate(disk)


@node_call(timeout_s=URGENT_S, changes=False)
async def instance_list(node: NodeState, *, hypervisors: dict[str, dict[str, Any]]) -> list[str]:
    """Names of all guests of these hypervisors (name to filled parameters)."""
    return [found.name for found in await find_instances(node, list(hypervisors))]


@answers(AllInstancesInfo, timeout_s=URGENT_S, changes=False)
async def all_instances_info(node: NodeState, asked: AllInstancesInfo) -> list[FoundInstance]:
    return await find_instances(node, list(asked.hypervisors))


async def find_instances(node: NodeState, hypervisors: list[str]) -> list[FoundInstance]:
    return [_found(name, running) for name in hypervisors for running in await node.hypervisor(name).list_instances()]


@answers(InstanceInfo, timeout_s=URGENT_S, changes=False)
async def instance_info(node: NodeState, asked: InstanceInfo) -> FoundInstance | None:
    running = await node.hypervisor_of(asked.instance).info(asked.instance.name)
    return None if running is None else _found(asked.instance.hypervisor, running)


@node_call()
async def instance_disks_assemble(
    node: NodeState, *, instance: InstanceSpec, for_migration: bool = False, as_primary: bool = True
) -> list[AttachedDisk]:
    """Make all disks usable here, in one call; without *as_primary*, their copies here follow the primary's."""
    if as_primary:
        return await attach_disks(node, instance, for_migration=for_migration)
    await yield_disks(node, instance)
    return []


@node_call()
async def instance_disks_shutdown(node: NodeState, *, instance: InstanceSpec) -> None:
    await detach_disks(node, instance)


@node_call(timeout_s=SLOW_S)
async def instance_disks_remove(node: NodeState, *, instance: InstanceSpec) -> Removed:
    """Close and remove all disks of an instance; those that are gone are no error."""
    for disk in reversed(instance.disks):
        await node.template_of(disk).deactivate(disk)
        await node.template_of(disk).remove(disk)
    node.world.log(f"all disks of instance {instance.name} removed")
    return Removed()


@node_call()
async def instance_disks_steal(node: NodeState, *, instance: InstanceSpec, reason: str) -> None:
    """Take the disks from a dead node; the caller answers for nothing writing there any more."""
    for disk in instance.disks:
        await node.template_of(disk).steal(disk, instance.name, reason)


@answers(InstanceDisksInUse, timeout_s=URGENT_S, changes=False)
async def instance_disks_in_use(node: NodeState, asked: InstanceDisksInUse) -> list[DiskUse]:
    found = [await node.template_of(disk).use_of(disk) for disk in asked.instance.disks]
    return [use for use in found if use is not None]


@node_call()
async def instance_start(node: NodeState, *, instance: InstanceSpec, paused: bool = False) -> None:
    """Start a guest on its disks (which are assembled if they were not)."""
    await start_on(node, instance, await attach_disks(node, instance), paused=paused)


async def start_on(node: NodeState, instance: InstanceSpec, disks: list[AttachedDisk], *, paused: bool = False) -> None:
    """Start a guest on disks that are usable here."""
    forget_migrated(node, instance.name)
    await tell_metadata(node, instance)
    await node.hypervisor_of(instance).start(instance, disks, paused=paused)
    node.world.log(f"instance {instance.name} started{' paused' if paused else ''}")


@node_call()
async def instance_resize_disk(node: NodeState, *, instance: InstanceSpec, disk: DiskSpec) -> None:
    """Let a running guest see a disk of its as large as *disk* says."""
    attached = await node.template_of(disk).activate(disk, instance.name)
    await node.hypervisor_of(instance).resize_disk(instance.name, attached, disk.size_mib)
    node.world.log(f"disk {disk.index} of instance {instance.name} has {disk.size_mib} MiB for the running guest")


@node_call(timeout_s=SLOW_S)
async def instance_shutdown(node: NodeState, *, instance: InstanceSpec, timeout_s: float) -> None:
    """Power a guest off, or end it after *timeout_s*; nothing of it but its disks is left."""
    hypervisor = node.hypervisor_of(instance)
    found = await hypervisor.info(instance.name)
    await hypervisor.stop(instance.name, timeout_s=timeout_s)
    await metadata.forget(node.world, instance.name)
    if found is not None:
        node.world.log(f"instance {instance.name} stopped, it was {found.state}")


@node_call(timeout_s=SLOW_S)
async def instance_reboot(
    node: NodeState, *, instance: InstanceSpec, hard: bool = False, shutdown_timeout_s: float = FORCE_AFTER_S
) -> None:
    """Reboot in place, or with *hard* by stopping and starting."""
    hypervisor = node.hypervisor_of(instance)
    if hard:
        await hypervisor.stop(instance.name, timeout_s=shutdown_timeout_s)
    await hypervisor.reboot(instance, await attach_disks(node, instance), hard=hard)
    node.world.log(f"instance {instance.name} rebooted{' by stopping and starting it' if hard else ''}")


@node_call()
async def instance_balloon_memory(node: NodeState, *, instance: InstanceSpec, memory_mib: int) -> None:
    await node.hypervisor_of(instance).balloon(instance.name, memory_mib)
    node.world.log(f"instance {instance.name} given {memory_mib} MiB of memory")


@answers(InstanceConsoleInfo, timeout_s=URGENT_S, changes=False)
async def instance_console_info(node: NodeState, asked: InstanceConsoleInfo) -> Console:
    return node.hypervisor_of(asked.instance).console(asked.instance)


@node_call(timeout_s=NORMAL_S, changes=False)
async def hypervisor_validate_params(node: NodeState, *, hypervisor: str, hvparams: dict[str, Any]) -> None:
    """Check filled parameters against this node; raises `HypervisorError` saying what is missing."""
    await node.hypervisor(hypervisor).check_parameters(hvparams)


@node_call(timeout_s=DAY_S)
async def instance_os_add(
    node: NodeState,
    *,
    instance: InstanceSpec,
    reinstall: bool = False,
    debug: int = 0,
    timeout_s: float = DAY_S,
    token: str = "",
) -> None:
    """Run the create script of the instance's OS on its disks (which are assembled if they were not)."""
    disks = await attach_files(node, instance)
    await runner.create(node.world, instance, disks, reinstall=reinstall, debug=debug, timeout_s=timeout_s, token=token)
    node.world.log(f"instance {instance.name} {'re' if reinstall else ''}installed with OS {instance.os}")


@node_call(timeout_s=SLOW_S)
async def instance_run_rename(
    node: NodeState, *, instance: InstanceSpec, old_name: str, debug: int = 0, token: str = ""
) -> None:
    """Tell the OS that the instance, which was *old_name*, has the name it has now."""
    disks = await attach_files(node, instance)
    await runner.rename(node.world, instance, disks, old_name=old_name, debug=debug, timeout_s=SLOW_S, token=token)
    node.world.log(f"instance {old_name} renamed to {instance.name} by OS {instance.os}")
