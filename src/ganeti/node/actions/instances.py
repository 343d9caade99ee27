# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that run instances: start, stop, look, install."""

from collections.abc import Iterable

from ganeti.model.node_calls import SLOW_S
from ganeti.model.node_calls.disks import DiskUse, InstanceDisksInUse
from ganeti.model.node_calls.instances import (
    AllInstancesInfo,
    Console,
    FoundInstance,
    HypervisorValidateParams,
    InstanceBalloonMemory,
    InstanceConsoleInfo,
    InstanceDisksAssemble,
    InstanceDisksRemove,
    InstanceDisksShutdown,
    InstanceDisksSteal,
    InstanceInfo,
    InstanceList,
    InstanceOsAdd,
    InstanceReboot,
    InstanceResizeDisk,
    InstanceRunRename,
    InstanceShutdown,
    InstanceStart,
    Removed,
)
from ganeti.model.node_requests import AttachedDisk, DiskSpec, InstanceSpec
from ganeti.node import metadata
from ganeti.node.actions.migration import forget_migrated, tell_metadata, yield_disks
from ganeti.node.actions.registry import answers
from ganeti.node.hypervisors.interface import ChecksProcessors, RunningInstance
from ganeti.node.os import runner
from ganeti.node.state import NodeState
from ganeti.node.storage.interface import KnowsOwners, Tracked


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


async def note_opened(node: NodeState, disks: Iterable[DiskSpec]) -> None:
    """A guest has opened these disks: note its clients where they must be shut out if this node is lost."""
    for disk in disks:
        template = node.template_of(disk)
        if isinstance(template, Tracked):
            await template.opened(disk)


async def detach_disks(node: NodeState, instance: InstanceSpec) -> None:
    for disk in reversed(instance.disks):
        template = node.template_of(disk)
        if isinstance(template, KnowsOwners):
            await template.give_back(disk, instance.name)
        else:
            await template.deactivate(disk)


@answers(InstanceList)
async def instance_list(node: NodeState, asked: InstanceList) -> list[str]:
    return [found.name for found in await find_instances(node, list(asked.hypervisors))]


@answers(AllInstancesInfo)
async def all_instances_info(node: NodeState, asked: AllInstancesInfo) -> list[FoundInstance]:
    return await find_instances(node, list(asked.hypervisors))


async def find_instances(node: NodeState, hypervisors: list[str]) -> list[FoundInstance]:
    return [_found(name, running) for name in hypervisors for running in await node.hypervisor(name).list_instances()]


@answers(InstanceInfo)
async def instance_info(node: NodeState, asked: InstanceInfo) -> FoundInstance | None:
    running = await node.hypervisor_of(asked.instance).info(asked.instance.name)
    return None if running is None else _found(asked.instance.hypervisor, running)


@answers(InstanceDisksAssemble)
async def instance_disks_assemble(node: NodeState, asked: InstanceDisksAssemble) -> list[AttachedDisk]:
    if asked.as_primary:
        return await attach_disks(node, asked.instance, for_migration=asked.for_migration)
    await yield_disks(node, asked.instance)
    return []


@answers(InstanceDisksShutdown)
async def instance_disks_shutdown(node: NodeState, asked: InstanceDisksShutdown) -> None:
    await detach_disks(node, asked.instance)


@answers(InstanceDisksRemove)
async def instance_disks_remove(node: NodeState, asked: InstanceDisksRemove) -> Removed:
    for disk in reversed(asked.instance.disks):
        await node.template_of(disk).deactivate(disk)
        await node.template_of(disk).remove(disk)
    node.world.log(f"all disks of instance {asked.instance.name} removed")
    return Removed()


@answers(InstanceDisksSteal)
async def instance_disks_steal(node: NodeState, asked: InstanceDisksSteal) -> None:
    for disk in asked.instance.disks:
        await node.template_of(disk).steal(disk, asked.instance.name, asked.reason)


@answers(InstanceDisksInUse)
async def instance_disks_in_use(node: NodeState, asked: InstanceDisksInUse) -> list[DiskUse]:
    found = [await node.template_of(disk).use_of(disk) for disk in asked.instance.disks]
    return [use for use in found if use is not None]


@answers(InstanceStart)
async def instance_start(node: NodeState, asked: InstanceStart) -> None:
    await start_on(node, asked.instance, await attach_disks(node, asked.instance), paused=asked.paused)


async def start_on(node: NodeState, instance: InstanceSpec, disks: list[AttachedDisk], *, paused: bool = False) -> None:
    """Start a guest on disks that are usable here."""
    forget_migrated(node, instance.name)
    await tell_metadata(node, instance)
    await node.hypervisor_of(instance).start(instance, disks, paused=paused)
    await note_opened(node, instance.disks)
    node.world.log(f"instance {instance.name} started{' paused' if paused else ''}")


@answers(InstanceResizeDisk)
async def instance_resize_disk(node: NodeState, asked: InstanceResizeDisk) -> None:
    instance = asked.instance
    disk = asked.disk
    attached = await node.template_of(disk).activate(disk, instance.name)
    await node.hypervisor_of(instance).resize_disk(instance.name, attached, disk.size_mib)
    node.world.log(f"disk {disk.index} of instance {instance.name} has {disk.size_mib} MiB for the running guest")


@answers(InstanceShutdown)
async def instance_shutdown(node: NodeState, asked: InstanceShutdown) -> None:
    instance = asked.instance
    hypervisor = node.hypervisor_of(instance)
    found = await hypervisor.info(instance.name)
    await hypervisor.stop(instance.name, timeout_s=asked.timeout_s)
    await metadata.forget(node.world, instance.name)
    if found is not None:
        node.world.log(f"instance {instance.name} stopped, it was {found.state}")


@answers(InstanceReboot)
async def instance_reboot(node: NodeState, asked: InstanceReboot) -> None:
    instance = asked.instance
    hard = asked.hard
    hypervisor = node.hypervisor_of(instance)
    if hard:
        await hypervisor.stop(instance.name, timeout_s=asked.shutdown_timeout_s)
    await hypervisor.reboot(instance, await attach_disks(node, instance), hard=hard)
    await note_opened(node, instance.disks)
    node.world.log(f"instance {instance.name} rebooted{' by stopping and starting it' if hard else ''}")


@answers(InstanceBalloonMemory)
async def instance_balloon_memory(node: NodeState, asked: InstanceBalloonMemory) -> None:
    instance = asked.instance
    await node.hypervisor_of(instance).balloon(instance.name, asked.memory_mib)
    node.world.log(f"instance {instance.name} given {asked.memory_mib} MiB of memory")


@answers(InstanceConsoleInfo)
async def instance_console_info(node: NodeState, asked: InstanceConsoleInfo) -> Console:
    return node.hypervisor_of(asked.instance).console(asked.instance)


@answers(HypervisorValidateParams)
async def hypervisor_validate_params(node: NodeState, asked: HypervisorValidateParams) -> None:
    hypervisor = node.hypervisor(asked.hypervisor)
    await hypervisor.check_parameters(asked.hvparams, user_ids=asked.user_ids)
    if asked.vcpus is not None and isinstance(hypervisor, ChecksProcessors):
        await hypervisor.check_vcpus(asked.hvparams, asked.vcpus, starts=asked.starts)


@answers(InstanceOsAdd)
async def instance_os_add(node: NodeState, asked: InstanceOsAdd) -> None:
    instance = asked.instance
    disks = await attach_files(node, instance)
    await runner.create(
        node.world,
        instance,
        disks,
        reinstall=asked.reinstall,
        debug=asked.debug,
        timeout_s=asked.timeout_s,
        token=asked.token,
    )
    node.world.log(f"instance {instance.name} {'re' if asked.reinstall else ''}installed with OS {instance.os}")


@answers(InstanceRunRename)
async def instance_run_rename(node: NodeState, asked: InstanceRunRename) -> None:
    instance = asked.instance
    disks = await attach_files(node, instance)
    await runner.rename(
        node.world, instance, disks, old_name=asked.old_name, debug=asked.debug, timeout_s=SLOW_S, token=asked.token
    )
    node.world.log(f"instance {asked.old_name} renamed to {instance.name} by OS {instance.os}")
