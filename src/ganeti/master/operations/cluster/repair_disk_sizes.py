# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_REPAIR_DISK_SIZES: let the configuration say of disks what size they have."""

from typing import Annotated

from msgspec.structs import replace

from ganeti.base.command import DRY_RUN, PRIORITY, Argument, Command
from ganeti.base.errors import GanetiError
from ganeti.master.disk_numbers import resized
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import ALL_INSTANCES, ALL_NODE_RES, LockPlan, instance_lock, node_res_lock
from ganeti.model.node_calls.disks import BlockdevGetdimensions
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

Found = list[tuple[str, int, str, int]]
"""Instance, index of the disk, what was wrong, and the value it has now."""
SIZE, SPINDLES = "size", "spindles"


class CorrectDiskSizes(Change, frozen=True, kw_only=True):
    """Disks have the sizes in MiB, and the spindles, that are said, by UUID; those that have gone are left out."""

    sizes_mib: dict[str, int]
    spindles: dict[str, int] = {}

    def apply(self, draft: Draft) -> None:
        for uuid in dict.fromkeys([*self.sizes_mib, *self.spindles]):
            if draft.get("disks", uuid) is not None:
                old = draft.disk(uuid)
                sized = resized(old, self.sizes_mib.get(uuid, old.size))
                draft.put("disks", replace(sized, spindles=self.spindles.get(uuid, old.spindles)))


@operation(
    "OP_CLUSTER_REPAIR_DISK_SIZES",
    cli=Command(
        "gnt-cluster repair-disk-sizes",
        "correct the sizes of disks in the configuration",
        arguments=(Argument("instances", "instance-name", minimum=0, maximum=None, subject="instance"),),
        options=(DRY_RUN, PRIORITY),
        handler="cluster.disks:repair_sizes",
        is_job=False,
    ),
    examples=(Example("repair-disk-sizes", {}, before=("create",)),),
)
class RepairDiskSizes(Operation[Found], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask primary nodes how large disks are, and put right what the configuration says otherwise.

    On exclusive storage their spindles, too: a disk that was made without naming them has as many as its size took.
    """

    instances: Annotated[list[Text], Parameter("instances to look at; all if none", subject="instance")] = []

    def locks(self, view: ConfigView) -> LockPlan:
        if not self.instances:
            return plan(shared=[ALL_NODE_RES], exclusive=[ALL_INSTANCES])
        chosen = self._chosen(view)
        nodes = dict.fromkeys(instance.primary_node for instance in chosen)
        return plan(
            shared=[node_res_lock(uuid) for uuid in nodes],
            exclusive=[instance_lock(instance.name) for instance in chosen],
        )

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> list[Instance]:
        return self._chosen(view)

    async def execute(self, checked: list[Instance], ctx: OperationContext) -> Found:
        view = ctx.config.view()
        sizes: dict[str, int] = {}
        spindles: dict[str, int] = {}
        found: Found = []
        for node in dict.fromkeys(instance.primary_node for instance in checked):
            specs = [
                instance_spec(view, ctx.catalogue, instance) for instance in checked if instance.primary_node == node
            ]
            owners = [(spec.name, disk) for spec in specs for disk in spec.disks]
            if not owners:
                continue
            if view.node(node).offline:
                ctx.log.warning(f"Node {view.node(node).name} is offline: the disks there are not looked at")
                continue
            try:
                told = await ask(ctx.nodes, node, BlockdevGetdimensions(disks=[disk for _, disk in owners]))
            except GanetiError as err:
                ctx.log.warning(f"Node {view.node(node).name} does not say how large its disks are: {err}")
                continue
            for (name, disk), dimensions in zip(owners, told, strict=True):
                if dimensions is None:
                    ctx.log.warning(f"Disk {disk.index} of instance {name} is not there, its size is left as it is")
                    continue
                size_mib, counted = dimensions
                if size_mib != disk.size_mib:
                    ctx.log.info(
                        f"Disk {disk.index} of instance {name} has {size_mib} MiB, not {disk.size_mib}: corrected"
                    )
                    sizes[disk.uuid] = size_mib
                    found.append((name, disk.index, SIZE, size_mib))
                if disk.exclusive and counted is not None and counted != disk.spindles:
                    ctx.log.info(
                        f"Disk {disk.index} of instance {name} has {counted} spindles, not {disk.spindles}: corrected"
                    )
                    spindles[disk.uuid] = counted
                    found.append((name, disk.index, SPINDLES, counted))
        if found:
            await ctx.config.commit(CorrectDiskSizes(sizes_mib=sizes, spindles=spindles), settles=True)
        return found

    def _chosen(self, view: ConfigView) -> list[Instance]:
        named = [view.find_instance(name) for name in dict.fromkeys(self.instances)] or view.instances()
        return sorted((each for each in named if not each.forthcoming), key=lambda each: each.name)
