# SPDX-License-Identifier: BSD-2-Clause
"""OP_BACKUP_RESTORE (not in 3.1): make an instance from a backup, or give a stopped one the disks that it had.

A new instance is made as any other; only what its disks are filled with is another thing. Before anything is made, the
whole chain of backups is found and its indexes are read; a chunk that is damaged ends the job, and what was made goes.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from dataclasses import replace as with_values
from typing import Annotated, Any, Final

from msgspec.structs import replace

from ganeti.base.command import ASSUME_YES, Command
from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, ExecutionError, PrerequisiteError
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.backup.carrying import carry
from ganeti.master.operations.backup.chains import (
    KeptBackup,
    chain_of,
    choose,
    find_backups,
    links,
    lock_of,
    require_whole,
    sealing_key,
)
from ganeti.master.operations.backup.description import described
from ganeti.master.operations.backup.importing import Source, filled
from ganeti.master.operations.instance.creation import create as creation
from ganeti.master.operations.instance.creation.create import CreateInstance
from ganeti.master.operations.instance.disks.disk_steps import close_disks, create_disks, open_disks, plan_of, push_undo
from ganeti.master.operations.instance.disks.snapshot_steps import SetReverting
from ganeti.master.operations.instance.existing import guest_on_primary, instance_and_nodes, require_stopped
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Allocator, NicInput, Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.backups import BackupChunks, BackupFill, ChunkPiece
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.model.objects import OF_BACKUP
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask
from ganeti.wire.backup_file import Backup
from ganeti.wire.export_file import Export
from ganeti.wire.sealing import CHUNK_BYTES

_MIB = 1024 * 1024
_WINDOW_CHUNKS = 1024
_EXAMPLE: Final = {"instance_name": "one.example.com", "new_name": "two.example.com", "pnode": "node2.example.com"}


@dataclass(frozen=True)
class Facts:
    chain: list[KeptBackup]
    export: Export
    created: creation.Facts | None
    """What the creation of a new instance has gathered; None for one that is restored in place."""


@dataclass(frozen=True)
class Checked:
    chain: list[KeptBackup]
    created: creation.Checked | None = None
    spec: InstanceSpec | None = None


async def fill_from(
    ctx: OperationContext, spec: InstanceSpec, chain: list[KeptBackup], *, zeroes: bool, writes: bool = True
) -> None:
    """Write a backup onto the open disks of an instance; with *zeroes* over what they hold.

    Unless it *writes*, all of the backup is read and opened, and the disks stay as they are.
    """
    view, newest = ctx.config.view(), chain[0]
    key = sealing_key(view, newest.backup.key_id)
    uuid = newest.backup.instance_uuid
    for disk, kept in zip(spec.disks, newest.backup.disks, strict=True):
        total = -(-kept.size // CHUNK_BYTES)
        deed = f"Filling disk {disk.index} of {spec.name} from" if writes else f"Checking disk {disk.index} of"
        ctx.log.info(f"{deed} backup {newest.backup.id} on {newest.node_name}")
        step = _WINDOW_CHUNKS if zeroes and writes else total
        boots = set[str]()

        async def fill(
            span: tuple[int, ChunkPiece], disk: DiskSpec = disk, total: int = total, boots: set[str] = boots
        ) -> None:
            first, piece = span
            request = BackupFill(
                instance=spec,
                disk=disk,
                source_uuid=uuid,
                source_disk=disk.index,
                chunks=piece.chunks,
                first=first,
                end=piece.next,
                zeroes=zeroes,
                syncs=piece.next >= total,
                writes=writes,
                key=key,
            )
            boots.add(await ask(ctx.nodes, spec.primary_node_uuid, request))
            if len(boots) > 1:
                raise ExecutionError(f"Node {spec.primary_node} has restarted while the disks were filled: begin again")
            ctx.log.progress(f"disk {disk.index} is {'filled' if writes else 'checked'}", piece.next, total)

        await carry(_kept(ctx, chain, disk.index, total, step), fill)


async def _kept(
    ctx: OperationContext, chain: list[KeptBackup], disk: int, total: int, step: int
) -> AsyncGenerator[tuple[int, ChunkPiece]]:
    """What the chain has of a disk, each with the first number that it is about, at most *step* numbers at once."""
    newest, first = chain[0], 0
    while first < total:
        request = BackupChunks(
            instance_uuid=newest.backup.instance_uuid,
            chain=links(chain),
            disk=disk,
            first=first,
            end=min(total, first + step),
        )
        piece = await ask(ctx.nodes, newest.node_uuid, request)
        yield first, piece
        first = piece.next


class Restored(CreateInstance, frozen=True, kw_only=True):
    """The creation of an instance whose disks are filled from a backup."""

    chain: list[KeptBackup]

    async def reserve(self, checked: creation.Checked, ctx: OperationContext) -> None:
        """Have the instance in the configuration, as forthcoming, with its undo."""
        await self._reserve(checked, ctx)

    async def make(self, checked: creation.Checked, ctx: OperationContext) -> InstanceSpec:
        """Make and start what has been reserved, and leave it forthcoming; every step has its undo."""
        view = ctx.config.view()
        spec = instance_spec(view, ctx.catalogue, view.instance(checked.instance.uuid))
        await create_disks(ctx, spec, spec.disks, wait=self.wait_for_sync)
        await self.fill_disks(spec, None, ctx)
        await self._start(spec, ctx)
        return spec

    @property
    def starts(self) -> bool:
        """What is installed comes out of the backup."""
        return self.start

    async def fill_disks(self, spec: InstanceSpec, source: Source | None, ctx: OperationContext) -> None:
        disks = plan_of(ctx, spec)
        await push_undo(ctx, disks.open())
        await open_disks(ctx, disks)
        zeros = all(ctx.catalogue.template(disk.template).new_disks_are_zeros for disk in spec.disks)
        await fill_from(ctx, spec, self.chain, zeroes=not zeros)
        if not self.starts:
            await close_disks(ctx, spec)


def restoration(name: str, chain: list[KeptBackup], nodes: str | None, **more: Any) -> Restored:
    """The creation of an instance from a backup, on *nodes*: ``PRIMARY`` or ``PRIMARY:SECONDARY``.

    *more*: other parameters of the creation.
    """
    primary, _, secondary = (nodes or "").partition(":")
    return Restored(
        instance_name=name,
        mode="create",
        disks=[],
        nics=[],
        no_install=True,
        identify_defaults=True,
        pnode=primary or None,
        snode=secondary or None,
        chain=chain,
        **more,
    )


def restored(asked: Restored, export: Export, view: ConfigView, catalogue: Catalogue, *, no_nics: bool) -> Restored:
    """The creation, with what the backup says of the instance; raises `PrerequisiteError`."""
    newest = asked.chain[0]
    source = Source(newest.node_uuid, newest.node_name, newest.backup.id, export)
    full = filled(asked, source, view, catalogue)
    sizes = [{"size": -(-disk.size // _MIB)} for disk in newest.backup.disks]
    disks = [dict(disk) | size for disk, size in zip(full.disks, sizes, strict=True)]
    nics: list[NicInput] = [] if no_nics else full.nics
    return replace(full, disks=disks, nics=nics)


@operation(
    "OP_BACKUP_RESTORE",
    summary_field="instance_name",
    hooks="instance-add",
    cli=Command(
        "gnt-backup restore",
        "make an instance from a backup, or with --in-place give a stopped one its disks back (not in Ganeti 3.1)",
        arguments=("instance_name", "new_name"),
        options=(ASSUME_YES,),
        confirm_for=(("in_place", "What is on the disks of {instance_name} is overwritten. Continue?"),),
    ),
    examples=(
        Example("restore", _EXAMPLE, before=("create-on-file-stopped", "backup-key", "backup-stopped")),
        Example(
            "restore-and-start",
            _EXAMPLE | {"start": True},
            before=("create-on-file-stopped", "backup-key", "backup-stopped"),
        ),
    ),
)
class RestoreBackup(Operation[list[str]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Restore a backup as a new instance, or in place."""

    instance_name: Annotated[
        Text,
        Parameter(
            "name of the instance that was backed up; it may be gone", subject="new name", metavar="instance-name"
        ),
    ]
    new_name: Annotated[
        Text | None,
        Parameter("name of the instance that is made; the same without it", subject="new name", metavar="new-name"),
    ] = None
    backup: Annotated[
        Text | None, Parameter("id of the backup; the newest without it", "--backup", subject="object", metavar="ID")
    ] = None
    in_place: Annotated[bool, Parameter("overwrite the disks of the instance itself", "--in-place")] = False
    pnode: Annotated[Text | None, Parameter("where it runs", "-n", "--node", subject="node", metavar="NODE")] = None
    iallocator: Allocator | None = None
    disk_template: Annotated[
        Text | None,
        Parameter("how its disks are made", "-t", "--disk-template", subject="disk template", metavar="TEMPLATE"),
    ] = None
    start: Annotated[bool, Parameter("start it", "--start")] = False
    no_nics: Annotated[bool, Parameter("make the instance without NICs", "--no-nics")] = False

    def locks(self, view: ConfigView) -> LockPlan:
        if self.in_place:
            return instance_and_nodes(view, self.instance_name)
        wanted = self._creation([]).locks(view)
        return plan(shared=wanted.shared | {lock_of(view, self.instance_name)}, exclusive=wanted.exclusive)

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Facts:
        self._refuse_contradictions()
        if self.disk_template:
            ctx.catalogue.template(self.disk_template)  # a wrong name is said before any node is asked
        found = await find_backups(ctx, view)
        chain = chain_of(found, choose(found, view, self.instance_name, self.backup))
        await require_whole(ctx, chain)
        export = described(chain[0], view)
        if self.in_place:
            instance = view.find_instance(self.instance_name)
            running = await guest_on_primary(ctx, view, instance, "its disks cannot be written until it is back")
            require_stopped(instance, running, "restored in place")
            return Facts(chain, export, None)
        asked = self._filled(chain, export, view, ctx)
        return Facts(chain, export, await asked.gather(ctx, view))

    def check(self, view: ConfigView, facts: Facts, ctx: OperationContext) -> Checked:
        if not self.in_place:
            asked = self._filled(facts.chain, facts.export, view, ctx)
            return Checked(facts.chain, created=asked.check(view, facts.created, ctx))
        instance = view.find_instance(self.instance_name)
        spec = instance_spec(view, ctx.catalogue, instance)
        backup = facts.chain[0].backup
        if backup.instance_uuid != instance.uuid:
            raise PrerequisiteError(
                f"Backup {backup.id} is of another instance that was called {backup.instance_name}: restore it as a "
                "new instance",
                WRONG_INPUT,
            )
        if facts.export.os != spec.os:
            raise PrerequisiteError(
                f"Backup {backup.id} was made with OS '{facts.export.os}', and instance {spec.name} has '{spec.os}': "
                "restore it as a new instance, or change the OS back (gnt-instance modify --os-type)",
                WRONG_STATE,
            )
        sizes = [disk.size_mib * _MIB for disk in spec.disks]
        if len(sizes) != len(backup.disks) or any(
            size < kept.size for size, kept in zip(sizes, backup.disks, strict=True)
        ):
            raise PrerequisiteError(
                f"Backup {backup.id} has disks of {_sizes([kept.size for kept in backup.disks])}, and {spec.name} has "
                f"{_sizes(sizes)}: restore it as a new instance",
                WRONG_STATE,
            )
        _require_same_disks(spec, backup)
        return Checked(facts.chain, spec=spec)

    async def check_on_nodes(self, checked: Checked, ctx: OperationContext) -> Checked:
        if checked.created is None:
            return checked
        created = await self._creation(checked.chain).check_on_nodes(checked.created, ctx)
        return with_values(checked, created=created)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks | None:
        if checked.created is None:
            return None
        return self._creation(checked.chain).hooks(view, checked.created)

    async def execute(self, checked: Checked, ctx: OperationContext) -> list[str]:
        if checked.created is not None:
            return await self._creation(checked.chain).execute(checked.created, ctx)
        spec = checked.spec
        assert spec is not None
        disks = plan_of(ctx, spec)
        await push_undo(ctx, disks.open())
        await open_disks(ctx, disks, reverting=True)
        await fill_from(ctx, spec, checked.chain, zeroes=True, writes=False)
        mark = f"{OF_BACKUP}{checked.chain[0].backup.id}"
        await ctx.config.commit(SetReverting(instance_uuid=spec.uuid, snapshot=mark))
        ctx.log.info(f"If this job does not come to its end, repeat it: {spec.name} does not start until then")
        await fill_from(ctx, spec, checked.chain, zeroes=True)
        await close_disks(ctx, spec)
        await ctx.config.commit(SetReverting(instance_uuid=spec.uuid), settles=True)
        return [spec.primary_node]

    def _refuse_contradictions(self) -> None:
        for name, flag in (("new_name", "a new name"), ("pnode", "-n"), ("disk_template", "-t"), ("start", "--start")):
            if self.in_place and getattr(self, name):
                raise PrerequisiteError(f"A restore in place makes no instance: leave {flag} out", WRONG_INPUT)

    def _creation(self, chain: list[KeptBackup]) -> Restored:
        return restoration(
            self.new_name or self.instance_name,
            chain,
            self.pnode,
            iallocator=self.iallocator,
            disk_template=self.disk_template,
            start=self.start,
            dry_run=self.dry_run,
        )

    def _filled(self, chain: list[KeptBackup], export: Export, view: ConfigView, ctx: OperationContext) -> Restored:
        return restored(self._creation(chain), export, view, ctx.catalogue, no_nics=self.no_nics)


def _require_same_disks(spec: InstanceSpec, backup: Backup) -> None:
    """Refuse other disks than were backed up; where all are others, they were converted or made again."""
    now, then = [disk.uuid for disk in spec.disks], [disk.uuid for disk in backup.disks]
    if now != then and set(now) & set(then):
        number = next(index for index, pair in enumerate(zip(now, then, strict=True)) if pair[0] != pair[1])
        raise PrerequisiteError(
            f"Disk {number} of {spec.name} is not the disk that backup {backup.id} was made of: restore the backup as "
            "a new instance",
            WRONG_STATE,
        )


def _sizes(sizes: list[int]) -> str:
    return " and ".join(f"{size // _MIB} MiB" for size in sizes) or "no bytes"
