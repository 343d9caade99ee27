# SPDX-License-Identifier: BSD-2-Clause
"""Sending an instance to another cluster: whom to, and the disks on their way (mode remote of OP_BACKUP_EXPORT)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master.operations.backup.transfers import SEND, Dump, TransferSide, follow, removing_key
from ganeti.model.node_calls.transfers import TransferKeyRemove
from ganeti.model.node_requests import InstanceSpec
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask
from ganeti.wire.cluster_signatures import check_certificate, check_disk_info, check_key_name


@dataclass(frozen=True)
class Destination:
    """Where another cluster waits for the disks."""

    key: str
    authority: str
    """The certificate that it shows."""
    disks: list[tuple[str, int, str]]
    """Host, port and magic, by disk."""


def read_destination(
    ctx: OperationContext, target: Any, key: Sequence[Any] | None, signed_ca: str | None, disk_count: int
) -> Destination:
    """Check what came through the hands of a client; raises `PrerequisiteError`."""
    for name, value in (("x509_key_name", key), ("destination_x509_ca", signed_ca)):
        if not value:
            raise PrerequisiteError(
                f"An export to another cluster needs {name}: see OP_BACKUP_PREPARE, or use move-instance", WRONG_INPUT
            )
    if not isinstance(target, list) or len(target) != disk_count:
        found = f"{len(target)} of them" if isinstance(target, list) else "no list"
        raise PrerequisiteError(
            f"target_node of an export to another cluster lists one destination for each of the {disk_count} disks, "
            f"and this is {found}",
            WRONG_INPUT,
        )
    secret = ctx.master.domain_secret()
    name = check_key_name(secret, key or [])
    what = "The certificate of the receiving cluster (destination_x509_ca)"
    authority = check_certificate(secret, signed_ca or "", ctx.clock.now_s(), what)
    return Destination(name, authority, [check_disk_info(secret, index, each) for index, each in enumerate(target)])


async def send_disks(
    ctx: OperationContext,
    spec: InstanceSpec,
    destination: Destination,
    *,
    compress: str,
    debug: int,
    dumps: Sequence[str] = (),
    directory: str = "",
    copied: bool = False,
) -> None:
    """Send all disks at once, and wait until the other cluster says that it keeps the instance.

    They are read by the OS, or are *dumps* in *directory*. Raises `ExecutionError`; all of it has its undo.
    """
    node, node_name = spec.primary_node_uuid, spec.primary_node
    await ctx.undo.push(removing_key(destination.key, node, node_name))
    sides = [TransferSide(ctx, SEND, spec, disk.index, (node, node_name), destination.key) for disk in spec.disks]
    for side, (host, port, magic) in zip(sides, destination.disks, strict=True):
        ctx.stop_if_cancelled()
        ctx.log.info(f"Sending disk {side.index} of {spec.name} to {host} port {port}")
        dump = Dump(directory, dumps[side.index]) if dumps else None
        copies = directory if copied else ""
        what = destination.authority, magic, compress, debug
        await side.send(*what, host=host, port=port, dump=dump, copies=copies)
    await follow(ctx, sides, "sent", over=lambda state: state.exit_status == 0)
    for side in sides:
        await side.end()
    await ask(ctx.nodes, node, TransferKeyRemove(name=destination.key))
