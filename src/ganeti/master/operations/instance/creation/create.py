# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_CREATE: make an instance, from its name to a running guest.

Room on its nodes is reserved for the job, by the allocator that chooses them or by the check of those that were named.
Then the instance enters the configuration, as forthcoming: from that commit on, it is what counts, and the reservation
ends. Everything after it has its undo on disk; one last commit makes the instance real and settles them.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master import allocation, nic_networks
from ganeti.master.allocator_input import allocate_request, groups_for_new
from ganeti.master.allocators import BUILT_IN
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import instance_size, instance_spec
from ganeti.master.operation import Example, Hooks, operation
from ganeti.master.operations.backup.dump_checks import require_undamaged
from ganeti.master.operations.backup.dumps import require_compression
from ganeti.master.operations.backup.importing import (
    Source,
    check_way,
    filled,
    find_source,
    import_disks,
    source_locks,
)
from ganeti.master.operations.backup.receiving import Reception, Sender, as_created, read_sender
from ganeti.master.operations.changes import AddInstance, FinishInstance, KeepForthcoming, RemoveInstance
from ganeti.master.operations.instance.creation.creation_parameters import COMMANDS, CreationParameters
from ganeti.master.operations.instance.creation.reading import read_wanted, sketch
from ganeti.master.operations.instance.creation.reservation import require_as_reserved, reserved_instance
from ganeti.master.operations.instance.disks.disk_steps import close_disks, create_disks
from ganeti.master.operations.instance.existing import (
    instance_and_nodes,
    require_bridges,
    require_hvparams,
    require_makeable,
)
from ganeti.master.operations.instance.os.helper_installation import helper_times, tell_unused
from ganeti.master.operations.instance.os.installation import image_of, install_os, validate_os
from ganeti.master.operations.instance.power.guest_power import start_guest
from ganeti.master.operations.instance.wanted import creation_input as creation
from ganeti.master.operations.instance.wanted import disk_places
from ganeti.master.operations.instance.wanted.adoption import Adopted, check_adoption, find_adoptees
from ganeti.master.operations.instance.wanted.creation_checks import (
    check_nodes,
    refuse_conflicts,
    refuse_opportunistic,
    refuse_used_address,
)
from ganeti.master.operations.instance.wanted.creation_wanted import InstanceRequest
from ganeti.master.operations.lock_plans import locks_of, placeable, plan
from ganeti.model import inheritance
from ganeti.model.ipolicy import violations
from ganeti.model.locks import ALL_NODE_RES, LockPlan, instance_lock, node_lock, node_res_lock
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Disk, Instance
from ganeti.model.traits import TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext, UndoChange


@dataclass(frozen=True)
class Facts:
    wanted: InstanceRequest
    node_uuids: list[str]
    chosen_by: str
    """Name of the allocator, empty where the user named the node."""
    source: Source | None = None
    """The export that it is made from."""
    sender: Sender | None = None
    """The cluster that sends it."""
    adopted: Adopted = field(default_factory=dict)


@dataclass(frozen=True)
class Checked:
    instance: Instance
    disks: list[Disk]
    template: TemplateTraits
    wants_port: bool
    from_pool: list[int]
    """NICs whose address was chosen from the pool of their network, by position."""
    chosen_by: str
    node_uuids: list[str]
    node_names: list[str]
    view_spec: InstanceSpec
    source: Source | None = None
    adopted: Adopted = field(default_factory=dict)
    sender: Sender | None = None


_EXAMPLE: Final[dict[str, Any]] = {
    "instance_name": "one.example.com",
    "mode": "create",
    "disk_template": "sharedfile",
    "disks": [{"size": 64}],
    "nics": [{}],
    "os_type": "noop",
    "pnode": "node2.example.com",
    "beparams": {"maxmem": 128, "minmem": 128, "vcpus": 1},
    "start": True,
}
_IMPORT: Final[dict[str, Any]] = {
    "instance_name": "two.example.com",
    "mode": "import",
    "src_path": "one.example.com",
    "disks": [],
    "nics": [],
    "pnode": "node2.example.com",
    "start": False,
}
_MIRRORED = _EXAMPLE | {"disk_template": "mirror", "snode": "node3.example.com"}
_WITHOUT_DISKS = _EXAMPLE | {"disk_template": "diskless", "disks": []}


@operation(
    "OP_INSTANCE_CREATE",
    summary_field="instance_name",
    hooks="instance-add",
    cli=COMMANDS,
    rapi="POST /2/instances",
    examples=(
        Example("create", _EXAMPLE),
        Example("create-on-master", _EXAMPLE | {"pnode": "node1.example.com"}),
        Example("create-stopped", _EXAMPLE | {"start": False}),
        Example("reserve", _EXAMPLE | {"forthcoming": True}),
        Example("create-reserved", _EXAMPLE | {"commit": True}, before=("reserve",)),
        Example("create-on-file", _EXAMPLE | {"disk_template": "file"}),
        Example("create-on-file-stopped", _EXAMPLE | {"disk_template": "file", "start": False}),
        Example(
            "create-in-network",
            _WITHOUT_DISKS | {"nics": [{"network": "dmz", "ip": "pool"}], "start": False},
            before=("network-add", "network-connect"),
        ),
        Example("create-diskless", _WITHOUT_DISKS),
        Example(
            "create-communicating",
            _WITHOUT_DISKS | {"instance_communication": True},
            before=("cluster-communication",),
        ),
        Example("import", _IMPORT, before=("create-on-file-stopped", "export-stopped")),
        Example(
            "import-and-start",
            _IMPORT | {"start": True, "pnode": "node3.example.com"},
            before=("create-on-file-stopped", "export-stopped"),
        ),
        Example("create-mirrored", _MIRRORED, before=("cluster-mirroring",)),
        Example("create-mirrored-stopped", _MIRRORED | {"start": False}, before=("cluster-mirroring",)),
        Example("create-diskless-stopped", _WITHOUT_DISKS | {"start": False}),
    ),
)
class CreateInstance(CreationParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Create an instance on the nodes named, or on those the allocator chooses."""

    def locks(self, view: ConfigView) -> LockPlan:
        if self.commit:
            return instance_and_nodes(view, self.instance_name)
        own = instance_lock(creation.check_name(self.instance_name))
        source = source_locks(self, view)
        if self._primary_name() is None:
            if allocation.allocator_named(view, self.iallocator) == BUILT_IN:
                return plan(
                    shared=source, exclusive=[own]
                )  # what it chooses is reserved for us, so nobody need keep off the nodes
            groups = [group.uuid for group in groups_for_new(view, self.group_name)]
            nodes, room = locks_of(view, placeable(view, groups))
            return plan(shared=[*nodes, *source], exclusive=[own, *room])
        uuids = [node.uuid for node in self._named_nodes(view)]
        return plan(
            shared=[*source, *(node_lock(uuid) for uuid in uuids)],
            exclusive=[own, *(node_res_lock(uuid) for uuid in uuids)],
        )

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Facts | None:
        if self.commit:
            return None
        source = await find_source(self, ctx, view)
        asked = self if source is None else filled(self, source, view, ctx.catalogue)
        sender = read_sender(self, ctx, view)
        if sender is not None:
            asked = as_created(self)
        wanted = asked.read(view, ctx)
        if self.name_check:
            _, address = await ctx.names.resolve(wanted.name, view.cluster.primary_ip_family)
            if self.ip_check:
                await refuse_used_address(ctx, view, wanted.name, address)
        uuids = [node.uuid for node in self._named_nodes(view)] if self.names_node else []
        if wanted.template.node_count == 1:
            uuids = uuids[:1]
        check_adoption(self.disks, uuids)
        if self.names_node:
            if self.why:
                raise PrerequisiteError("--why is about an allocator's choice: leave -n out", WRONG_INPUT)
            if self.opportunistic_locking:
                refuse_opportunistic(None, BUILT_IN)
            return await self._with_adopted(ctx, view, Facts(wanted, uuids, "", source, sender))
        allocator = allocation.allocator_named(view, self.iallocator)
        if not allocator:
            raise PrerequisiteError(
                "No node was named and the cluster has no default allocator: add -n NODE or -I ALLOCATOR", WRONG_INPUT
            )
        if self.opportunistic_locking:
            refuse_opportunistic(allocator, BUILT_IN)
        names = await self._ask(ctx, view, allocator, wanted)
        uuids = [ctx.config.view().find_node(name).uuid for name in names]
        return Facts(wanted, uuids, allocator, source, sender)

    def check(self, view: ConfigView, facts: Facts | None, ctx: OperationContext) -> Checked:
        if facts is None:
            return self._check_reserved(view, ctx)
        wanted = facts.wanted
        check_nodes(view, wanted.template, facts.node_uuids)
        directory = disk_places.instance_directory(view, wanted.template, self.file_storage_dir)
        disks = disk_places.place_disks(
            view, wanted.disks, wanted.asked, wanted.template, facts.node_uuids, directory, wanted.name, ctx.entropy
        )
        instance = replace(
            sketch(wanted),
            uuid=ctx.entropy.uuid(),
            primary_node=facts.node_uuids[0],
            disks=[disk.uuid for disk in disks],
        )
        group = view.group(view.node(instance.primary_node).group)
        if self.conflicts_check:
            refuse_conflicts(view, group, wanted.nics)
        nics = nic_networks.connected(view, group, wanted.nics, conflicts_check=self.conflicts_check)
        instance = replace(instance, nics=nics)
        if not self.ignore_ipolicy:
            policy = inheritance.group_ipolicy(view.cluster, group)
            found = violations(policy, instance_size(view, instance, disks, wanted.template.name))
            if found:
                raise PrerequisiteError(
                    f"Instance {wanted.name} violates the policy of node group {group.name}: {'; '.join(found)}. "
                    "Change the sizes, or add --ignore-ipolicy",
                    WRONG_INPUT,
                )
        return Checked(
            instance=instance,
            disks=disks,
            template=wanted.template,
            wants_port=wanted.hypervisor.needs_network_port,
            from_pool=nic_networks.chosen(wanted.nics, nics),
            chosen_by=facts.chosen_by,
            node_uuids=facts.node_uuids,
            node_names=[view.node(uuid).name for uuid in facts.node_uuids],
            view_spec=instance_spec(view, ctx.catalogue, instance, disks=disks),
            source=facts.source,
            adopted=facts.adopted,
            sender=facts.sender,
        )

    def _check_reserved(self, view: ConfigView, ctx: OperationContext) -> Checked:
        if self.forthcoming:
            raise PrerequisiteError("An instance is reserved or made real: leave one out", WRONG_INPUT)
        instance = reserved_instance(view, self.instance_name)
        require_as_reserved(self, view, instance)
        node_uuids = view.instance_nodes(instance)
        template = ctx.catalogue.template(view.disk_template(instance))
        check_nodes(view, template, node_uuids)
        return Checked(
            instance=instance,
            disks=view.instance_disks(instance),
            template=template,
            wants_port=False,
            from_pool=[],
            chosen_by="",
            node_uuids=node_uuids,
            node_names=[view.node(uuid).name for uuid in node_uuids],
            view_spec=instance_spec(view, ctx.catalogue, instance),
        )

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        nodes = list(dict.fromkeys([view.cluster.master_node, *checked.node_uuids]))
        env: dict[str, str] = {
            "ADD_MODE": self.mode,
            "INSTANCE_STATUS": str(self.starts),
        }  # True or False, as in Ganeti
        env |= checked.source.told() if checked.source is not None else {}
        return instance_hooks(view, self.hooks_path, checked.view_spec, checked.instance, nodes, nodes, env)

    async def execute(self, checked: Checked, ctx: OperationContext) -> list[str]:
        if checked.source is not None:
            await self._release_room(checked, ctx)  # it is reserved, and to read dumps may take hours
            await require_undamaged(ctx, checked.source)
        if not self.commit:
            await self._reserve(checked, ctx)
        if self.forthcoming:
            await ctx.config.commit(KeepForthcoming(instance_uuid=checked.instance.uuid), settles=True)
            return checked.node_names
        view = ctx.config.view()
        spec = instance_spec(view, ctx.catalogue, view.instance(checked.instance.uuid))
        await create_disks(ctx, spec, spec.disks, wait=self.wait_for_sync, adopted=checked.adopted)
        reception = None if checked.sender is None else Reception(ctx, spec, checked.sender)
        if reception is not None:
            await self._receive(spec, reception, ctx)
        elif not checked.adopted:
            await self.fill_disks(spec, checked.source, ctx)
        if self.starts:
            await self._start(spec, ctx)
        await ctx.config.commit(
            FinishInstance(instance_uuid=checked.instance.uuid, admin_state="up" if self.starts else "down"),
            settles=True,
        )
        if reception is not None:
            await reception.confirm()
        return checked.node_names

    async def _with_adopted(self, ctx: OperationContext, view: ConfigView, facts: Facts) -> Facts:
        """The same with the sizes of the volumes that are adopted, if any are."""
        wanted = facts.wanted
        if not check_adoption(wanted.asked, facts.node_uuids):
            return facts
        disks, adopted = await find_adoptees(
            ctx, view, wanted.disks, wanted.asked, wanted.template, facts.node_uuids, wanted.name
        )
        return dataclasses.replace(facts, wanted=dataclasses.replace(wanted, disks=disks), adopted=adopted)

    async def _ask(self, ctx: OperationContext, view: ConfigView, allocator: str, wanted: InstanceRequest) -> list[str]:
        """Names of the nodes the allocator chose; they are reserved for this job unless it only asks."""
        groups = groups_for_new(view, self.group_name)
        request = allocate_request(view, sketch(wanted), wanted.disks, wanted.template, groups)
        return await allocation.place_and_tell(ctx, allocator, request, reserve=not self.dry_run, why=self.why)

    def read(self, view: ConfigView, ctx: OperationContext) -> InstanceRequest:
        """Type what is asked for; raises `PrerequisiteError` for what cannot be made."""
        return read_wanted(self, view, ctx)

    def _primary_name(self) -> str | None:
        if (self.pnode or self.pnode_uuid) and self.iallocator:
            raise PrerequisiteError("Give either a node or an allocator, not both", WRONG_INPUT)
        return self.pnode_uuid or self.pnode

    @property
    def starts(self) -> bool:
        """Whether the instance is started at the end: without an OS, it most likely could not."""
        return self.start and not self.no_install

    @property
    def names_node(self) -> bool:
        """Whether the user named the node, so that no allocator is asked."""
        return self._primary_name() is not None

    def _named_nodes(self, view: ConfigView) -> list[Any]:
        names = [self._primary_name(), self.snode_uuid or self.snode]
        return [view.find_node(name) for name in names if name]

    def _tell(self, checked: Checked, ctx: OperationContext) -> None:
        """Say what was chosen, and what of the wishes changes nothing."""
        if checked.chosen_by:
            ctx.log.info(f"Selected nodes for the instance: {', '.join(checked.node_names)}")
        if self.start and not self.starts:
            ctx.log.info(" - INFO: No-installation mode selected, disabling startup")
        template = checked.template
        if not self.wait_for_sync and template.node_count == 1:
            ctx.log.info(f"Disk template {template.name} has no mirrors: --no-wait-for-sync changes nothing")
        if (ignored := self.snode_uuid or self.snode) and template.node_count == 1:
            ctx.log.warning(f"Secondary node {ignored} will be ignored on non-mirrored disk template {template.name}")
        if self.file_driver not in (None, template.logical_id_driver):
            driver = f"opens its files by the driver {template.logical_id_driver}"
            ctx.log.info(f"Disk template {template.name} {driver}: --file-driver {self.file_driver} changes nothing")

    async def check_on_nodes(self, checked: Checked, ctx: OperationContext) -> Checked:
        """What only the node can say: its files, its OS definitions, its free memory and space."""
        self._tell(checked, ctx)
        if checked.chosen_by not in ("", BUILT_IN):
            # It was to choose from all nodes. What it chose is promised: others may look for room from now on.
            await ctx.locks.release([ALL_NODE_RES, *map(node_res_lock, placeable(ctx.config.view()))])
        node_uuid = checked.instance.primary_node
        spec = checked.view_spec
        await allocation.check_capacity(
            ctx, node_uuid, spec, checked.template, ignore_memory=not self.starts, copies_on=checked.node_uuids[1:]
        )
        await require_bridges(ctx, node_uuid, spec)
        await require_makeable(ctx, spec, spec.disks)
        await check_way(self, ctx, checked.source, node_uuid)
        if checked.sender is not None:
            await require_compression(ctx, ctx.config.view(), self.compress, [node_uuid])
        await require_hvparams(ctx, spec)
        installs = not self.no_install
        await validate_os(ctx, spec, self.osparams_secret, force_variant=self.force_variant, installs=installs)
        return checked

    async def _reserve(self, checked: Checked, ctx: OperationContext) -> None:
        uuid = checked.instance.uuid
        await ctx.undo.push(
            UndoChange(
                f"take instance {checked.instance.name} out of the configuration", RemoveInstance(instance_uuid=uuid)
            )
        )
        await ctx.config.commit(
            AddInstance(
                instance=checked.instance,
                disks=checked.disks,
                wants_port=checked.wants_port,
                from_pool=checked.from_pool,
            )
        )
        view = ctx.config.view()
        for index in checked.from_pool:
            nic = view.instance(uuid).nics[index]
            ctx.log.info(f"Chose IP {nic.ip} from network {view.network(nic.network or '').name}")
        if checked.source is None:
            await self._release_room(checked, ctx)

    async def _release_room(self, checked: Checked, ctx: OperationContext) -> None:
        """Let others look for room on nodes that were named."""
        if not checked.chosen_by:
            await ctx.locks.release([node_res_lock(node) for node in checked.node_uuids])

    async def _receive(self, spec: InstanceSpec, reception: Reception, ctx: OperationContext) -> None:
        await reception.receive(self.compress, self.osparams_secret or {}, self.debug_level or 0)
        if not self.starts:
            await close_disks(ctx, spec)

    async def fill_disks(self, spec: InstanceSpec, source: Source | None, ctx: OperationContext) -> None:
        """Put onto the new disks what the instance begins with; they stay open where it is started."""
        if self.no_install or not spec.disks or not (spec.os or image_of(spec.osparams)):
            return
        secret, debug = self.osparams_secret or {}, self.debug_level or 0
        times = helper_times(self.helper_startup_timeout, self.helper_shutdown_timeout)
        if source is not None:
            tell_unused(ctx, spec, times)
            await import_disks(ctx, spec, source, self.compress, secret, debug)
        else:
            await install_os(ctx, spec, secret, reinstall=False, debug=debug, helper=times)
        if not self.starts:
            await close_disks(ctx, spec)

    async def _start(self, spec: InstanceSpec, ctx: OperationContext) -> None:
        ctx.log.info("* starting instance...")
        await start_guest(ctx, spec)
