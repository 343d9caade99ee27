# SPDX-License-Identifier: BSD-2-Clause
"""What the master published goes to the others: ssconf to all online nodes, `config.data` to candidates (S2.11).

Best effort, beside the commits: each node is served by a task of its own, which sends the newest state, skips what lies
between, and tries again with growing pauses while the node does not answer. Offline nodes are left alone until
they are online again. A large `config.data` is sent a tenth of the time at most: after each upload a node is left
alone nine times as long as it took, unless somebody asks for all to be sent (`flush`).
"""

import asyncio
import logging
import os
from contextlib import suppress
from dataclasses import dataclass

from ganeti.base.errors import ConfigurationError, GanetiError
from ganeti.base.paths import Paths
from ganeti.master.config.publication import SsconfSource
from ganeti.master.config.records import Position
from ganeti.model.objects import Node
from ganeti.ports.nodes import NodesPort
from ganeti.runtime.config_file import CONFIG_MODE
from ganeti.runtime.event_loop import Background
from ganeti.runtime.node_requests import TextOfFile
from ganeti.runtime.publisher import Published
from ganeti.wire.ssconf import SIZE_LIMIT_BYTES

_log = logging.getLogger(__name__)
RETRY_FIRST_S = 2.0
RETRY_LONGEST_S = 60.0
PACED_FROM_BYTES = 1 << 20
PAUSE_PER_UPLOAD = 9.0
_NOTHING: Position = (0, 0)


@dataclass(eq=False)
class _Receiver:
    """What one node has got so far."""

    node: Node
    ssconf: dict[str, str] | None = None
    config: Position = _NOTHING
    failures: int = 0
    config_due_s: float = 0.0
    """Time of the loop before which `config.data` is sent again only in a hurry."""
    task: "asyncio.Task[None] | None" = None


class Distributor:
    """Sends to all nodes but the master."""

    def __init__(self, nodes: NodesPort) -> None:
        self._nodes = nodes
        self._config_file = Paths().config_file  # without our own root: each node puts it below its own
        self._receivers: dict[str, _Receiver] = {}
        self._newest: Published | None = None
        self._source: SsconfSource | None = None
        self._background = Background()
        self._moved = asyncio.Condition()
        self._hurried: Position = _NOTHING
        """Up to here nothing is held back."""

    def publish(self, published: Published) -> None:
        """Send this state to whom it concerns; returns at once."""
        if self._newest is not None and self._newest.ssconf is not published.ssconf:
            self._background.start(self._tell_moved(), "telling of new ssconf")
        self._newest = published
        if self._source is not published.source:
            self._source = published.source
            self._take_nodes(published.source)
        for receiver in self._receivers.values():
            if receiver.task is None and self._owed(receiver):
                receiver.task = self._background.start(self._serve(receiver), f"distribution to {receiver.node.name}")

    def _take_nodes(self, source: SsconfSource) -> None:
        online = {
            node.uuid: node for node in source.nodes if not node.offline and node.uuid != source.cluster.master_node
        }
        for uuid in [uuid for uuid in self._receivers if uuid not in online]:
            receiver = self._receivers.pop(uuid)
            if receiver.task is not None:
                receiver.task.cancel()
            self._background.start(self._tell_moved(), "telling of a node that is gone")
        for uuid, node in online.items():
            receiver = self._receivers.setdefault(uuid, _Receiver(node))
            receiver.node = node

    async def flush(self) -> None:
        """Return when every node has the newest state, or has failed to take it."""
        async with self._moved:
            if self._newest is None:
                return
            wanted = self._hurried = self._newest.position
            self._moved.notify_all()
            await self._moved.wait_for(
                lambda: all(receiver.failures or self._has(receiver, wanted) for receiver in self._receivers.values())
            )

    async def close(self) -> None:
        await self._background.cancel()

    def _owed(self, receiver: _Receiver) -> bool:
        newest = self._newest
        return newest is not None and not self._has(receiver, newest.position)

    def _has(self, receiver: _Receiver, position: Position) -> bool:
        newest = self._newest
        config_is_there = receiver.config >= position or not receiver.node.master_candidate
        return config_is_there and newest is not None and receiver.ssconf == newest.ssconf

    async def _serve(self, receiver: _Receiver) -> None:
        try:
            while (newest := self._newest) is not None and self._owed(receiver):
                if receiver.ssconf == newest.ssconf and not self._config_is_due(receiver):
                    await self._wait_until_due(receiver)
                    continue
                try:
                    await self._send(receiver, newest)
                except Exception as err:
                    if not isinstance(err, GanetiError):
                        _log.exception("Sending to node %s failed by a fault of its own", receiver.node.name)
                    await self._after_failure(receiver, err)
                    continue
                if receiver.failures:
                    _log.info("Node %s has the configuration again", receiver.node.name)
                receiver.failures = 0
                await self._tell_moved()
        finally:
            receiver.task = None

    async def _send(self, receiver: _Receiver, newest: Published) -> None:
        """The configuration first: a candidate that knows of a change in ssconf shall have the change, if not large."""
        uuid = receiver.node.uuid
        if receiver.node.master_candidate and receiver.config < newest.position and self._config_is_due(receiver):
            begun_s = self._now_s()
            size_bytes, content = _size_bytes(newest), TextOfFile(newest.config_file)
            await self._nodes.call(uuid, "upload_file", path=self._config_file, content=content, mode=CONFIG_MODE)
            receiver.config = newest.position
            if size_bytes >= PACED_FROM_BYTES:
                ended_s = self._now_s()
                receiver.config_due_s = ended_s + PAUSE_PER_UPLOAD * (ended_s - begun_s)
        if receiver.ssconf != newest.ssconf:
            values = {key: text for key, text in newest.ssconf.items() if len(text.encode()) <= SIZE_LIMIT_BYTES}
            await self._nodes.call(uuid, "write_ssconf_files", values=values)
            receiver.ssconf = newest.ssconf

    def _config_is_due(self, receiver: _Receiver) -> bool:
        return self._now_s() >= receiver.config_due_s or receiver.config < self._hurried

    async def _wait_until_due(self, receiver: _Receiver) -> None:
        """Until then, until ssconf changes, or until somebody is in a hurry."""
        sent = receiver.ssconf
        with suppress(TimeoutError):
            async with asyncio.timeout(receiver.config_due_s - self._now_s()), self._moved:
                await self._moved.wait_for(
                    lambda: self._config_is_due(receiver) or self._newest is None or self._newest.ssconf != sent
                )

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def _after_failure(self, receiver: _Receiver, error: Exception) -> None:
        receiver.failures += 1
        pause_s = min(RETRY_FIRST_S * 2 ** (receiver.failures - 1), RETRY_LONGEST_S)
        if receiver.failures == 1:
            _log.warning("Node %s did not take the configuration, trying again: %s", receiver.node.name, error)
        await self._tell_moved()
        await asyncio.sleep(pause_s)

    async def _tell_moved(self) -> None:
        async with self._moved:
            self._moved.notify_all()


def _size_bytes(published: Published) -> int:
    try:
        return os.stat(published.config_file).st_size
    except OSError as err:
        raise ConfigurationError(f"{published.config_file} cannot be read: {err.strerror}") from err
