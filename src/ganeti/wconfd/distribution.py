# SPDX-License-Identifier: BSD-2-Clause
"""What the master published goes to the others: ssconf to all online nodes whose copy does not tell it them (S2.11).

A candidate in sync has every commit before it is acknowledged (`replication`), and writes its own `config.data` and
ssconf. The others are sent ssconf, best effort, beside the commits: each node is served by a task of its own, which
sends the newest state, skips what lies between, and tries again with growing pauses while the node does not answer.
Offline nodes are left alone until they are online again. A value that is too long for other nodes, as the list of very
many instances is, is no reason to send the others again.

What a node has taken may be lost or replaced there. So all are asked now and then, and before a verification, which
values differ from the newest, candidates in sync too: who has other ones is sent them again.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field

from ganeti.base.errors import INTERNAL_ERROR, GanetiError
from ganeti.master.config.publication import SsconfSource
from ganeti.model.node_calls.files import DifferingSsconf, WriteSsconfFiles
from ganeti.model.objects import Node
from ganeti.ports.nodes import NodesPort, ask
from ganeti.stores.publisher import Published
from ganeti.system.event_loop import Background
from ganeti.wire.ssconf import SIZE_LIMIT_BYTES

_log = logging.getLogger(__name__)
LOOK_EVERY_S = 60.0
LOOK_S = 5.0
"""Of one look at one node."""
RETRY_FIRST_S = 2.0
RETRY_LONGEST_S = 60.0
SENT_AT_ONCE = 64
"""To begin with 1,000 nodes at a time would keep the master's jobs waiting. Those that failed before take no place."""
TAKE_S = 20.0
"""Of one try: an answer that was lost on its way must not keep newer values back. A node takes no older ones then."""


@dataclass(eq=False)
class _Receiver:
    """What one node has got so far."""

    node: Node
    values: dict[str, str] | None = None
    """The very ones of the distributor: another object, even an equal one, is sent."""
    differs: bool = False
    """Its values were found to be other ones."""
    failures: int = 0
    again: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to end the pause after a failure."""
    task: "asyncio.Task[None] | None" = None


class Distributor:
    """Sends to all nodes but the master."""

    def __init__(
        self,
        nodes: NodesPort,
        is_in_sync: Callable[[str], bool] = lambda _: False,
        on_answer: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Nodes that are *in sync* are sent nothing; *on_answer* is told of a node that was silent and answers."""
        self._nodes = nodes
        self._is_in_sync = is_in_sync
        self._on_answer = on_answer
        self._receivers: dict[str, _Receiver] = {}
        self._newest: Published | None = None
        self._values: dict[str, str] = {}
        """Of the newest ssconf, what is sent. It stays the same object while no value changes."""
        self._places = asyncio.Semaphore(SENT_AT_ONCE)
        self._source: SsconfSource | None = None
        self._background = Background()
        self._moved = asyncio.Condition()

    def publish(self, published: Published) -> None:
        """Send this state to whom it concerns; returns at once."""
        self._newest = published
        values = _short_enough(published.ssconf)
        if values != self._values:
            self._values = values
        if self._source is not published.source:
            self._source = published.source
            self._take_nodes(published.source)
        self.refresh()

    def refresh(self) -> None:
        """Another node may be in sync, or not any more."""
        for receiver in self._receivers.values():
            if self._is_in_sync(receiver.node.uuid):
                receiver.values = None  # it writes its own: nobody here knows how far it is
            if receiver.task is None and self._is_owed(receiver):
                receiver.task = self._background.start(self._serve(receiver), f"distribution to {receiver.node.name}")

    async def run(self) -> None:
        """Look at all nodes now and then, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.look()

    async def look(self, group: str | None = None) -> None:
        """Ask every node that is not being served which values differ, and begin to send them again.

        With the uuid of a *group*, none but its nodes are asked.
        """
        newest = self._newest
        if newest is None:
            return
        receivers = [receiver for receiver in self._chosen(group) if receiver.task is None]
        digests = {key: hashlib.sha256(text.encode()).hexdigest() for key, text in self._values.items()}
        differing = await asyncio.gather(*(self._differing(receiver.node, digests) for receiver in receivers))
        if self._newest is not newest:
            return  # it is on its way
        for receiver, keys in zip(receivers, differing, strict=True):
            if keys and receiver.task is None:
                _log.info(
                    "Node %s has other values of ssconf, and is sent them: %s", receiver.node.name, ", ".join(keys)
                )
                receiver.differs = True
        self.refresh()

    async def flush(self, group: str | None = None) -> None:
        """Return when every node, or each of a *group*, has the newest state, or has failed to take it.

        Those that have failed try again.
        """
        for receiver in self._chosen(group):
            receiver.again.set()
        await self.look(group)
        async with self._moved:
            await self._moved.wait_for(
                lambda: all(receiver.failures or not self._is_owed(receiver) for receiver in self._chosen(group))
            )

    async def close(self) -> None:
        await self._background.cancel()

    def _chosen(self, group: str | None) -> list[_Receiver]:
        return [receiver for receiver in self._receivers.values() if group in (None, receiver.node.group)]

    def _take_nodes(self, source: SsconfSource) -> None:
        online = {
            node.uuid: node for node in source.nodes if not node.offline and node.uuid != source.cluster.master_node
        }
        for uuid in [uuid for uuid in self._receivers if uuid not in online]:
            receiver = self._receivers.pop(uuid)
            if receiver.task is not None:
                receiver.task.cancel()
        for uuid, node in online.items():
            receiver = self._receivers.setdefault(uuid, _Receiver(node))
            receiver.node = node

    def _is_owed(self, receiver: _Receiver) -> bool:
        if self._newest is None:
            return False
        is_behind = receiver.values is not self._values and not self._is_in_sync(receiver.node.uuid)
        return receiver.differs or is_behind

    async def _differing(self, node: Node, digests: dict[str, str]) -> list[str]:
        """Nothing of a node that does not answer: sending to it fails, and says so."""
        try:
            answer = await ask(self._nodes, node.uuid, DifferingSsconf(digests=digests), deadline_s=LOOK_S)
        except GanetiError as err:
            _log.debug("Node %s does not say which ssconf it has: %s", node.name, err)
            return []
        return [str(key) for key in answer] if isinstance(answer, list) else []

    async def _serve(self, receiver: _Receiver) -> None:
        try:
            while self._newest is not None and self._is_owed(receiver):
                differs, receiver.differs = receiver.differs, False
                try:
                    async with nullcontext() if receiver.failures else self._places:
                        values = self._values
                        request = WriteSsconfFiles(values=values, position=self._newest.position)
                        await ask(self._nodes, receiver.node.uuid, request, deadline_s=TAKE_S)
                    receiver.values = values
                except Exception as err:
                    receiver.differs = differs
                    if not isinstance(err, GanetiError):
                        _log.exception("Sending to node %s failed with %s", receiver.node.name, INTERNAL_ERROR)
                    await self._after_failure(receiver, err)
                    continue
                if receiver.failures:
                    _log.info("Node %s has the configuration again", receiver.node.name)
                    self._on_answer(receiver.node.uuid)
                receiver.failures = 0
        finally:
            receiver.task = None
            receiver.failures = 0 if not self._is_owed(receiver) else receiver.failures
            await self._tell_moved()

    async def _after_failure(self, receiver: _Receiver, error: Exception) -> None:
        receiver.failures += 1
        pause_s = min(RETRY_FIRST_S * 2 ** (receiver.failures - 1), RETRY_LONGEST_S)
        if receiver.failures == 1:
            _log.warning("Node %s did not take the configuration, trying again: %s", receiver.node.name, error)
        await self._tell_moved()
        receiver.again.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(receiver.again.wait(), pause_s)

    async def _tell_moved(self) -> None:
        async with self._moved:
            self._moved.notify_all()


def _short_enough(ssconf: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in ssconf.items() if len(text.encode()) <= SIZE_LIMIT_BYTES}
