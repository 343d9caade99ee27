# SPDX-License-Identifier: BSD-2-Clause
"""OP_BACKUP_EXPORT: have the OS of an instance dump its disks, and keep the dumps on a node or send them to a cluster.

The guest is stopped until there are snapshots of its disks, which the OS reads while it runs again. Where they are
not a matter of a moment, it is stopped until its primary node has the dumps, and runs again while they go to the
target node. Or it runs on, and what the OS reads of copies of its disks, as of one moment, goes there at once. Until
the target says that all is there, everything is taken back; an older export is replaced at that moment and not before.
Another cluster takes the disks as the OS reads them.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec

from ganeti.base.command import Command, Option
from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, ExecutionError, PrerequisiteError
from ganeti.base.names import shown
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.backup import disk_snapshots
from ganeti.master.operations.backup.between_nodes import BetweenNodes
from ganeti.master.operations.backup.description import DumpFile, description_of
from ganeti.master.operations.backup.dumps import discarding, require_compression
from ganeti.master.operations.backup.export_steps import (
    copy_disks,
    dump_name,
    dumps_of,
    make_dump,
    remove_older,
    require_same,
    start_again,
)
from ganeti.master.operations.backup.sending import Destination, read_destination, send_disks
from ganeti.master.operations.backup.transfers import Dump
from ganeti.master.operations.changes import SetInstanceState
from ganeti.master.operations.instance.disks.disk_steps import close_disks, open_disks, plan_of, push_undo
from ganeti.master.operations.instance.existing import guest_on_primary, instance_and_nodes, require_complete
from ganeti.master.operations.instance.os.helper_guest import run_helper
from ganeti.master.operations.instance.power.guest_power import stop_on_primary, undo_by_starting
from ganeti.master.operations.instance.remove import RemoveInstanceOperation
from ganeti.master.operations.parameters import InstanceName, InstanceUuid, ShutdownTimeout, TargetNodeUuid, Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.exports import (
    UNFINISHED,
    Dumped,
    ExportDiscard,
    ExportDump,
    ExportFinish,
    ExportInfo,
)
from ganeti.model.node_calls.instances import FoundInstance
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance, Node
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

ZEROING_FIXED_S = 600
ZEROING_PER_MIB_S = 0.2
"""How long a helper guest may zero free space, unless the request says it: for disks that write 5 MiB/s."""
Facts = tuple[FoundInstance | None, bool]
"""The guest, if it runs, and whether a snapshot of its disks on the primary node has all data."""
Seconds = Annotated[int, msgspec.Meta(ge=0)]
SecondsPerMib = Annotated[float, msgspec.Meta(ge=0)]
_EXAMPLE = {"instance_name": "one.example.com", "target_node": "node3.example.com"}


@dataclass(frozen=True)
class Checked:
    instance: Instance
    spec: InstanceSpec
    target: Node | None
    """The node that keeps the export; None where another cluster takes it."""
    runs: bool
    copies: bool = False
    """Whether the guest runs while its disks are exported, and copies of them are read."""
    snapshots: bool = False
    """Whether the guest is stopped only until there are snapshots of its disks."""
    destination: Destination | None = None

    @property
    def closes(self) -> bool:
        """Whether the disks are closed outside the export."""
        return not self.runs and not self.instance.disks_active

    @property
    def nodes(self) -> dict[str, str]:
        """Names of the nodes that have a part in it, by uuid."""
        found = {self.spec.primary_node_uuid: self.spec.primary_node}
        return found if self.target is None else found | {self.target.uuid: self.target.name}


@operation(
    "OP_BACKUP_EXPORT",
    summary_field="instance_name",
    hooks="instance-export",
    cli=Command(
        "gnt-backup export",
        "export an instance: have its OS dump the disks, and keep the dumps on a node",
        arguments=("instance_name",),
        options=(Option(("-f", "--force"), "assume_yes", "flag", "for scripts of 3.1: nothing is asked here"),),
    ),
    rapi="PUT /2/instances/[instance_name]/export",
    examples=(
        Example("export", _EXAMPLE, before=("create-on-file",)),
        Example("export-running", _EXAMPLE | {"shutdown": False}, before=("create-on-file",)),
        Example("export-stopped", _EXAMPLE, before=("create-on-file-stopped",)),
        Example(
            "export-and-remove",
            _EXAMPLE | {"target_node": "node2.example.com", "remove_instance": True},
            before=("create-on-file-stopped",),
        ),
    ),
)
class ExportInstance(Operation[tuple[bool, list[bool]]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keep a copy of an instance on a node, from which it can be made again; an older one is replaced."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    mode: Annotated[
        Literal["local", "remote"], Parameter("whether a node of this cluster keeps it, or another cluster takes it")
    ] = "local"
    target_node: Annotated[
        Text | list[Any],
        Parameter("node that keeps the export", "-n", "--node", subject="node", kind="string", metavar="NODE"),
    ]
    target_node_uuid: TargetNodeUuid = None
    compress: Annotated[
        str,
        Parameter(
            "compression of dumps during the transfer: none, or a tool of the cluster", "--transport-compression"
        ),
    ] = "none"
    shutdown: Annotated[
        bool, Parameter("stop it first", "--noshutdown", option_help="do not stop it first", kind="flag")
    ] = True
    shutdown_timeout: ShutdownTimeout = 120
    remove_instance: Annotated[bool, Parameter("remove it after its export", "--remove-instance")] = False
    ignore_remove_failures: Annotated[
        bool, Parameter("go on where something of it cannot be removed", "--ignore-remove-failures")
    ] = False
    long_sleep: Annotated[bool, Parameter("keep it stopped until the dumps are on the target node", "--long-sleep")] = (
        False
    )
    x509_key_name: Annotated[list[Any] | None, Parameter("key of the exporting side", subject="text")] = None
    destination_x509_ca: Annotated[Text | None, Parameter("certificate of the importing cluster", subject="text")] = (
        None
    )
    zero_free_space: Annotated[
        bool, Parameter("have a helper guest write zeros over free space first", "--zero-free-space")
    ] = False
    zeroing_timeout_fixed: Annotated[
        Seconds | None, Parameter("how long zeroing may take, in seconds", "--zeroing-timeout-fixed")
    ] = None
    zeroing_timeout_per_mib: Annotated[
        SecondsPerMib | None, Parameter("how much longer for each MiB, in seconds", "--zeroing-timeout-per-mib")
    ] = None

    def locks(self, view: ConfigView) -> LockPlan:
        target = self._target(view)
        nodes = [] if target is None else [target.uuid]
        return instance_and_nodes(view, self.instance_uuid or self.instance_name, *nodes)

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Facts:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(instance, "exported")
        target = self._target(view)
        nodes = [instance.primary_node] + ([] if target is None else [target.uuid])
        await require_compression(ctx, view, self.compress, nodes)
        guest = await guest_on_primary(ctx, view, instance, "its disks cannot be read until it is back")
        spec = instance_spec(view, ctx.catalogue, instance)
        return guest, guest is not None and self._comes_back_soon(spec, ctx) and await disk_snapshots.are_whole(
            ctx, spec
        )

    def check(self, view: ConfigView, facts: Facts, ctx: OperationContext) -> Checked:
        guest, snapshots = facts
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        runs = guest is not None or instance.admin_state == "up"
        self._check_zeroing(view, instance)
        if self.remove_instance and not self.shutdown:
            raise PrerequisiteError(
                f"Instance {instance.name} cannot be removed without stopping it: leave --noshutdown out", WRONG_INPUT
            )
        if not self.shutdown and runs:
            self._check_copying(instance, guest, ctx)
        if not instance.os:
            raise PrerequisiteError(
                f"Instance {instance.name} has no OS, whose export script would read its disks: name one that it can "
                f"be installed with (gnt-instance modify -O OS {instance.name})",
                WRONG_STATE,
            )
        if instance.name.endswith(UNFINISHED):
            raise PrerequisiteError(
                f"The export of {instance.name} would have the name that an unfinished one of "
                f"{instance.name.removesuffix(UNFINISHED)} has, and be removed with it: rename the instance first "
                f"(gnt-instance rename {instance.name} NAME)",
                WRONG_INPUT,
            )
        target, destination = self._target(view), None
        if target is None:
            destination = read_destination(
                ctx, self.target_node, self.x509_key_name, self.destination_x509_ca, len(instance.disks)
            )
        else:
            _require_usable(target)
        spec = instance_spec(view, ctx.catalogue, instance)
        copies = runs and not self.shutdown
        return Checked(instance, spec, target, runs, copies=copies, snapshots=snapshots, destination=destination)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        env = {
            "EXPORT_MODE": self.mode,
            "EXPORT_NODE": "" if checked.target is None else checked.target.name,
            "EXPORT_DO_SHUTDOWN": str(self.shutdown),
            "REMOVE_INSTANCE": str(self.remove_instance),
            "SHUTDOWN_TIMEOUT": str(self.shutdown_timeout),
        }
        nodes = list(dict.fromkeys([view.cluster.master_node, *checked.nodes]))
        return instance_hooks(view, self.hooks_path, checked.spec, checked.instance, nodes, nodes, env)

    async def execute(self, checked: Checked, ctx: OperationContext) -> tuple[bool, list[bool]]:
        spec = checked.spec
        for uuid, name in checked.nodes.items():
            await ctx.undo.push(discarding(spec.name, uuid, name))
        if checked.copies:
            await copy_disks(spec, ctx)
        else:
            checked = await self._stop_and_open(checked, ctx)
        if checked.target is not None:
            await self._keep(checked, checked.target, ctx)
        elif checked.destination is not None:
            await self._send_away(checked, checked.destination, ctx)
        if self.remove_instance:
            await self._remove_instance(spec, ctx)
        return True, [True for _ in spec.disks]

    def _comes_back_soon(self, spec: InstanceSpec, ctx: OperationContext) -> bool:
        """Whether a running guest is to be stopped for a moment only, where nothing is wrong with its disks."""
        if not self.shutdown or self.long_sleep or self.remove_instance or not spec.disks:
            return False
        return all(ctx.catalogue.template(disk.template).quick_snapshots for disk in spec.disks)

    def _comes_back(self, checked: Checked) -> bool:
        """Whether the guest was stopped for the export alone."""
        return checked.runs and not checked.copies and not self.remove_instance

    async def _keep(self, checked: Checked, target: Node, ctx: OperationContext) -> None:
        spec, boot = checked.spec, ""
        if target.uuid == spec.primary_node_uuid:
            dumped = await self._dump(checked, ctx)
            boot = dumped[-1].boot if dumped else ""
            made = await dumps_of(spec, target.uuid, [each.sha256 for each in dumped], ctx)
            if self._comes_back(checked):
                await start_again(spec, ctx)
            elif checked.snapshots:
                await disk_snapshots.remove(ctx, spec)
        else:
            made = await self._carry(checked, target, ctx)
        ctx.log.info(f"Finalizing export on {target.name}")
        template = ctx.config.view().disk_template(checked.instance)
        config = description_of(
            spec, template, ctx.catalogue.hypervisor(spec.hypervisor).parameters, ctx.clock.now_s(), made
        )
        finish = ExportFinish(name=spec.name, config=config, boot=boot, dumps={each.name: each.size for each in made})
        await ask(ctx.nodes, target.uuid, finish)
        if target.uuid != spec.primary_node_uuid:
            await ask(ctx.nodes, spec.primary_node_uuid, ExportDiscard(name=spec.name))
        await ctx.config.commit(SetInstanceState(instance_uuid=spec.uuid), settles=True)
        await remove_older(spec.name, config, target, ctx)
        if self.remove_instance and await ask(ctx.nodes, target.uuid, ExportInfo(directory=spec.name)) != config:
            raise ExecutionError(f"The export of {spec.name} on {target.name} has changed: the instance is not removed")

    async def _carry(self, checked: Checked, target: Node, ctx: OperationContext) -> list[DumpFile]:
        """The target node gets what the OS reads; dumps first, where the guest is to run again meanwhile.

        Gives the dumps that it must have now.
        """
        spec, directory = checked.spec, f"{checked.spec.name}{UNFINISHED}"
        written: list[DumpFile] = []
        if (dumped := await self._dump_and_start(checked, ctx)) is not None:
            written = await dumps_of(spec, spec.primary_node_uuid, [each.sha256 for each in dumped], ctx)
        come: list[str] = []
        way = BetweenNodes(
            ctx,
            spec.primary_node_uuid,
            target.uuid,
            self.compress,
            self.debug_level or 0,
            f"kept export of {spec.uuid}",
        )
        for disk in spec.disks:
            into = Dump(directory, dump_name(disk.index))
            ctx.log.info(f"Copying the dump of disk {disk.index} to {target.name}")
            copies = directory if checked.copies else ""
            dump, size = (into, written[disk.index].size) if written else (None, 0)
            come.append(await way.carry(spec, disk.index, dump=dump, copies=copies, into=into, size=size))
        if dumped is None:
            written = await dumps_of(spec, target.uuid, come, ctx)
        require_same(written, come, spec.primary_node, target.name)
        await self._start_or_close(checked, ctx, dumped=dumped is not None)
        return written

    async def _dump_and_start(self, checked: Checked, ctx: OperationContext) -> list[Dumped] | None:
        """Have dumps made first and the guest started, where it is to run while they are on their way."""
        if not self._comes_back(checked) or self.long_sleep:
            return None
        dumped = await self._dump(checked, ctx)
        await start_again(checked.spec, ctx)
        return dumped

    async def _start_or_close(self, checked: Checked, ctx: OperationContext, *, dumped: bool) -> None:
        """Leave the disks as they were, when they have been read."""
        if self._comes_back(checked) and not dumped:
            await start_again(checked.spec, ctx)
        elif checked.closes:
            await close_disks(ctx, checked.spec)
        elif checked.snapshots:
            await disk_snapshots.remove(ctx, checked.spec)

    async def _send_away(self, checked: Checked, destination: Destination, ctx: OperationContext) -> None:
        """The other cluster gets what the OS reads; dumps first, where the guest is to run again meanwhile."""
        spec, directory = checked.spec, f"{checked.spec.name}{UNFINISHED}"
        dumped = await self._dump_and_start(checked, ctx) is not None
        dumps = [dump_name(disk.index) for disk in spec.disks] if dumped else []
        await send_disks(
            ctx,
            spec,
            destination,
            compress=self.compress,
            debug=self.debug_level or 0,
            dumps=dumps,
            directory=directory if dumped or checked.copies else "",
            copied=checked.copies,
        )
        await self._start_or_close(checked, ctx, dumped=dumped)
        await ask(ctx.nodes, spec.primary_node_uuid, ExportDiscard(name=spec.name))
        state = "down" if self.remove_instance else None  # nobody must start it again: the other cluster has it
        await ctx.config.commit(SetInstanceState(instance_uuid=spec.uuid, admin_state=state), settles=True)

    def _target(self, view: ConfigView) -> Node | None:
        """The node that keeps the export; None for one to another cluster."""
        if self.mode == "remote":
            return None
        if not isinstance(self.target_node, str):
            given = shown(", ".join(str(each) for each in self.target_node))
            raise PrerequisiteError(f"An export in the cluster has one target node by name, not: {given}", WRONG_INPUT)
        for name in ("x509_key_name", "destination_x509_ca"):
            if getattr(self, name):
                raise PrerequisiteError(
                    f"{name} is about an export to another cluster: leave it out, or use mode remote", WRONG_INPUT
                )
        return view.find_node(self.target_node_uuid or self.target_node)

    def _check_zeroing(self, view: ConfigView, instance: Instance) -> None:
        if not self.zero_free_space:
            if self.zeroing_timeout_fixed is not None or self.zeroing_timeout_per_mib is not None:
                raise PrerequisiteError("A time for zeroing is given without --zero-free-space: add it", WRONG_INPUT)
            return
        if not view.cluster.zeroing_image:
            raise PrerequisiteError(
                "No helper guest can zero free space: name its image first (gnt-cluster modify --zeroing-image IMAGE)",
                WRONG_STATE,
            )
        if not instance.disks:
            raise PrerequisiteError(f"Instance {instance.name} has no disks: leave --zero-free-space out", WRONG_INPUT)

    async def _stop_and_open(self, checked: Checked, ctx: OperationContext) -> Checked:
        """The guest may run again afterwards, copies of its disks being there."""
        spec = checked.spec
        if checked.runs:
            await undo_by_starting(ctx, spec)
            ctx.log.info(f"Shutting down instance {spec.name}")
            await stop_on_primary(ctx, spec, timeout_s=float(self.shutdown_timeout))
        if self.zero_free_space:
            await self._open(checked, ctx)
            await self._zero(checked, ctx)
        if checked.snapshots and await disk_snapshots.take(ctx, spec):
            await start_again(spec, ctx)
            return replace(checked, copies=True)
        if not self.zero_free_space or checked.snapshots:
            await self._open(checked, ctx)
        return replace(checked, snapshots=False)

    def _check_copying(self, instance: Instance, facts: FoundInstance | None, ctx: OperationContext) -> None:
        """Raise `PrerequisiteError` unless a running guest can be exported as it runs."""
        name = instance.name
        if not ctx.catalogue.hypervisor(instance.hypervisor).can_copy_disks:
            raise PrerequisiteError(
                f"The hypervisor {instance.hypervisor} cannot copy disks of a running guest: leave --noshutdown out",
                WRONG_STATE,
            )
        if facts is None:
            raise PrerequisiteError(
                f"Instance {name} should run and does not: start it, or leave --noshutdown out", WRONG_STATE
            )
        if self.zero_free_space:
            raise PrerequisiteError(
                "Free space of a running guest cannot be zeroed: leave --noshutdown or --zero-free-space out",
                WRONG_INPUT,
            )

    async def _open(self, checked: Checked, ctx: OperationContext) -> None:
        plan = plan_of(ctx, checked.spec)
        if checked.closes:  # else they belong to the guest, whose undo opens them
            await push_undo(ctx, plan.open())
        await open_disks(ctx, plan)

    async def _zero(self, checked: Checked, ctx: OperationContext) -> None:
        spec, fixed_s, per_mib_s = checked.spec, self.zeroing_timeout_fixed, self.zeroing_timeout_per_mib
        end_within_s = float(ZEROING_FIXED_S if fixed_s is None else fixed_s)
        end_within_s += sum(disk.size_mib for disk in spec.disks) * (
            ZEROING_PER_MIB_S if per_mib_s is None else per_mib_s
        )
        ctx.log.info(f"Zeroing the free space of the disks of {spec.name} by a helper guest")
        await run_helper(ctx, spec, ctx.config.view().cluster.zeroing_image, end_within_s=end_within_s)

    async def _dump(self, checked: Checked, ctx: OperationContext) -> list[Dumped]:
        """Have all dumps made on the primary node."""
        spec, dumped = checked.spec, []
        for disk in spec.disks:
            ctx.log.info(f"Exporting disk {disk.index} of {spec.name}")
            request = ExportDump(
                instance=spec,
                index=disk.index,
                directory=f"{spec.name}{UNFINISHED}",
                dump=dump_name(disk.index),
                debug=self.debug_level or 0,
                copied=checked.copies,
            )
            dumped.append(await make_dump(ctx, request))
        if checked.closes:
            await close_disks(ctx, spec)
        return dumped

    async def _remove_instance(self, spec: InstanceSpec, ctx: OperationContext) -> None:
        ctx.log.info(f"Removing instance {spec.name}")
        removal = RemoveInstanceOperation(
            instance_name=spec.name,
            shutdown_timeout=self.shutdown_timeout,
            ignore_failures=self.ignore_remove_failures,
        )
        await removal.execute(removal.check(ctx.config.view(), None, ctx), ctx)


def _require_usable(target: Node) -> None:
    for bad, word in ((target.offline, "offline"), (target.drained, "drained")):
        if bad:
            raise PrerequisiteError(f"Node {target.name} is {word}: choose another node", WRONG_STATE)
