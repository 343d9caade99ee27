# SPDX-License-Identifier: BSD-2-Clause
"""Node calls of a live migration, in the order of `hypervisors/interface.py`.

Who may write the disks moves with the guest: the target is a second user of the image locks from `accept_instance` to
`instance_finalize_migration_dst`; the source gives its right back when it is told that the guest has arrived.

A source that has let a guest go for good remembers that (``migrated/NAME``) until the guest comes here again: the
successor of a dead job must not take the guest's absence for its death.
"""

import contextlib
import os
from typing import Any

from ganeti.base.errors import BlockDeviceError, HypervisorError
from ganeti.model.node_calls.migration import (
    AcceptInstance,
    Finalized,
    InstanceFinalizeMigrationDst,
    InstanceFinalizeMigrationSrc,
    InstanceGetMigrationStatus,
    InstanceMigratable,
    InstanceMigrate,
    MigrationCancel,
    MigrationContinue,
    MigrationHandOver,
    MigrationInfo,
    MigrationResolve,
    MigrationStatus,
    MigrationTakeOver,
    MigrationTarget,
    Resolution,
)
from ganeti.model.node_requests import InstanceSpec
from ganeti.node import metadata
from ganeti.node.actions.daemons import daemon_util
from ganeti.node.actions.registry import answers
from ganeti.node.state import NodeState

_TELL_WITHIN_S = 1.0
_LOOK_AGAIN_S = 0.01
"""A guest with mirrored disks stands from the end of its sending until the master has been told."""


@answers(InstanceMigratable)
async def instance_migratable(node: NodeState, asked: InstanceMigratable) -> None:
    instance = asked.instance
    running = await node.hypervisor_of(instance).info(instance.name)
    if running is None:
        raise HypervisorError(f"Instance {instance.name} is not running here: fail it over instead")
    if running.state not in ("running", "paused"):
        raise HypervisorError(f"Instance {instance.name} is {running.state}: only a running one can be migrated")


@answers(MigrationInfo)
async def migration_info(node: NodeState, asked: MigrationInfo) -> dict[str, Any]:
    return await node.hypervisor_of(asked.instance).migration_info(asked.instance.name)


@answers(AcceptInstance)
async def accept_instance(node: NodeState, asked: AcceptInstance) -> MigrationTarget:
    instance = asked.instance
    hypervisor = node.hypervisor_of(instance)
    try:
        disks = [
            await node.template_of(disk).activate(disk, instance.name, for_migration=True) for disk in instance.disks
        ]
        forget_migrated(node, instance.name)
        await tell_metadata(node, instance)
        target = await hypervisor.accept(instance, disks, asked.info, asked.address)
    except BaseException:
        with contextlib.suppress(HypervisorError):
            await hypervisor.finalize_target(instance.name, success=False)
        with contextlib.suppress(BlockDeviceError):
            await _settle_disks(node, instance, arrived=False)
        raise
    node.world.log(f"instance {instance.name} awaited from {instance.primary_node}")
    return target


@answers(InstanceMigrate)
async def instance_migrate(node: NodeState, asked: InstanceMigrate) -> None:
    instance = asked.instance
    await node.hypervisor_of(instance).migrate(instance.name, asked.target, live=asked.live)
    node.world.log(f"instance {instance.name} being migrated to {asked.target.address}")


@answers(InstanceGetMigrationStatus)
async def instance_get_migration_status(node: NodeState, asked: InstanceGetMigrationStatus) -> MigrationStatus:
    hypervisor, name = node.hypervisor_of(asked.instance), asked.instance.name
    end_s = node.world.now_s() + min(asked.within_s, _TELL_WITHIN_S)
    while (status := await hypervisor.migration_status(name)).status == "active" and node.world.now_s() < end_s:
        await node.world.sleep(_LOOK_AGAIN_S)
    return status


@answers(MigrationContinue)
async def migration_continue(node: NodeState, asked: MigrationContinue) -> None:
    await node.hypervisor_of(asked.instance).continue_switchover(asked.instance.name)


@answers(MigrationHandOver)
async def migration_hand_over(node: NodeState, asked: MigrationHandOver) -> None:
    for disk in asked.instance.disks:
        await node.template_of(disk).hand_over(disk)


@answers(MigrationTakeOver)
async def migration_take_over(node: NodeState, asked: MigrationTakeOver) -> None:
    for disk in asked.instance.disks:
        await node.template_of(disk).take_over(disk, asked.instance.name)


@answers(MigrationCancel)
async def migration_cancel(node: NodeState, asked: MigrationCancel) -> MigrationStatus:
    instance = asked.instance
    status = await node.hypervisor_of(instance).cancel_migration(instance.name)
    node.world.log(f"migration of instance {instance.name} cancelled, it was {status.status}")
    return status


@answers(InstanceFinalizeMigrationDst)
async def instance_finalize_migration_dst(node: NodeState, asked: InstanceFinalizeMigrationDst) -> Finalized:
    instance = asked.instance
    success = asked.success
    hypervisor = node.hypervisor_of(instance)
    if success and asked.may_have_ended and await hypervisor.info(instance.name) is None:
        await _settle_disks(node, instance, arrived=True)
        for disk in instance.disks:
            await node.template_of(disk).deactivate(disk)
        node.world.log(f"instance {instance.name} had arrived and has ended on this node")
        return Finalized(settled=True)
    await hypervisor.finalize_target(instance.name, success=success)
    await _settle_disks(node, instance, arrived=success)
    if not success and await hypervisor.info(instance.name) is None:
        await yield_disks(node, instance)
    node.world.log(f"instance {instance.name} {'arrived' if success else 'did not arrive, its remains are gone'}")
    return Finalized(settled=success)


@answers(InstanceFinalizeMigrationSrc)
async def instance_finalize_migration_src(node: NodeState, asked: InstanceFinalizeMigrationSrc) -> None:
    instance = asked.instance
    if asked.success:
        await _let_go(node, instance)
    else:
        await _take_back(node, instance)
        await node.hypervisor_of(instance).finalize_source(instance.name, success=False)
    node.world.log(f"instance {instance.name} {'has left' if asked.success else 'runs on, its migration failed'}")


@answers(MigrationResolve)
async def migration_resolve(node: NodeState, asked: MigrationResolve) -> Resolution:
    instance = asked.instance
    if os.path.exists(_marker(node, instance.name)):
        await _let_go(node, instance)
        return Resolution(settled=True, status="completed")
    hypervisor = node.hypervisor_of(instance)
    status = await hypervisor.cancel_migration(instance.name)
    found = await hypervisor.info(instance.name) if status.status == "none" else None
    if status.status == "none" and (found is None or found.state == "shutdown"):
        # It has ended here, with this node's power perhaps: what is left is to start it as any guest that has ended.
        if found is None:  # else there is a note that its user has shut it down
            await hypervisor.finalize_source(instance.name, success=True)
        node.world.log(f"migration of instance {instance.name} resolved: the guest has ended on this node")
        return Resolution(settled=False, status="ended")
    settled = status.status == "completed"
    if settled:
        await _let_go(node, instance)
    else:
        await _take_back(node, instance)
        await hypervisor.finalize_source(instance.name, success=False)
    where = "had reached the target" if settled else "stays here"
    node.world.log(f"migration of instance {instance.name} resolved: it was {status.status}, the guest {where}")
    return Resolution(settled=settled, status=status.status)


def forget_migrated(node: NodeState, name: str) -> None:
    """The guest comes here again."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_marker(node, name))


async def tell_metadata(node: NodeState, instance: InstanceSpec) -> None:
    """Let a guest that comes here find its metadata."""
    if node.hypervisor_of(instance).traits.serves_metadata:
        await metadata.tell(node.world, daemon_util(), instance)


async def _let_go(node: NodeState, instance: InstanceSpec) -> None:
    marker = _marker(node, instance.name)
    os.makedirs(os.path.dirname(marker), mode=0o750, exist_ok=True)
    with open(marker, "w", encoding="utf-8") as file:
        os.fsync(file.fileno())
    await node.hypervisor_of(instance).finalize_source(instance.name, success=True)
    await metadata.forget(node.world, instance.name)
    await yield_disks(node, instance)


async def yield_disks(node: NodeState, instance: InstanceSpec) -> None:
    """Let another node write the disks of *instance*; copies that are kept here follow it."""
    for disk in instance.disks:
        await node.template_of(disk).become_secondary(disk)


async def _take_back(node: NodeState, instance: InstanceSpec) -> None:
    for disk in instance.disks:
        await node.template_of(disk).take_back(disk)


async def _settle_disks(node: NodeState, instance: InstanceSpec, *, arrived: bool) -> None:
    for disk in instance.disks:
        await node.template_of(disk).settle_migration(disk, instance.name, arrived=arrived)


def _marker(node: NodeState, name: str) -> str:
    return f"{node.paths.data_dir}/migrated/{name}"
