# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_SET_PARAMS: change an instance's parameters, NICs, disks, OS, state, memory in use, or primary node.

Everything is one commit. New disks are made before it, with their undo; then disks are removed, and from there on the
rest is completed, whatever dies.
"""

import dataclasses
from dataclasses import dataclass

from msgspec.structs import replace

from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, ParameterError, PrerequisiteError
from ganeti.master import allocation
from ganeti.master.instance_hooks import instance_hooks, sizes_told
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Hooks, operation
from ganeti.master.operations.instance.change import live_changes
from ganeti.master.operations.instance.change.live_changes import LivePlan
from ganeti.master.operations.instance.change.modification_parameters import COMMAND, Changes, ModificationParameters
from ganeti.master.operations.instance.disks import changed_disks, conversion, running_conversion
from ganeti.master.operations.instance.disks.disk_steps import make_equal
from ganeti.master.operations.instance.disks.snapshot_steps import require_none
from ganeti.master.operations.instance.existing import (
    require_bridges,
    require_complete,
    require_hvparams,
    require_visible_disks,
    wrong_input,
)
from ganeti.master.operations.instance.os.installation import validate_os
from ganeti.master.operations.instance.wanted import modification
from ganeti.master.operations.instance.wanted.communication import changes as communication_changes
from ganeti.master.operations.instance.wanted.device_changes import (
    DISK_ACTIONS,
    NIC_ACTIONS,
    DeviceChange,
    DiskChanges,
    change_disks,
    read_changes,
)
from ganeti.master.operations.instance.wanted.modification import Facts, ModifyInstance
from ganeti.master.operations.lock_plans import allocation_plan, candidate_locks, plan
from ganeti.model.locks import (
    LockPlan,
    group_lock,
    instance_lock,
    node_lock,
    node_res_lock,
)
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance
from ganeti.model.traits import TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

_EXAMPLE = {"instance_name": "one.example.com"}


@dataclass(frozen=True)
class Checked:
    old: Instance
    new: Instance
    template: TemplateTraits
    change: ModifyInstance
    disks: DiskChanges
    spec: InstanceSpec
    """The instance as it will be."""
    former: InstanceSpec
    told: modification.ModificationReport
    live: LivePlan
    exchanges: bool
    """Disks are converted under the running guest."""
    warnings: list[str]
    running_mib: int


@operation(
    "OP_INSTANCE_SET_PARAMS",
    summary_field="instance_name",
    hooks="instance-modify",
    cli=COMMAND,
    rapi="PUT /2/instances/[instance_name]/modify",
    examples=(
        Example("modify", _EXAMPLE | {"beparams": {"vcpus": 2}, "nics": [["add", -1, {}]]}, before=("create",)),
        Example("modify-memory", _EXAMPLE | {"runtime_mem": 64, "force": True}, before=("create",)),
        Example("modify-offline", _EXAMPLE | {"offline": True}, before=("create-stopped",)),
        Example("modify-primary", _EXAMPLE | {"pnode": "node3.example.com"}, before=("create-stopped",)),
        Example("modify-add-disk", _EXAMPLE | {"disks": [["add", -1, {"size": 64}]]}, before=("create-stopped",)),
        Example(
            "modify-disks",
            _EXAMPLE | {"disks": [["add", 0, {"size": 64}], ["remove", 1, {}]]},
            before=("create-stopped",),
        ),
        Example("modify-plug-disk", _EXAMPLE | {"disks": [["add", -1, {"size": 64}]]}, before=("create",)),
        Example(
            "modify-exchange-disk",
            _EXAMPLE | {"disks": [["add", 0, {"size": 64}], ["remove", 1, {}]]},
            before=("create",),
        ),
        Example("modify-template", _EXAMPLE | {"disk_template": "file"}, before=("create-stopped",)),
        Example(
            "modify-to-mirrored",
            _EXAMPLE | {"disk_template": "mirror", "remote_node": "node3.example.com"},
            before=("cluster-mirroring", "create-on-file-stopped"),
        ),
        Example(
            "modify-from-mirrored",
            _EXAMPLE | {"disk_template": "file"},
            before=("cluster-mirroring", "create-mirrored-stopped"),
        ),
        Example("convert-running", _EXAMPLE | {"disk_template": "file"}, before=("create", "modify-plug-disk")),
        Example("modify-diskless", _EXAMPLE | {"disk_template": "diskless", "force": True}, before=("create-stopped",)),
        Example(
            "modify-address",
            _EXAMPLE | {"nics": [["modify", 0, {"ip": "192.0.2.9"}], ["add", -1, {"network": "dmz", "ip": "pool"}]]},
            before=("network-add", "network-connect", "create-in-network"),
        ),
    ),
)
class ModifyInstanceOperation(ModificationParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Change an instance; what a running guest cannot take over holds from its next start on."""

    def locks(self, view: ConfigView) -> LockPlan:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        if self.iallocator is not None:
            return allocation_plan(view, instance)
        nodes = dict.fromkeys([*view.instance_nodes(instance), self._primary(view, instance)])
        if self._secondary is not None:
            nodes[view.find_node(self._secondary).uuid] = None
        groups = {view.node(uuid).group for uuid in nodes}
        return plan(
            shared=[*(group_lock(uuid) for uuid in groups), *(node_lock(uuid) for uuid in nodes)],
            exclusive=[instance_lock(instance.name), *(node_res_lock(uuid) for uuid in nodes)],
        )

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Facts:
        """Ask for the guest and the free memory, where a change depends on them."""
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        if self.iallocator is not None:
            conversion.check_allocator(ctx.catalogue, self.disk_template, self._secondary)
        primary = self._primary(view, instance)
        moves = primary != instance.primary_node
        sizes = self.runtime_mem is not None or bool({"memory", "maxmem"} & set(self.beparams))
        offers = self._offers(ctx, instance)
        plugs = self.hotplug and (self.nics or self.disks or offers)
        if not (moves or sizes or plugs or self.disk_template) or view.node(instance.primary_node).offline:
            return Facts()
        found = await live_changes.look(ctx, view, instance, plugs=bool(plugs))
        if self.disk_template and instance.disks and not self.force:
            spec = instance_spec(view, ctx.catalogue, instance)
            await require_none(ctx, spec, "which go with the old disks", ", or add --force", copied=False)
        if self.iallocator is not None and self.disk_template is not None:
            template = self.disk_template
            secondary = await conversion.chosen_secondary(ctx, view, instance, template, self.iallocator)
            found = dataclasses.replace(found, secondary=secondary)
        if not sizes or view.node(primary).offline:
            return found
        info = await ask(ctx.nodes, primary, allocation.capacity_query(view, ctx.catalogue, None))
        return dataclasses.replace(found, free_mib=next(iter(info.hypervisors.values())).memory_free)

    def check(self, view: ConfigView, facts: Facts, ctx: OperationContext) -> Checked:
        old = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(old, "modified")
        self._check_anything_given()
        warnings: list[str] = []
        primary = self._primary(view, old)
        if primary != old.primary_node:
            warnings += modification.check_primary(view, ctx.catalogue, old, primary, facts, force=self.force)
        disk_changes = read_changes("disk", self.disks, DISK_ACTIONS)
        template = self._template(view, ctx, old, disk_changes)
        runs = False
        if self.disk_template and old.disks:
            self._check_conversion_alone(old, primary)
            runs = self.hotplug and running_conversion.is_wanted(view, ctx.catalogue, old, template, facts)
            if not runs:
                conversion.check_stopped(view, old, facts)
            nodes = conversion.nodes_of(view, old, template, facts.secondary or self._secondary)
            directory, own = self.file_storage_dir, self.ext_params
            disks = conversion.converted(view, old, template, ctx.entropy, nodes, directory, own, force=self.force)
        else:
            live_changes.check_disks_in_use(old, disk_changes, facts)
            disks = self._disks(view, old, primary, template, disk_changes, ctx)
        asked = changed_disks.DiskRequest(self.disk_template, self.file_driver, self._secondary, self.ext_params)
        changed_disks.check_asked(asked, old, template, disks)
        try:
            new = modification.with_parameters(
                view, ctx.catalogue, old, self.beparams, self.hvparams, self.osparams, self.osparams_private or {}
            )
        except ParameterError as err:
            raise wrong_input(err) from err
        new = replace(
            new,
            os=self.os_name or old.os,
            primary_node=primary,
            admin_state=self._admin_state(old),
            disks=[disk.uuid for disk in disks.disks],
        )
        nics = modification.plan_nics(
            view,
            old,
            new,
            read_changes(
                "NIC", [*self.nics, *communication_changes(view, old, self.instance_communication)], NIC_ACTIONS
            ),
            ctx.entropy,
            conflicts_check=self.conflicts_check,
        )
        new = replace(new, nics=nics.nics)
        modification.check_memory(view, old, new, facts, force=self.force)
        if self.runtime_mem is not None:
            can_balloon = ctx.catalogue.hypervisor(old.hypervisor).can_balloon
            modification.check_runtime(view, new, facts, self.runtime_mem, can_balloon=can_balloon, force=self.force)
        told = self._told_parameters(view, old, new)
        offered = told if self._offers(ctx, old) else []
        live = live_changes.plan_live(facts, nics, disks, offered, warnings)
        warnings += modification.check_policy(view, old, new, disks.disks, template, ignore=self.ignore_ipolicy)
        return Checked(
            old=old,
            new=new,
            template=template,
            change=modification.difference(old, new, disks, nics.from_pool),
            disks=disks,
            spec=instance_spec(view, ctx.catalogue, new, disks=disks.disks),
            former=instance_spec(view, ctx.catalogue, old),
            told=modification.ModificationReport(nics.told, disks.told, told, live.nics, live.disks),
            live=live,
            exchanges=runs,
            warnings=warnings,
            running_mib=facts.running_mib,
        )

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        nodes = [view.cluster.master_node, *view.instance_nodes(checked.old), checked.new.primary_node]
        nodes = list(dict.fromkeys(nodes))
        env = {} if self.runtime_mem is None else {"RUNTIME_MEMORY": str(self.runtime_mem)}
        if self.disk_template:
            env["NEW_DISK_TEMPLATE"] = self.disk_template
        # As in Ganeti, memory, processors and NICs are told as they will be, all else as it is: scripts see by
        # GANETI_POST_ what has changed.
        env |= sizes_told(checked.spec.beparams)
        told = replace(checked.former, nics=checked.spec.nics)
        return instance_hooks(view, self.hooks_path, told, checked.old, nodes, nodes, env)

    async def execute(self, checked: Checked, ctx: OperationContext) -> Changes:
        wait = self.wait_for_sync and not checked.old.disks_active
        chosen = self.iallocator is not None
        spec = await changed_disks.make_disks(ctx, checked.spec, checked.disks, wait=wait and not chosen)
        if chosen:  # the new disks have their room: to fill them may take hours, and needs no other node
            nodes, room = candidate_locks(ctx.config.view(), checked.old)
            await ctx.locks.release([*nodes, *room])
            if wait:
                await make_equal(ctx, spec)
        converts = self.disk_template and checked.old.disks and checked.disks.created
        if converts and checked.exchanges:
            await running_conversion.exchange_disks(ctx, checked.old, spec, checked.change)
        elif converts:
            await conversion.copy_disks(ctx, checked.old, spec)
        if self.runtime_mem is not None:
            await live_changes.balloon(ctx, checked.old, spec, checked.running_mib, self.runtime_mem)
        await live_changes.change_devices(ctx, checked.old, spec, checked.live)
        taken = await live_changes.change_parameters(ctx, checked.old, spec, checked.live)
        if not checked.exchanges:
            await changed_disks.remove_disks(ctx, checked.old, checked.disks, checked.change)
        await ctx.config.commit(checked.change, settles=True)
        changes = checked.told.lines(ctx.config.view(), checked.old.uuid)
        if checked.old.admin_state == "up" and checked.told.at_next_start(taken):
            lost = ctx.config.view().node(checked.old.primary_node).offline
            name = checked.old.name
            began = (
                f"The changes take effect when {name}"
                if lost
                else f"{name} runs as before; the changes take effect when it"
            )
            ctx.log.info(
                f"{began} is started the next time by gnt-instance, a restart from within the guest is not enough"
            )
        return changes

    def _offers(self, ctx: OperationContext, instance: Instance) -> bool:
        """Whether parameters change that a running guest may take over."""
        takes = ctx.catalogue.hypervisor(instance.hypervisor).can_change_parameters
        return takes and bool(self.hvparams or self.beparams)

    def _primary(self, view: ConfigView, instance: Instance) -> str:
        name = self.pnode_uuid or self.pnode
        return view.find_node(name).uuid if name else instance.primary_node

    @property
    def _secondary(self) -> str | None:
        return self.remote_node_uuid or self.remote_node

    def _check_anything_given(self) -> None:
        given = (self.nics, self.disks, self.beparams, self.hvparams, self.osparams, self.osparams_private)
        others = (self.runtime_mem, self.pnode, self.pnode_uuid, self.os_name, self.offline, self.disk_template)
        if not any(given) and all(each is None for each in (*others, self.instance_communication)):
            raise PrerequisiteError("No changes submitted: name at least one parameter to change", WRONG_INPUT)

    def _admin_state(self, old: Instance) -> str:
        if self.offline is None:
            return old.admin_state
        if old.admin_state == "up":
            mark = "offline" if self.offline else "online"
            raise PrerequisiteError(
                f"Instance {old.name} should be running, so it cannot be marked {mark}: shut it down first "
                f"(gnt-instance shutdown {old.name})",
                WRONG_STATE,
            )
        return "offline" if self.offline else "down"

    def _template(
        self, view: ConfigView, ctx: OperationContext, old: Instance, changes: list[DeviceChange]
    ) -> TemplateTraits:
        """That of the disks as they will be."""
        if self.disk_template is None:
            template = modification.template_of(view, ctx.catalogue, old, changes)
        else:
            template = conversion.wanted_template(view, ctx.catalogue, old, self.disk_template)
        if self.file_driver and template.directory_based:
            return dataclasses.replace(template, logical_id_driver=self.file_driver)
        return template

    def _disks(
        self,
        view: ConfigView,
        old: Instance,
        primary: str,
        template: TemplateTraits,
        changes: list[DeviceChange],
        ctx: OperationContext,
    ) -> DiskChanges:
        modification.check_disk_changes(view, old, changes)
        if (self.osparams or self.osparams_private) and any(change.action == "remove" for change in changes):
            raise PrerequisiteError(
                "OS parameters and the removal of a disk are two changes: do one first", WRONG_INPUT
            )
        before = modification.moved_disks(view, old, primary)
        nodes = list(before[0].nodes) if before else [primary]
        return change_disks(
            view,
            before,
            changes,
            template,
            ctx.entropy,
            node_uuids=nodes,
            directory=modification.directory_of(view, template, before, self.file_storage_dir),
            instance_name=old.name,
        )

    def _check_conversion_alone(self, old: Instance, primary: str) -> None:
        if self.disks or primary != old.primary_node or self.osparams or self.osparams_private:
            raise PrerequisiteError(
                f"Another disk template for {old.name} is one change; other disks, another node and OS parameters are "
                "others: do one first",
                WRONG_INPUT,
            )

    def _told_parameters(self, view: ConfigView, old: Instance, new: Instance) -> Changes:
        told: Changes = [] if self.runtime_mem is None else [("runtime_memory", self.runtime_mem)]
        if new.primary_node != old.primary_node:
            told.append(("primary_node", view.node(new.primary_node).name))
        told += [(f"hv/{name}", value) for name, value in self.hvparams.items()]
        told += [(f"be/{name}", value) for name, value in self.beparams.items()]
        told += [(f"os/{name}", value) for name, value in self.osparams.items()]
        told += [(f"os_private/{name}", "<redacted>") for name in self.osparams_private or {}]
        told += [("os_name", new.os)] if self.os_name else []
        told += [("disk_template", self.disk_template)] if self.disk_template else []
        return told + ([("admin_state", new.admin_state)] if self.offline is not None else [])

    async def check_on_nodes(self, checked: Checked, ctx: OperationContext) -> Checked:
        """What only the node can say: its bridges, its files, its OS definitions, its free space."""
        for warning in checked.warnings:
            ctx.log.warning(warning)
        spec = checked.spec
        if self.disk_template:
            require_visible_disks(ctx.catalogue, spec, self.disk_template)
        node = ctx.config.view().node(checked.new.primary_node)
        if node.offline:
            ctx.log.warning(f"Node {node.name} is offline: what only it knows is not checked")
            return checked
        if self.nics or checked.new.primary_node != checked.old.primary_node:
            await require_bridges(ctx, node.uuid, spec)
        await changed_disks.check_room(ctx, spec, checked.disks, checked.template)
        if self.hvparams or "vcpus" in self.beparams:
            await require_hvparams(ctx, spec)
        if spec.os and (self.os_name or self.osparams or self.osparams_private):
            await validate_os(ctx, spec, force_variant=self.force_variant)
        return checked
