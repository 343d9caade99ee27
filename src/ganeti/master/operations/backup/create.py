# SPDX-License-Identifier: BSD-2-Clause
"""OP_BACKUP_CREATE (not in 3.1): back the disks of an instance up, reading and keeping only what has changed.

A running guest goes on: its hypervisor holds the disks as they are at one moment, and counts what changes until the
next backup. Where nobody has counted, every chunk is read and compared with its digest in the backup before. Nothing
is a backup until the node that keeps it has published it.
"""

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from ganeti.base.command import Command
from ganeti.base.errors import ENVIRONMENT_ERROR, WRONG_INPUT, WRONG_STATE, ExecutionError, PrerequisiteError
from ganeti.master.backups import RecordBackup
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.backup.carrying import carry
from ganeti.master.operations.backup.chains import (
    KeptBackup,
    chain_of,
    current_key,
    find_backups,
    links,
    require_whole,
)
from ganeti.master.operations.backup.description import description_of, sealed
from ganeti.master.operations.instance.disks.disk_steps import close_disks, open_disks, plan_of, push_undo
from ganeti.master.operations.instance.existing import guest_on_primary, instance_and_nodes, require_complete
from ganeti.master.operations.parameters import InstanceName, InstanceUuid, Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.backups import (
    BackupAppend,
    BackupBegin,
    BackupClose,
    BackupDigests,
    BackupDiscard,
    BackupFinish,
    BackupOpen,
    BackupPublish,
    BackupScan,
    ChainLink,
    ChunkPiece,
    DiskBytes,
)
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Node
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask
from ganeti.wire.backup_file import Backup, BackupDisk, encode
from ganeti.wire.sealing import CHUNK_BYTES, DIGEST_BYTES, NONCE_BYTES

_WINDOW_CHUNKS = 1024
_EXAMPLE: Final = {"instance_name": "one.example.com", "node": "node3.example.com"}


@dataclass(frozen=True)
class Checked:
    spec: InstanceSpec
    keeper: Node
    runs: bool
    opens: bool
    """Whether the disks are opened, and closed again, for the backup."""
    chain: list[KeptBackup]
    """What it builds on, the newest first."""
    key_id: str
    template: str

    @property
    def parent(self) -> str:
        return self.chain[0].backup.id if self.chain else ""


@operation(
    "OP_BACKUP_CREATE",
    summary_field="instance_name",
    cli=Command(
        "gnt-backup create",
        "back up an instance while it runs; only changes since the previous backup are stored (not in Ganeti 3.1)",
        arguments=("instance_name",),
    ),
    examples=(
        Example("backup", _EXAMPLE, before=("create-on-file", "backup-key")),
        Example("backup-once-more", _EXAMPLE, before=("create-on-file-stopped", "backup-key", "backup-stopped")),
        Example("backup-stopped", _EXAMPLE, before=("create-on-file-stopped", "backup-key")),
        Example("backup-again", _EXAMPLE, before=("create-on-file", "backup-key", "backup")),
    ),
)
class CreateBackup(Operation[dict[str, str | int]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Make a backup of an instance, which builds on its newest one where that is whole."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    node: Annotated[
        Text | None,
        Parameter(
            "node that keeps the backup; without it the one with the newest backup",
            "-n",
            "--node",
            subject="node",
            metavar="NODE",
        ),
    ] = None
    full: Annotated[bool, Parameter("build on no other backup", "--full")] = False

    def locks(self, view: ConfigView) -> LockPlan:
        named = [view.find_node(self.node).uuid] if self.node else []
        return instance_and_nodes(view, self.instance_uuid or self.instance_name, *named)

    async def gather(self, ctx: OperationContext, view: ConfigView) -> tuple[list[KeptBackup], Node, bool]:
        """The chain that it can build on, the node that keeps it, and whether the guest runs."""
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(instance, "backed up")
        found = await guest_on_primary(ctx, view, instance, "its disks cannot be read until it is back")
        current_key(view)
        backups = await find_backups(ctx, view)
        of_instance = backups.of(instance.uuid)
        if self.node is not None:
            keeper = view.find_node(self.node)
        elif of_instance:
            keeper = view.node(of_instance[-1].node_uuid)
        else:
            raise PrerequisiteError(
                f"Instance {instance.name} has no backup yet{backups.left_out}, so say which node keeps it: add -n "
                "NODE",
                WRONG_INPUT,
            )
        if keeper.offline:
            raise PrerequisiteError(f"Node {keeper.name} is offline: choose another node", WRONG_STATE)
        if (fault := backups.silent.get(keeper.uuid)) is not None:
            raise PrerequisiteError(f"Node {keeper.name} cannot keep a backup now: {fault}", ENVIRONMENT_ERROR)
        older = [each for each in of_instance if each.is_within_reach_of(keeper.uuid, backups.stores)]
        if older and (latest := max(older, key=lambda each: each.backup.created)).backup.created > ctx.clock.now_s():
            ctx.log.warning(
                f"Backup {latest.backup.id} is of the future: a clock was wrong. A new one that does not build on it "
                "counts as older: once there are others, remove it (gnt-backup forget --backup "
                f"{latest.backup.id} {instance.name})"
            )
        if self.full or not older or older[-1].backup.key_id != current_key(view)[0]:
            return [], keeper, found is not None
        try:
            chain = chain_of(backups, older[-1])
            await require_whole(ctx, chain)
        except PrerequisiteError as err:
            ctx.log.warning(f"{err}. This backup has everything, and builds on none")
            chain = []
        return chain, keeper, found is not None

    def check(self, view: ConfigView, facts: tuple[list[KeptBackup], Node, bool], ctx: OperationContext) -> Checked:
        chain, keeper, runs = facts
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        spec = instance_spec(view, ctx.catalogue, instance)
        if not spec.disks:
            raise PrerequisiteError(f"Instance {spec.name} has no disks: there is nothing to back up", WRONG_INPUT)
        if runs and not ctx.catalogue.hypervisor(spec.hypervisor).can_copy_disks:
            raise PrerequisiteError(
                f"The hypervisor {spec.hypervisor} cannot hold the disks of a running guest: shut it down first "
                f"(gnt-instance shutdown {spec.name})",
                WRONG_STATE,
            )
        return Checked(
            spec=spec,
            keeper=keeper,
            runs=runs,
            opens=not runs and not instance.disks_active,
            chain=chain,
            key_id=current_key(view)[0],
            template=view.disk_template(instance),
        )

    async def execute(self, checked: Checked, ctx: OperationContext) -> dict[str, str | int]:
        spec, keeper = checked.spec, checked.keeper
        now_s = ctx.clock.now_s()
        backup_id = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s)) + f"-{ctx.entropy.token(2).hex()}"
        place = {"instance_uuid": spec.uuid, "id": backup_id}
        discard = BackupDiscard(**place)
        sentence = f"remove the unfinished backup {backup_id} from {keeper.name}"
        await ctx.undo.push(UndoNodeCall.of(sentence, keeper.uuid, discard))
        boot = await ask(ctx.nodes, keeper.uuid, BackupBegin(disks=len(spec.disks), **place))
        frozen, dirty = await self._open(checked, backup_id, ctx)
        copying = _Copying(ctx, checked, backup_id, boot)
        sizes = [await copying.disk(index, dirty[index]) for index in range(len(spec.disks))]
        stored = await ask(ctx.nodes, keeper.uuid, BackupFinish(boot=boot, **place))
        text = description_of(spec, checked.template, ctx.catalogue.hypervisor(spec.hypervisor).parameters, now_s)
        backup = Backup(
            id=backup_id,
            parent=checked.parent,
            instance_uuid=spec.uuid,
            instance_name=spec.name,
            created=now_s,
            key_id=checked.key_id,
            frozen=frozen,
            read=copying.read_bytes,
            disks=[
                BackupDisk(
                    uuid=disk.uuid,
                    size=size,
                    chunks=each.chunks,
                    chunk_bytes=each.chunk_bytes,
                    index_bytes=each.index_bytes,
                    index_sha256=each.index_sha256,
                )
                for disk, size, each in zip(spec.disks, sizes, stored, strict=True)
            ],
            instance=sealed(text, copying.key, spec.uuid, ctx.entropy.token(NONCE_BYTES)),
        )
        manifest = encode(backup, ctx.config.view().backups.keys)
        await ask(ctx.nodes, keeper.uuid, BackupPublish(generation=0, manifest=manifest, boot=boot, **place))
        await self._close(checked, backup_id, ctx)
        await ctx.config.commit(RecordBackup(instance_uuid=spec.uuid, made_s=now_s), settles=True)
        ctx.log.info(f"Backup {backup_id} of {spec.name} is on {keeper.name}: {_told(backup)}")
        return {"id": backup_id, "node": keeper.name, "stored": backup.stored_bytes, "read": backup.read}

    async def _open(
        self, checked: Checked, mark: str, ctx: OperationContext
    ) -> tuple[bool, Sequence[list[tuple[int, int]] | None]]:
        """Have the disks readable; gives whether the guest was frozen, and what may have changed of each disk."""
        spec = checked.spec
        if not checked.runs:
            if checked.opens:
                plan = plan_of(ctx, spec)
                await push_undo(ctx, plan.open())
                await open_disks(ctx, plan)
            return False, [None] * len(spec.disks)
        sentence = f"let go of the disks of {spec.name} on {spec.primary_node}, which are held for a backup"
        close = BackupClose(hypervisor=spec.hypervisor, name=spec.name, kept=checked.parent)
        await ctx.undo.push(UndoNodeCall.of(sentence, spec.primary_node_uuid, close))
        request = BackupOpen(instance=spec, mark=mark, since=checked.parent)
        opened = await ask(ctx.nodes, spec.primary_node_uuid, request)
        return opened.frozen, opened.dirty

    async def _close(self, checked: Checked, mark: str, ctx: OperationContext) -> None:
        spec = checked.spec
        if checked.runs:
            request = BackupClose(hypervisor=spec.hypervisor, name=spec.name, kept=mark)
            await ask(ctx.nodes, spec.primary_node_uuid, request)
        elif checked.opens:
            await close_disks(ctx, spec)


class _Copying:
    """Brings the chunks of the disks from the primary node to the node that keeps them."""

    def __init__(self, ctx: OperationContext, checked: Checked, backup_id: str, boot: str) -> None:
        self._ctx, self._checked, self._id, self._boot = ctx, checked, backup_id, boot
        self.key = bytes.fromhex(ctx.config.view().backups.keys[checked.key_id])
        self._chain: list[ChainLink] = links(checked.chain)
        self.read_bytes = 0
        self._offset = 0
        """Size of the file of chunks of the disk that is being copied."""

    async def disk(self, index: int, dirty: list[tuple[int, int]] | None) -> int:
        """Copy what has changed of a disk; gives its size."""
        ctx, spec, runs = self._ctx, self._checked.spec, self._checked.runs
        node = spec.primary_node_uuid
        size = await ask(ctx.nodes, node, DiskBytes(instance=spec, disk=index, running=runs))
        total = -(-size // CHUNK_BYTES)
        before = self._checked.chain[0].backup.disks if self._checked.chain else []
        same = index < len(before) and (before[index].uuid, before[index].size) == (spec.disks[index].uuid, size)
        counted = dirty is not None and same
        spans = [(first, count) for first, count in dirty or () if first < total] if counted else [(0, total)]
        how = "what its guest has changed" if counted else "all of it"
        ctx.log.info(
            f"Reading disk {index} of {spec.name}: {how}, {_amount(sum(each for _, each in spans) * CHUNK_BYTES)}"
        )
        self._offset = 0

        async def append(piece: ChunkPiece) -> None:
            await self._append(index, piece)
            ctx.log.progress(f"disk {index} is backed up", piece.next, total)

        await carry(self._pieces(index, spans, total), append)
        return size

    async def _pieces(self, index: int, spans: list[tuple[int, int]], total: int) -> AsyncGenerator[ChunkPiece]:
        """What has changed within *spans* of a disk."""
        ctx, node = self._ctx, self._checked.spec.primary_node_uuid
        for first, count in _windows(spans):
            end = min(first + count, total)
            known = await self._known(index, first, end - first)
            while first < end:
                ctx.stop_if_cancelled()
                scan = BackupScan(
                    instance=self._checked.spec,
                    disk=index,
                    running=self._checked.runs,
                    first=first,
                    known=known[-(end - first) * DIGEST_BYTES :],
                    key=self.key,
                )
                piece = await ask(ctx.nodes, node, scan)
                yield piece
                first = piece.next

    async def _known(self, index: int, first: int, count: int) -> bytes:
        """Digests of what the backup before has."""
        self.read_bytes += count * CHUNK_BYTES
        if not self._chain:
            return bytes(count * DIGEST_BYTES)
        keeper, uuid = self._checked.keeper, self._checked.spec.uuid
        request = BackupDigests(instance_uuid=uuid, chain=self._chain, disk=index, first=first, count=count)
        known = await ask(self._ctx.nodes, keeper.uuid, request)
        if len(known) != count * DIGEST_BYTES:
            raise ExecutionError(f"Node {keeper.name} gave digests of another length")
        return known

    async def _append(self, index: int, piece: ChunkPiece) -> None:
        if not piece.chunks:
            return
        append = BackupAppend(
            instance_uuid=self._checked.spec.uuid,
            id=self._id,
            disk=index,
            chunks=piece.chunks,
            offset=self._offset,
            boot=self._boot,
        )
        self._offset = await ask(self._ctx.nodes, self._checked.keeper.uuid, append)


def _windows(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for first, count in spans:
        for begin in range(first, first + count, _WINDOW_CHUNKS):
            yield begin, min(_WINDOW_CHUNKS, first + count - begin)


def _told(backup: Backup) -> str:
    changed = sum(disk.chunks for disk in backup.disks) * CHUNK_BYTES
    kind = f"builds on {backup.parent}" if backup.parent else "has everything"
    return f"it {kind}, {_amount(changed)} changed, {_amount(backup.stored_bytes)} stored"


def _amount(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"
