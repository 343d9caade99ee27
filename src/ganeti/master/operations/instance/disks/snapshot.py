# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_SNAPSHOT: keep the disks of an instance as they are under a name, and go back to that."""

from typing import Annotated, Any, Literal

from msgspec.structs import replace

from ganeti.base.command import Argument, Command
from ganeti.base.errors import ALREADY_EXISTS, UNKNOWN_ENTITY, WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.base.names import file_name_fault, shown
from ganeti.master.instance_spec import bare, instance_spec
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.instance.existing import (
    instance_and_nodes,
    require_complete,
    require_one_moment,
    require_online,
)
from ganeti.master.operations.parameters import InstanceName, InstanceUuid, Text
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_calls.disks import InstanceSnapshots, Snapshot
from ganeti.model.node_calls.instances import InstanceInfo
from ganeti.model.node_calls.snapshots import InstanceSnapshotRemove, InstanceSnapshotRevert, InstanceSnapshotTake
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

Kept = list[tuple[str, float, list[int]]]
"""Name, time in seconds since 1970, and the indexes of the disks that have it."""
NAME_MAX = 64
_EXAMPLE = {"instance_name": "one.example.com", "snapshot_name": "before"}


class SetReverting(Change, frozen=True, kw_only=True):
    """The disks are being taken back to *snapshot*, or all of them are (None)."""

    instance_uuid: str
    snapshot: str | None = None

    def apply(self, draft: Draft) -> None:
        draft.put("instances", replace(draft.instance(self.instance_uuid), reverting=self.snapshot))


@operation(
    "OP_INSTANCE_SNAPSHOT",
    summary_field="instance_name",
    cli=Command(
        "gnt-instance snapshot",
        "keep the disks of an instance as they are, and go back to that",
        arguments=(
            Argument("action", "create|list|revert|remove"),
            "instance_name",
            Argument("snapshot_name", "snapshot", minimum=0),
        ),
        handler="instance.snapshot:run",
    ),
    examples=(
        Example("snapshot-create", {"action": "create", **_EXAMPLE}, before=("create-stopped",)),
        Example("snapshot-revert", {"action": "revert", **_EXAMPLE}, before=("create-stopped", "snapshot-create")),
        Example("snapshot-remove", {"action": "remove", **_EXAMPLE}, before=("create-stopped", "snapshot-create")),
    ),
)
class SnapshotInstance(Operation[Kept], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Create, list, revert to or remove a snapshot of all disks of an instance."""

    action: Annotated[
        Literal["create", "list", "revert", "remove"], Parameter("create, list, revert or remove", metavar="action")
    ]
    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    snapshot_name: Annotated[Text | None, Parameter("name of the snapshot", subject="new name")] = None

    def locks(self, view: ConfigView) -> LockPlan:
        return instance_and_nodes(view, self.instance_uuid or self.instance_name)

    async def gather(self, ctx: OperationContext, view: ConfigView) -> tuple[Kept, bool]:
        """The snapshots there are, and whether the guest runs."""
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(instance, "asked for snapshots", reverting=True)
        require_online(view, instance.primary_node, f"the snapshots of {instance.name} are there")
        if not instance.disks:
            raise PrerequisiteError(f"Instance {instance.name} has no disks to take snapshots of", WRONG_INPUT)
        spec = instance_spec(view, ctx.catalogue, instance)
        running = await ask(ctx.nodes, spec.primary_node_uuid, InstanceInfo(instance=spec))
        found = await ask(ctx.nodes, spec.primary_node_uuid, InstanceSnapshots(instance=bare(spec)))
        return _by_name(found), running is not None

    def check(self, view: ConfigView, facts: tuple[Kept, bool], ctx: OperationContext) -> tuple[InstanceSpec, Kept]:
        kept, runs = facts
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        spec = instance_spec(view, ctx.catalogue, instance)
        if self.action == "list":
            if self.snapshot_name is not None:
                raise PrerequisiteError("All snapshots are listed: leave the name out", WRONG_INPUT)
            return spec, kept
        name = self.snapshot_name
        fault = "say which one" if not name else file_name_fault(name)
        if fault is None and len(name or "") > NAME_MAX:
            fault = f"{NAME_MAX} characters are the most"
        if fault is not None:
            raise PrerequisiteError(f"'{shown(name or '')}' cannot be the name of a snapshot: {fault}", WRONG_INPUT)
        there = {each: disks for each, _, disks in kept}
        if self.action == "create" and name in there:
            raise PrerequisiteError(
                f"Instance {spec.name} has a snapshot {name} already: choose another name, or remove it first",
                ALREADY_EXISTS,
            )
        if self.action != "create" and name not in there:
            raise PrerequisiteError(
                f"Instance {spec.name} has no snapshot {name}: there are {', '.join(sorted(there)) or 'none'}",
                UNKNOWN_ENTITY,
            )
        if self.action == "revert" and runs:
            raise PrerequisiteError(
                f"Instance {spec.name} runs and uses its disks: shut it down first (gnt-instance shutdown {spec.name})",
                WRONG_STATE,
            )
        if self.action == "create" or (self.action == "remove" and instance.reverting == name):
            require_one_moment(instance)
        if self.action == "revert" and len(there[str(name)]) < len(spec.disks):
            raise PrerequisiteError(
                f"Snapshot {name} is older than a disk of {spec.name}, which it has nothing of: detach that disk first",
                WRONG_STATE,
            )
        return spec, kept

    async def execute(self, checked: tuple[InstanceSpec, Kept], ctx: OperationContext) -> Kept:
        spec, kept = checked
        if self.action == "list":
            return kept
        marked = ctx.config.view().instance(spec.uuid).reverting is not None
        if self.action == "revert" and len(spec.disks) > 1:
            await ctx.config.commit(SetReverting(instance_uuid=spec.uuid, snapshot=self.snapshot_name))
        request = _REQUESTS[self.action](instance=bare(spec), name=str(self.snapshot_name))
        frozen = await ask(ctx.nodes, spec.primary_node_uuid, request)
        if self.action == "create":
            how = ", its file systems were frozen meanwhile" if frozen else ""
            ctx.log.info(f"Snapshot {self.snapshot_name} of {spec.name} taken{how}")
        if self.action == "revert" and (len(spec.disks) > 1 or marked):
            await ctx.config.commit(SetReverting(instance_uuid=spec.uuid), settles=True)
        if self.action == "revert":
            ctx.log.info(f"The disks of {spec.name} are as in snapshot {self.snapshot_name} again")
        if self.action == "remove":
            ctx.log.info(f"Snapshot {self.snapshot_name} of {spec.name} removed")
        found = await ask(ctx.nodes, spec.primary_node_uuid, InstanceSnapshots(instance=bare(spec)))
        return _by_name(found)


_REQUESTS: dict[str, type[NodeRequest[Any]]] = {
    "create": InstanceSnapshotTake,
    "revert": InstanceSnapshotRevert,
    "remove": InstanceSnapshotRemove,
}


def _by_name(found: list[list[Snapshot]]) -> Kept:
    """One row for each name, the oldest first."""
    rows: dict[str, tuple[float, list[int]]] = {}
    for index, disk in enumerate(found):
        for each in disk:
            rows.setdefault(each.name, (each.created_s, []))[1].append(index)
    return [(name, created_s, disks) for name, (created_s, disks) in sorted(rows.items(), key=lambda row: row[1])]
