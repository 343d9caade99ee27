# SPDX-License-Identifier: BSD-2-Clause
"""Making an instance from what another cluster sends (mode remote-import of OP_INSTANCE_CREATE).

The sender hears of success when the instance is in the configuration, and not before: until then it keeps its own.
"""

import contextlib
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from ganeti.base.errors import WRONG_INPUT, GanetiError, PrerequisiteError
from ganeti.base.names import instance_name_fault, shown
from ganeti.master.instance_spec import with_secrets
from ganeti.master.operations.backup.dumps import check_compression
from ganeti.master.operations.backup.transfers import (
    KEY_VALID_S,
    RECEIVE,
    TransferSide,
    confirm,
    follow,
    new_key_name,
    removing_key,
)
from ganeti.master.operations.instance.creation.creation_parameters import CreationParameters
from ganeti.master.operations.instance.disks.disk_steps import open_disks, plan_of, push_undo
from ganeti.model.node_calls.instances import InstanceRunRename
from ganeti.model.node_calls.transfers import TransferKeyMake, TransferKeyRemove
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask
from ganeti.wire.cluster_signatures import check_certificate, check_handshake, disk_info, sign_certificate

REMOTE_IMPORT = "remote-import"
CONNECT_WITHIN_S = 180
"""How long the sender may take to connect, besides the shutdown of its guest."""
_MAGIC_BYTES, _SALT_BYTES = 16, 8


@dataclass(frozen=True)
class Sender:
    """The other cluster."""

    authority: str
    """The certificate that it shows."""
    instance_name: str
    connect_within_s: int


def read_sender(asked: CreationParameters, ctx: OperationContext, view: ConfigView) -> Sender | None:
    """Who sends the instance, if another cluster does; raises `PrerequisiteError`."""
    if asked.mode != REMOTE_IMPORT:
        _refuse_remote(asked)
        return None
    if asked.commit or asked.forthcoming or asked.no_install:
        raise PrerequisiteError(
            "An import fills the disks at once: leave forthcoming, commit and no_install out", WRONG_INPUT
        )
    for name in ("source_handshake", "source_x509_ca", "source_instance_name", "os_type"):
        if not getattr(asked, name):
            raise PrerequisiteError(
                f"An import from another cluster needs {name}: see OP_BACKUP_PREPARE there, or use move-instance",
                WRONG_INPUT,
            )
    for name in ("src_node", "src_node_uuid", "src_path"):
        if getattr(asked, name):
            raise PrerequisiteError(f"{name} is about an export that a node keeps: leave it out", WRONG_INPUT)
    if any("adopt" in disk for disk in asked.disks):
        raise PrerequisiteError("An import makes its own disks: leave adopt out", WRONG_INPUT)
    if fault := instance_name_fault(asked.source_instance_name or ""):
        raise PrerequisiteError(f"source_instance_name '{shown(asked.source_instance_name or '')}' is none: {fault}")
    check_compression(view, asked.compress)
    secret = ctx.master.domain_secret()
    check_handshake(secret, asked.source_handshake or [])
    what = "The certificate of the sending cluster (source_x509_ca)"
    authority = check_certificate(secret, asked.source_x509_ca or "", ctx.clock.now_s(), what)
    return Sender(authority, asked.source_instance_name or "", CONNECT_WITHIN_S + asked.source_shutdown_timeout)


def as_created(asked: Any) -> Any:
    """The request as one that makes empty disks: that is how an import begins."""
    return replace(asked, mode="create", compress="none")


class Reception:
    """The disks of one instance as they come: `receive`, and `confirm` once the instance is kept."""

    def __init__(self, ctx: OperationContext, spec: InstanceSpec, sender: Sender) -> None:
        self._ctx = ctx
        self._spec = spec
        self._sender = sender
        self._node = spec.primary_node_uuid
        self._key = new_key_name(ctx)
        self._sides: list[TransferSide] = []

    async def receive(self, compress: str, secret: dict[str, Any], debug: int) -> None:
        """Open the disks, with their undo, wait for the sender, and have the OS fill them; they stay open."""
        ctx, spec = self._ctx, self._spec
        plan = plan_of(ctx, spec)
        await push_undo(ctx, plan.open())
        await open_disks(ctx, plan)
        await ctx.undo.push(removing_key(self._key, self._node, spec.primary_node))
        make = TransferKeyMake(name=self._key, owner=f"import of {spec.uuid}", validity_s=KEY_VALID_S)
        made = await ask(ctx.nodes, self._node, make)
        full = with_secrets(spec, secret)
        domain_secret = ctx.master.domain_secret()
        bind = ctx.config.view().node(self._node).primary_ip
        waiting = []
        for disk in spec.disks:
            side = TransferSide(ctx, RECEIVE, full, disk.index, (self._node, spec.primary_node), self._key)
            self._sides.append(side)
            magic = ctx.entropy.token(_MAGIC_BYTES).hex()
            what = self._sender.authority, magic, compress, debug
            port = await side.receive(*what, bind=bind, connect_within_s=self._sender.connect_within_s)
            waiting.append(disk_info(domain_secret, self._salt(), disk.index, bind, port, magic))
        authority = sign_certificate(domain_secret, self._salt(), made.certificate)
        ctx.log.info(f"Waiting for {self._sender.instance_name} from its cluster, at most {self._wait_s} s")
        ctx.log.add(REMOTE_IMPORT, {"disks": waiting, "x509_ca": authority})
        await follow(ctx, self._sides, "received", over=lambda state: state.received)
        request = InstanceRunRename(instance=full, old_name=self._sender.instance_name, debug=debug)
        await ask(ctx.nodes, self._node, request)

    @property
    def _wait_s(self) -> int:
        return self._sender.connect_within_s

    async def confirm(self) -> None:
        """The instance is kept: the sender may remove its own. Never raises: nothing here depends on it."""
        ctx = self._ctx
        try:
            await confirm(ctx, self._sides)
        except GanetiError as err:
            ctx.log.warning(
                f"The sending cluster did not get the message that the instance is here, and keeps its own: {err}"
            )
        with contextlib.suppress(GanetiError):
            for side in self._sides:
                await side.end()
            await ask(ctx.nodes, self._node, TransferKeyRemove(name=self._key))

    def _salt(self) -> str:
        return self._ctx.entropy.token(_SALT_BYTES).hex()


def _refuse_remote(asked: CreationParameters) -> None:
    for name in ("source_handshake", "source_x509_ca", "source_instance_name"):
        if getattr(asked, name):
            raise PrerequisiteError(
                f"{name} is about an instance that another cluster sends: leave it out, or use mode {REMOTE_IMPORT}",
                WRONG_INPUT,
            )
