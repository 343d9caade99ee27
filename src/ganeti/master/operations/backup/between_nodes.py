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
from ganeti.model.node_calls.transfers import TransferKey, TransferKeyMake, TransferKeyRemove
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Node
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

CONNECT_WITHIN_S = 300
_MAGIC_BYTES = 16


class BetweenNodes:
    """`carry` for each disk, with its undo.

    Each has keys of its own, made when it is its turn: what goes before may take longer than keys are valid.
    """

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
    ) -> str:
        """Bring one disk over; raises `ExecutionError` with what both nodes say. Gives the SHA-256 of *into*.

        What the OS reads, of its *copies* in that directory, or a *dump*, goes *into* a dump of *size* bytes (0: not
        known), or to the OS's import script, for which *receiver_spec* may have more parameters.
        """
        of_sender, of_receiver = await self._make_key(self._sender), await self._make_key(self._receiver)
        ctx, magic = self._ctx, self._ctx.entropy.token(_MAGIC_BYTES).hex()
        node = self._receiver.uuid, self._receiver.name
        receiver = TransferSide(ctx, RECEIVE, receiver_spec or spec, index, node, of_receiver.name)
        node = self._sender.uuid, self._sender.name
        sender = TransferSide(ctx, SEND, spec, index, node, of_sender.name)
        what = magic, self._compress, self._debug
        address = self._receiver.secondary_ip
        port = await receiver.receive(
            of_sender.certificate, *what, bind=address, connect_within_s=CONNECT_WITHIN_S, into=into, size=size
        )
        await sender.send(of_receiver.certificate, *what, host=address, port=port, dump=dump, copies=copies)
        (received,) = await follow(ctx, [receiver], "copied", over=lambda state: state.received, others=[sender])
        await confirm(ctx, [receiver])
        for side in (sender, receiver):
            await side.end()
        for key, holder in ((of_sender, self._sender), (of_receiver, self._receiver)):
            await ask(ctx.nodes, holder.uuid, TransferKeyRemove(name=key.name))
        return received.sha256

    async def _make_key(self, node: Node) -> TransferKey:
        name = new_key_name(self._ctx)
        await self._ctx.undo.push(removing_key(name, node.uuid, node.name))
        request = TransferKeyMake(name=name, owner=self._owner, validity_s=KEY_VALID_S)
        return await ask(self._ctx.nodes, node.uuid, request)
