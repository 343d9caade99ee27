# SPDX-License-Identifier: BSD-2-Clause
"""OP_BACKUP_PROVE (not in 3.1): show that a backup is one, by booting it until its guest shows a sign of life.

The trial guest is an instance without NICs that never becomes more than forthcoming: no watcher and no list of running
instances counts it, and everything of it has its undo. What undoes it where the job dies takes it away at the end, too.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from ganeti.base.command import Command
from ganeti.base.errors import ExecutionError, PrerequisiteError
from ganeti.master.allocation import check_capacity
from ganeti.master.allocators import BUILT_IN
from ganeti.master.backups import RecordProof
from ganeti.master.instance_spec import bare, instance_spec
from ganeti.master.operation import Example, Operation, operation
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
from ganeti.master.operations.backup.reading import serve, serving_name, unserve
from ganeti.master.operations.backup.restore import Restored, restoration, restored
from ganeti.master.operations.changes import RemoveInstance
from ganeti.master.operations.instance.creation import create as creation
from ganeti.master.operations.instance.disks.disk_steps import plan_of, take
from ganeti.master.operations.instance.power.guest_power import stop_on_primary
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Allocator, Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.backup_files import BackupBoot, BackupRoom
from ganeti.model.node_calls.backups import BackupCheck, BackupNote, ForgetSigns, SignOfLife
from ganeti.model.node_calls.instances import InstanceShutdown
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask
from ganeti.wire.backup_file import Proof, encode
from ganeti.wire.sealing import CHUNK_BYTES

PREFIX = "proof."
_POLL_S = 1.0
_OUTSIDE: Final = ("kvm_extra", "usb_devices", "cdrom_image_path", "cdrom2_image_path", "floppy_image_path")
"""Parameters by which a guest reaches something else than its disks: a trial guest has none of it."""
_MIB: Final = 1024 * 1024
_EXAMPLE: Final = {"instance_name": "one.example.com", "pnode": "node2.example.com"}


@dataclass(frozen=True)
class Checked:
    chain: list[KeptBackup]
    asked: Restored
    created: creation.Checked


@operation(
    "OP_BACKUP_PROVE",
    summary_field="instance_name",
    cli=Command(
        "gnt-backup prove",
        "boot a backup without network until it shows a sign of life, and record the result (not in Ganeti 3.1)",
        arguments=("instance_name",),
    ),
    examples=(Example("prove", _EXAMPLE, before=("create-on-file-stopped", "backup-key", "backup-stopped")),),
)
class ProveBackup(Operation[str], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Boot a backup on a node with room; gives the sign of life."""

    instance_name: Annotated[
        Text,
        Parameter(
            "name of the instance that was backed up; it may be gone", subject="new name", metavar="instance-name"
        ),
    ]
    backup: Annotated[
        Text | None, Parameter("id of the backup; the newest without it", "--backup", subject="object", metavar="ID")
    ] = None
    pnode: Annotated[Text | None, Parameter("node that boots it", "-n", "--node", subject="node", metavar="NODE")] = (
        None
    )
    iallocator: Allocator | None = None
    timeout: Annotated[
        Annotated[int, msgspec.Meta(ge=1)],
        Parameter("how long the guest may take, in seconds", "--timeout", kind="duration"),
    ] = 300
    console_words: Annotated[
        Text | None,
        Parameter(
            "words, as they are, that its serial console shows when it is up; without them login:, or HB and a number",
            "--console-words",
        ),
    ] = None

    def locks(self, view: ConfigView) -> LockPlan:
        wanted = self._trial([]).locks(view)
        return plan(shared=wanted.shared | {lock_of(view, self.instance_name)}, exclusive=wanted.exclusive)

    async def gather(
        self, ctx: OperationContext, view: ConfigView
    ) -> tuple[list[KeptBackup], Restored, creation.Facts | None]:
        found = await find_backups(ctx, view)
        chain = chain_of(found, choose(found, view, self.instance_name, self.backup))
        await require_whole(ctx, chain)
        asked = restored(self._trial(chain), described(chain[0], view), view, ctx.catalogue, no_nics=True)
        asked = _alone(asked, ctx.catalogue)
        if self.pnode is None and self.iallocator is None:
            kept = await self._where_kept(chain, asked, view, ctx)
            if kept is not None:
                return chain, *kept
        return chain, asked, await asked.gather(ctx, view)

    async def _where_kept(
        self, chain: list[KeptBackup], asked: Restored, view: ConfigView, ctx: OperationContext
    ) -> tuple[Restored, creation.Facts] | None:
        """The trial on the node that keeps the backup, which need not be restored there; None without room."""
        templates = [ctx.catalogue.template(name) for name in view.cluster.enabled_disk_templates]
        fitting = [
            each
            for each in templates
            if each.node_count == 1 and each.has_disks and not (each.adopts_only or each.free_keys)
        ]
        if not fitting or not await _boots_where_kept(asked, chain[0], view, ctx):
            return None
        there = replace(asked, pnode=chain[0].node_name, disk_template=fitting[0].name)
        try:
            facts = await there.gather(ctx, view)
            assert facts is not None
            # Its room is reserved, so that nobody need keep off the node, as with what an allocator chooses.
            reserved = dataclasses.replace(facts, chosen_by=BUILT_IN)
            checked = there.check(view, reserved, ctx)
            await check_capacity(ctx, checked.instance.primary_node, checked.view_spec, checked.template)
        except PrerequisiteError as err:
            ctx.log.info(f"Restoring the backup on another node to boot it: {err}")
            return None
        return there, reserved

    def check(
        self, view: ConfigView, facts: tuple[list[KeptBackup], Restored, creation.Facts | None], ctx: OperationContext
    ) -> Checked:
        chain, asked, created = facts
        return Checked(chain, asked, asked.check(view, created, ctx))

    async def check_on_nodes(self, checked: Checked, ctx: OperationContext) -> Checked:
        return dataclasses.replace(checked, created=await checked.asked.check_on_nodes(checked.created, ctx))

    async def execute(self, checked: Checked, ctx: OperationContext) -> str:
        began_s, backup = ctx.clock.now_s(), checked.chain[0].backup
        ctx.log.info(f"Booting backup {backup.id} of {backup.instance_name} on {checked.created.node_names[0]}")
        await checked.asked.reserve(checked.created, ctx)
        node, uuid = checked.created.instance.primary_node, checked.created.instance.uuid
        trial = checked.created.instance
        forget = ForgetSigns(hypervisor=trial.hypervisor, name=trial.name)
        await ctx.undo.push(UndoNodeCall.of(f"forget what the console of {trial.name} has shown", node, forget))
        await ask(ctx.nodes, node, forget)
        newest, view = checked.chain[0], ctx.config.view()
        if node == newest.node_uuid and await _boots_where_kept(checked.asked, newest, view, ctx):
            sign = await self._booted_where_kept(checked, ctx)
        else:
            sign = await self._booted_from_copy(checked, ctx)
        await ask(ctx.nodes, node, forget)
        await ctx.config.commit(RemoveInstance(instance_uuid=uuid), settles=True)
        await self._note(checked.chain[0], sign, began_s, ctx)
        if not sign:
            raise ExecutionError(
                f"Backup {backup.id} of {backup.instance_name} shows no sign of life within {self.timeout} seconds: "
                "restore it and look at its console, or say with --console-words what that shows when the guest is up"
            )
        ctx.log.info(f"Backup {backup.id} is proved: {sign}, after {ctx.clock.now_s() - began_s:.0f} s")
        return sign

    async def _booted_where_kept(self, checked: Checked, ctx: OperationContext) -> str:
        """Boot from the chain itself: the guest reads of it what it needs."""
        view, name = ctx.config.view(), serving_name(ctx)
        spec = instance_spec(view, ctx.catalogue, view.instance(checked.created.instance.uuid))
        await serve(ctx, checked.chain, name)
        stop, sentence = InstanceShutdown(instance=bare(spec), timeout_s=0), f"stop {spec.name} on {spec.primary_node}"
        await ctx.undo.push(UndoNodeCall.of(sentence, spec.primary_node_uuid, stop))
        ctx.log.info("* starting instance...")
        await ask(ctx.nodes, spec.primary_node_uuid, BackupBoot(name=name, instance=spec))
        sign = await self._sign(spec, ctx)
        await ask(ctx.nodes, spec.primary_node_uuid, InstanceShutdown(instance=spec, timeout_s=0))
        await unserve(ctx, checked.chain[0], name)
        if sign:
            await _check_chunks(ctx, checked.chain)
        return sign

    async def _booted_from_copy(self, checked: Checked, ctx: OperationContext) -> str:
        """Restore it onto another node, and boot that."""
        spec = await checked.asked.make(checked.created, ctx)
        sign = await self._sign(spec, ctx)
        await stop_on_primary(ctx, spec, timeout_s=0.0)
        for step in plan_of(ctx, spec).remove():
            await take(ctx, step)
        return sign

    async def _sign(self, spec: InstanceSpec, ctx: OperationContext) -> str:
        """Wait for it; empty where none comes in time."""
        until_s = ctx.clock.now_s() + self.timeout
        request = SignOfLife(hypervisor=spec.hypervisor, name=spec.name, words=self.console_words or "")
        while True:
            if sign := await ask(ctx.nodes, spec.primary_node_uuid, request):
                return sign
            if ctx.clock.now_s() >= until_s:
                return ""
            await ctx.clock.sleep(_POLL_S)

    async def _note(self, known: KeptBackup, sign: str, began_s: float, ctx: OperationContext) -> None:
        backup, now_s = known.backup, ctx.clock.now_s()
        proof = Proof(
            backup=backup.id,
            instance_uuid=backup.instance_uuid,
            key_id=backup.key_id,
            proved=now_s,
            good=bool(sign),
            sign=sign or f"no sign of life within {self.timeout} s",
            took=now_s - began_s,
        )
        text = encode(proof, ctx.config.view().backups.keys)
        await ask(ctx.nodes, known.node_uuid, BackupNote(instance_uuid=backup.instance_uuid, id=backup.id, proof=text))
        if sign:
            await ctx.config.commit(RecordProof(instance_uuid=backup.instance_uuid, proved_s=now_s), settles=True)

    def _trial(self, chain: Sequence[KeptBackup]) -> Restored:
        name = f"{PREFIX}{self.instance_name}"[:253]
        asked = {"iallocator": self.iallocator, "dry_run": self.dry_run}
        return restoration(name, list(chain), self.pnode, start=True, ignore_ipolicy=True, **asked)


async def _check_chunks(ctx: OperationContext, chain: list[KeptBackup]) -> None:
    """Have the node open all that the guest has not read; raises `BlockDeviceError` for what has rotted."""
    newest, key = chain[0], sealing_key(ctx.config.view(), chain[0].backup.key_id)
    for disk, kept in enumerate(newest.backup.disks):
        ctx.log.info(f"Checking disk {disk} of backup {newest.backup.id} on {newest.node_name}")
        first, total = 0, -(-kept.size // CHUNK_BYTES)
        while first < total:
            request = BackupCheck(
                instance_uuid=newest.backup.instance_uuid,
                chain=links(chain),
                disk=disk,
                first=first,
                end=total,
                key=key,
            )
            first = await ask(ctx.nodes, newest.node_uuid, request)
            ctx.log.progress(f"disk {disk} is checked", first, total)
            ctx.stop_if_cancelled()


async def _boots_where_kept(asked: Restored, newest: KeptBackup, view: ConfigView, ctx: OperationContext) -> bool:
    """Whether the guest can boot from the backup itself: its node needs room for all that the guest may write."""
    hypervisor = asked.hypervisor or view.cluster.enabled_hypervisors[0]
    if not ctx.catalogue.hypervisor(hypervisor).boots_backups:
        return False
    wanted, free = sum(disk.size for disk in newest.backup.disks), await ask(ctx.nodes, newest.node_uuid, BackupRoom())
    if wanted > free:
        ctx.log.info(
            f"Restoring the backup to boot it: /srv/ganeti/backup-scratch of {newest.node_name} has room for "
            f"{max(free, 0) // _MIB} MiB, and a guest on the backup itself may write {wanted // _MIB} MiB there"
        )
    return wanted <= free


def _alone(asked: Restored, catalogue: Catalogue) -> Restored:
    """The trial without what leads out of its disks, whatever instance and cluster say; it boots from a disk then."""
    if asked.hypervisor is None:
        return asked
    known = {each.name for each in catalogue.hypervisor(asked.hypervisor).parameters}
    hvparams = asked.hvparams | {name: "" for name in _OUTSIDE if name in known}
    if hvparams.get("boot_order") in ("cdrom", "floppy", "network"):
        hvparams["boot_order"] = "disk"
    return replace(asked, hvparams=hvparams)
