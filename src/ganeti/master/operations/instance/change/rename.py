# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_RENAME: give a stopped instance another name, and its files the directory of that name.

The files move first, each with its undo; then one commit changes the name and says where they are. The installed
system is told last, by the rename script of its OS: the instance has its new name whatever comes of that.
"""

import os.path
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import structs

from ganeti.base.command import Command, Option
from ganeti.base.errors import ALREADY_EXISTS, WRONG_INPUT, WRONG_STATE, GanetiError, PrerequisiteError
from ganeti.master.disk_plan import Side
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.instance.disks.disk_steps import close_disks, open_disks, plan_of, push_undo
from ganeti.master.operations.instance.existing import (
    guest_on_primary,
    instance_and_nodes,
    require_online,
    require_stopped,
)
from ganeti.master.operations.instance.os.script_output import tell_new_name
from ganeti.master.operations.instance.wanted import creation_input as creation
from ganeti.master.operations.instance.wanted.creation_checks import refuse_used_address
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import InstanceName, InstanceUuid, IpCheck, NameCheck, Text
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan, instance_lock
from ganeti.model.node_calls.disks import BlockdevGetdimensions, BlockdevRename
from ganeti.model.node_calls.instances import FoundInstance
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.model.objects import Instance
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask


class RenameInstance(Change, frozen=True, kw_only=True):
    """Call an instance by another name; *logical_ids* (by UUID) are those of the disks that have moved with it."""

    instance_uuid: str
    name: str
    logical_ids: dict[str, list[Any]] = {}

    def apply(self, draft: Draft) -> None:
        instance = draft.instance(self.instance_uuid)
        refuse_used_name(draft, instance, self.name)
        for uuid, logical_id in self.logical_ids.items():
            draft.put("disks", structs.replace(draft.disk(uuid), logical_id=logical_id))
        draft.put("instances", structs.replace(instance, name=self.name, disks_active=False))


@dataclass(frozen=True)
class Checked:
    instance: Instance
    spec: InstanceSpec
    name: str
    moved: list[tuple[DiskSpec, list[Any]]]
    """Disks that change their place, each with its new logical id."""


def refuse_used_name(view: ConfigView, instance: Instance, name: str) -> None:
    """Raise `PrerequisiteError` where *name* is another instance's."""
    if view.uuid_by_name("instances", name) not in (None, instance.uuid):
        raise PrerequisiteError(f"Instance '{name}' is already in the cluster: choose another name", ALREADY_EXISTS)


def moved_disks(catalogue: Catalogue, spec: InstanceSpec, name: str) -> list[tuple[DiskSpec, list[Any]]]:
    """Disks that lie in a directory named after another instance, each with the logical id that it gets."""
    moved = []
    for disk in spec.disks:
        if catalogue.template(disk.template).directory_based:
            driver, path = disk.logical_id
            above, file_name = os.path.dirname(os.path.dirname(path)), os.path.basename(path)
            wanted = [driver, f"{above}/{name}/{file_name}"]
            if wanted != disk.logical_id:
                moved.append((disk, wanted))
    return moved


@operation(
    "OP_INSTANCE_RENAME",
    summary_field="instance_name",
    hooks="instance-rename",
    cli=Command(
        "gnt-instance rename",
        "rename a stopped instance",
        arguments=("instance_name", "new_name"),
        options=(Option(("-f", "--force"), "assume_yes", "flag", "as without it; there for old scripts"),),
        handler="instance.reinstall:rename",
    ),
    rapi="PUT /2/instances/[instance_name]/rename",
    examples=(
        Example(
            "rename",
            {"instance_name": "one.example.com", "new_name": "two.example.com"},
            before=("create-stopped",),
        ),
        Example(
            "rename-diskless",
            {"instance_name": "one.example.com", "new_name": "two.example.com"},
            before=("create-diskless-stopped",),
        ),
    ),
)
class GiveInstanceAnotherName(Operation[str], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rename an instance that is stopped; gives the new name."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    new_name: Annotated[Text, Parameter("its new name, as of a host", subject="new name", metavar="new-name")]
    name_check: NameCheck = False
    ip_check: IpCheck = False

    def locks(self, view: ConfigView) -> LockPlan:
        new = instance_lock(creation.check_name(self.new_name))
        return instance_and_nodes(view, self.instance_uuid or self.instance_name).union(plan(exclusive=[new]))

    async def gather(self, ctx: OperationContext, view: ConfigView) -> FoundInstance | None:
        """The guest, if it runs; and what the name stands for, where that is to be checked."""
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        if self.ip_check and not self.name_check:
            raise PrerequisiteError("Cannot check the IP address without the name: add --name-check", WRONG_INPUT)
        if self.name_check:
            name = creation.check_name(self.new_name)
            _, address = await ctx.names.resolve(name, view.cluster.primary_ip_family)
            if self.ip_check and name != instance.name:
                await refuse_used_address(ctx, view, name, address)
        if instance.forthcoming:
            return None
        return await guest_on_primary(ctx, view, instance, "bring it back, or fail the instance over first")

    def check(self, view: ConfigView, facts: FoundInstance | None, ctx: OperationContext) -> Checked:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        name = creation.check_name(self.new_name)
        refuse_used_name(view, instance, name)
        require_stopped(instance, facts, "renamed")
        spec = instance_spec(view, ctx.catalogue, instance)
        moved = moved_disks(ctx.catalogue, spec, name)
        if moved and not instance.forthcoming:
            for uuid in view.secondary_nodes(instance):
                require_online(view, uuid, "its copies of the disks cannot be renamed: bring it back, or replace it")
        return Checked(instance, spec, name, moved)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        nodes = list(dict.fromkeys([view.cluster.master_node, *view.instance_nodes(checked.instance)]))
        env = {"INSTANCE_NEW_NAME": checked.name}
        return instance_hooks(view, self.hooks_path, checked.spec, checked.instance, nodes, nodes, env)

    async def check_on_nodes(self, checked: Checked, ctx: OperationContext) -> Checked:
        """Whether each file is where it should be, and nothing where it goes."""
        if checked.instance.forthcoming:
            return checked
        for side, there, then in _renamings(checked, ctx):
            sizes = await ask(ctx.nodes, side.node_uuid, BlockdevGetdimensions(disks=[*there, *then]))
            for index, disk in enumerate(there):
                _refuse_files(side, disk, then[index], present=sizes[index], taken=sizes[len(there) + index])
        return checked

    async def execute(self, checked: Checked, ctx: OperationContext) -> str:
        instance = checked.instance
        if not instance.forthcoming:
            await self._move_files(checked, ctx)
        logical_ids = {disk.uuid: logical_id for disk, logical_id in checked.moved}
        change = RenameInstance(instance_uuid=instance.uuid, name=checked.name, logical_ids=logical_ids)
        await ctx.config.commit(change, settles=True)
        if not instance.forthcoming and instance.os:
            await self._tell_system(checked, ctx)
        return checked.name

    async def _move_files(self, checked: Checked, ctx: OperationContext) -> None:
        spec = checked.spec
        if checked.instance.disks_active:
            ctx.log.info(f"* closing the disks of {spec.name}...")
            await close_disks(ctx, spec)
        if not checked.moved:
            return
        ctx.log.info("* renaming the files of its disks...")
        for side, there, then in _renamings(checked, ctx):
            for disk, renamed in zip(there, then, strict=True):
                sentence = f"give disk {disk.index} of {spec.name} its former name on {side.node_name}"
                back = BlockdevRename(disk=renamed, logical_id=disk.logical_id)
                await ctx.undo.push(UndoNodeCall.of(sentence, side.node_uuid, back))
                await ask(ctx.nodes, side.node_uuid, BlockdevRename(disk=disk, logical_id=renamed.logical_id))

    async def _tell_system(self, checked: Checked, ctx: OperationContext) -> None:
        """Run the rename script of its OS; a failure is only told, since the instance has its new name."""
        view = ctx.config.view()
        spec = instance_spec(view, ctx.catalogue, view.instance(checked.instance.uuid))
        disks = plan_of(ctx, spec)
        await push_undo(ctx, disks.open())
        try:
            await open_disks(ctx, disks)
            ctx.log.info("* running the rename script of its OS...")
            await tell_new_name(ctx, spec, checked.instance.name, self.debug_level or 0)
        except GanetiError as err:
            ctx.log.warning(f"Instance {spec.name} has its new name, but its installed system does not know it: {err}")
        await close_disks(ctx, spec)


def _renamings(checked: Checked, ctx: OperationContext) -> list[tuple[Side, list[DiskSpec], list[DiskSpec]]]:
    """Where disks get other names, as they are and as they will be."""
    if not checked.moved:
        return []
    there = [disk for disk, _ in checked.moved]
    then = [structs.replace(disk, logical_id=logical_id) for disk, logical_id in checked.moved]
    plan_now = plan_of(ctx, checked.spec)
    return [(side, there, then) for side in (plan_now.primary, *plan_now.secondaries)]


def _refuse_files(side: Side, disk: DiskSpec, renamed: DiskSpec, *, present: Any, taken: Any) -> None:
    """Raise `PrerequisiteError` unless a file can move: its undo could not tell what was there before."""
    if present is None:
        raise PrerequisiteError(
            f"Disk {disk.index} of {side.spec.name} is not on {side.node_name} ({disk.logical_id[-1]}), so it cannot "
            "be renamed: mount its directory, or recreate the disk",
            WRONG_STATE,
        )
    if taken is not None:
        raise PrerequisiteError(
            f"There is a file {renamed.logical_id[-1]} on {side.node_name} already: move it away", WRONG_STATE
        )
