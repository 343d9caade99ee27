# SPDX-License-Identifier: BSD-2-Clause
"""Disks of one instance on their way between two nodes of the cluster: exports to another node, imports from one.

They go as they do to another cluster, from node to node over TLS, each side trusting the certificate of the other that
was made for this alone. The data do not pass through the job.
"""

from ganeti.master.operations.backup.transfers import (
    KEY_VALID_S,
    RECEIVE,
    SEND,
    Dump,
    TransferSide,
    confirm,
    follow,
    new_key_name,
    removing_key,
)
from ganeti.model.node_calls.transfers import TransferKeyMake, TransferKeyRemove
from ganeti.model.node_requests import InstanceSpec
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

CONNECT_WITHIN_S = 300
_MAGIC_BYTES = 16


class BetweenNodes:
    """`begin`, then `carry` for each disk, then `end`; all of it has its undo."""

    def __init__(
        self, ctx: OperationContext, sender_uuid: str, receiver_uuid: str, compress: str, debug: int, owner: str
    ) -> None:
        """*owner* says whom the keys are for: older ones for the same go."""
        self._ctx = ctx
        self._sender = ctx.config.view().node(sender_uuid)
        self._receiver = ctx.config.view().node(receiver_uuid)
        self._compress = compress
        self._debug = debug
        self._owner = owner
        self._keys = (new_key_name(ctx), new_key_name(ctx))
        self._certificates = ("", "")

    async def begin(self) -> None:
        made = []
        for key, node in zip(self._keys, (self._sender, self._receiver), strict=True):
            await self._ctx.undo.push(removing_key(key, node.uuid, node.name))
            request = TransferKeyMake(name=key, owner=self._owner, validity_s=KEY_VALID_S)
            made.append((await ask(self._ctx.nodes, node.uuid, request)).certificate)
        self._certificates = (made[0], made[1])

    async def carry(
        self,
        spec: InstanceSpec,
        index: int,
        *,
        dump: Dump | None = None,
        copies: str = "",
        into: Dump | None = None,
        size: int = 0,
        receiver_spec: InstanceSpec | None = None,
    ) -> None:
        """Bring one disk over; raises `ExecutionError` with what both nodes say.

        What the OS reads, of its *copies* in that directory, or a *dump*, goes *into* a dump of *size* bytes (0: not
        known), or to the OS's import script, for which *receiver_spec* may have more parameters.
        """
        ctx, magic = self._ctx, self._ctx.entropy.token(_MAGIC_BYTES).hex()
        node = self._receiver.uuid, self._receiver.name
        receiver = TransferSide(ctx, RECEIVE, receiver_spec or spec, index, node, self._keys[1])
        sender = TransferSide(ctx, SEND, spec, index, (self._sender.uuid, self._sender.name), self._keys[0])
        what = magic, self._compress, self._debug
        address = self._receiver.secondary_ip
        port = await receiver.receive(
            self._certificates[0], *what, bind=address, connect_within_s=CONNECT_WITHIN_S, into=into, size=size
        )
        await sender.send(self._certificates[1], *what, host=address, port=port, dump=dump, copies=copies)
        await follow(ctx, [receiver], "copied", over=lambda state: state.received, others=[sender])
        await confirm(ctx, [receiver])
        for side in (sender, receiver):
            await side.end()

    async def end(self) -> None:
        for key, node in zip(self._keys, (self._sender, self._receiver), strict=True):
            await ask(self._ctx.nodes, node.uuid, TransferKeyRemove(name=key))
