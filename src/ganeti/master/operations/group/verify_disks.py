# SPDX-License-Identifier: BSD-2-Clause
"""OP_GROUP_VERIFY_DISKS: which instances of a group lack disks, or have copies of them that are behind."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

from ganeti.base.errors import GanetiError
from ganeti.base.natural import natural_key
from ganeti.master.disk_plan import disk_plan
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.changes import NoteGenerations
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import GroupName
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan, group_lock, instance_lock, node_lock
from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_calls.disks import BlockdevFindEach, BlockdevGetdimensions
from ganeti.model.node_requests import DiskSpec
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

Found = TypeVar("Found")
FoundDisks = tuple[dict[str, str], list[str], dict[str, list[list[str]]]]
"""Faults of nodes by their names, instances whose disks are to be activated, and lost disks by instance: each the node
and what the disk is called there."""
Strict = Annotated[
    bool,
    Parameter(
        "wait for jobs that change instances; without it they are looked at as they are",
        "--no-strict",
        option_help="do not wait for jobs that change instances",
    ),
]


@operation(
    "OP_GROUP_VERIFY_DISKS",
    summary_field="group_name",
    examples=(Example("group-verify-disks", {"group_name": "default"}, before=("create",)),),
)
class VerifyGroupDisks(Operation[FoundDisks], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Look for lost disks, and copies that are behind, of the instances of a group whose disks should be open."""

    group_name: GroupName
    is_strict: Strict = True

    def locks(self, view: ConfigView) -> LockPlan:
        group = view.find_group(self.group_name)
        instances = self._instances(view) if self.is_strict else []
        return plan(
            shared=[
                group_lock(group.uuid),
                *(node_lock(node.uuid) for node in view.group_nodes(group.uuid)),
                *(instance_lock(instance.name) for instance in instances),
            ]
        )

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> None:
        view.find_group(self.group_name)

    async def execute(self, checked: None, ctx: OperationContext) -> FoundDisks:
        """Ask each node once for all disks it holds, and each primary once how far the copies of mirrored ones are."""
        view = ctx.config.view()
        held: dict[str, list[tuple[str, DiskSpec]]] = {}
        mirrored: dict[str, list[tuple[str, DiskSpec]]] = {}
        for instance in self._instances(view):
            if not instance.disks_active:
                continue
            disks = disk_plan(view, ctx.catalogue, instance_spec(view, ctx.catalogue, instance))
            for side in (disks.primary, *disks.secondaries):
                held.setdefault(side.node_uuid, []).extend((instance.name, disk) for disk in side.spec.disks)
            copied = {disk.uuid: disk for side in disks.secondaries for disk in side.spec.disks}
            if copied:
                mirrored.setdefault(disks.primary.node_uuid, []).extend(
                    (instance.name, each) for each in copied.values()
                )
        faults: dict[str, str] = {}
        lost: dict[str, list[list[str]]] = {}
        requests = {
            uuid: BlockdevGetdimensions(disks=[disk for _, disk in disks_there])
            for uuid, disks_there in held.items()
            if not view.node(uuid).offline
        }
        for uuid, sizes in (await _asked(ctx, requests, faults)).items():
            for (name, disk), size in zip(held[uuid], sizes, strict=True):
                if size is None:
                    lost.setdefault(name, []).append([view.node(uuid).name, disk.label])
        return faults, await self._behind(ctx, mirrored, faults, lost), lost

    async def _behind(
        self,
        ctx: OperationContext,
        mirrored: Mapping[str, Sequence[tuple[str, DiskSpec]]],
        faults: dict[str, str],
        lost: dict[str, list[list[str]]],
    ) -> list[str]:
        """Instances with a copy that nothing brings up to date: opening their disks again may."""
        view = ctx.config.view()
        wanted = {
            uuid: [(name, disk) for name, disk in disks if name not in lost]
            for uuid, disks in mirrored.items()
            if not view.node(uuid).offline and view.node(uuid).name not in faults
        }
        requests = {
            uuid: BlockdevFindEach(disks=[disk for _, disk in disks]) for uuid, disks in wanted.items() if disks
        }
        behind: dict[str, None] = {}
        generations: dict[str, int] = {}
        for uuid, found in (await _asked(ctx, requests, faults)).items():
            for (name, disk), each in zip(wanted[uuid], found, strict=True):
                if each.fault:
                    faults[view.node(uuid).name] = f"Node {view.node(uuid).name}: {each.fault}"
                status = each.status
                if status is not None and status.is_degraded and status.sync_percent is None:
                    behind[name] = None
                if status is not None and (status.generation or 0) > (disk.generation or 0):
                    generations[disk.uuid] = status.generation or 0
        if generations:
            await ctx.config.commit(NoteGenerations(generations=generations))
        return list(behind)

    def _instances(self, view: ConfigView) -> list[Instance]:
        members = view.group_nodes(view.find_group(self.group_name).uuid)
        found = [each for each in view.primary_instances(*(node.uuid for node in members)) if not each.forthcoming]
        return sorted(found, key=lambda instance: natural_key(instance.name))


async def _asked(
    ctx: OperationContext, requests: Mapping[str, NodeRequest[Found]], faults: dict[str, str]
) -> dict[str, Found]:
    """What nodes answer, all asked at once; *faults* hears of those that do not."""

    async def one(uuid: str, request: NodeRequest[Found]) -> Found | GanetiError:
        try:
            return await ask(ctx.nodes, uuid, request)
        except GanetiError as err:
            return err

    answers = await asyncio.gather(*(one(uuid, request) for uuid, request in requests.items()))
    told: dict[str, Found] = {}
    for uuid, answer in zip(requests, answers, strict=True):
        if isinstance(answer, GanetiError):
            faults[ctx.config.view().node(uuid).name] = str(answer)
        else:
            told[uuid] = answer
    return told
