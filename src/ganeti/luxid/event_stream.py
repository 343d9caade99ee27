# SPDX-License-Identifier: BSD-2-Clause
"""`Subscribe` over LUXI: configuration, job, lock and node events from a position on, each once and in order.

Why nothing is missed between a snapshot and the stream: both come from one thread. A snapshot is built, and the
number of the newest event taken as the reader's place in the log, without an await in between; everything that happens
later gets a higher number, and a reader is given all of its kinds above its place (`master/events/log.py`). What feeds
the log changes LuxiD's own copy (queue, configuration, lock mirror) and appends the event in one go as well, so a
snapshot holds what is told up to its position and nothing else.

Nothing is recorded until somebody subscribes, nor some minutes after the last one has left: then positions given before
are too old. A follower of the configuration alone need not mind, nor that LuxiD was restarted: what it missed is read
from WConfD's own stream.

A slow subscriber costs its socket's buffer and no more: what it has not taken stays in the one log, and when it lags by
more than that holds (`BYTES_KEPT`, `EVENTS_KEPT`) it is dropped.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Protocol

from ganeti.base.errors import ParameterError
from ganeti.calls.config_backlog import missed_commits
from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.serving import Reads
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.luxid.lock_feed import LockFeed
from ganeti.luxid.queue.driver import QueueDriver
from ganeti.master.events.config_changes import ConfigStep, config_rows, node_rows
from ganeti.master.events.job_changes import JobChanges, job_rows
from ganeti.master.events.log import CONFIG, JOB, LOCK, NODE, EventLog, encode_event, read_kinds
from ganeti.master.events.positions import EventPosition, read_event_position
from ganeti.master.query.collecting import NodeAsker
from ganeti.model.configuration import Configuration
from ganeti.model.traits import Catalogue
from ganeti.wire.framing import Connection, encode
from ganeti.wire.job_file import JobFile

_log = logging.getLogger(__name__)
SUBSCRIBE = "Subscribe"
_LINGER_S = 300.0
"""How long events are recorded after the last subscriber left: it may come back with its position."""
_CHUNK_BYTES = 256 * 1024
_SEND_TIMEOUT_S = 180.0
_OPTIONS = {"snapshot"}

Fields = dict[str, Any]


def _with_snapshot(options: Any) -> bool:
    if options is None:
        options = {}
    if not isinstance(options, dict) or set(options) - _OPTIONS or not isinstance(options.get("snapshot", False), bool):
        raise ParameterError('The options of a subscription are {"snapshot": true or false}, or null')
    return bool(options.get("snapshot", False))


_ALL_KINDS = read_kinds(None)
Kinds = Annotated[frozenset[str], Reads(read_kinds)]
From = Annotated[EventPosition | None, Reads(lambda value: None if value is None else read_event_position(value))]
WithSnapshot = Annotated[bool, Reads(_with_snapshot)]


class JobsOfQueue(Protocol):
    """What the queue can tell about all jobs at once."""

    def unfinished_files(self) -> Iterable[JobFile]: ...

    def ended_statuses(self) -> Mapping[int, str]: ...


class QueueJobs:
    """The jobs of a queue driver."""

    def __init__(self, queue: QueueDriver) -> None:
        self._machine = queue.machine

    def unfinished_files(self) -> Iterable[JobFile]:
        return [job.file for job in self._machine.jobs.values()]

    def ended_statuses(self) -> Mapping[int, str]:
        return {job_id: ended.status for job_id, ended in self._machine.ended.items()}


class _Reader:
    """A subscriber: which kinds it wants, and the number of the last event it was given."""

    def __init__(self, kinds: frozenset[str]) -> None:
        self.kinds = kinds
        self.number = 0


class EventHub:
    """Takes in what happens, and serves `Subscribe`."""

    def __init__(
        self,
        jobs: JobsOfQueue,
        follower: ConfigFollower,
        catalogue: Catalogue,
        wconfd_socket: str,
        silent_nodes: Callable[[], Iterable[str]] = tuple,
        event_log: EventLog | None = None,
    ) -> None:
        self.log = event_log or EventLog(secrets.token_hex(6))
        self._jobs = jobs
        self._follower = follower
        self._catalogue = catalogue
        self._wconfd = WConfdClient(wconfd_socket)
        self._silent_nodes = silent_nodes
        self._job_changes = JobChanges()
        self._locks = LockFeed(wconfd_socket, self._locks_known, self._lock_changed)
        self._readers: dict[_Reader, None] = {}
        self._recording = False
        self._moved: asyncio.Future[None] | None = None
        self._rest_timer: asyncio.TimerHandle | None = None

    # What happens

    def job_changed(self, file: JobFile | None, job_id: int) -> None:
        """Something a client can see of this job has changed; *file* is None when it was archived."""
        if self._recording:
            for fields in self._job_changes.changed(file, job_id):
                self._append(JOB, fields)

    def config_coming(self, event: dict[str, Any]) -> Callable[[], None]:
        """An event of WConfD's stream is about to be taken in; call the result when it has been."""
        if not self._recording:
            return _nothing
        try:
            step = ConfigStep(event, self._follower.configuration, self._catalogue)
        except (KeyError, TypeError, ValueError):
            return _nothing  # its reader refuses it
        return lambda: self._config_changed(step)

    def node_asked(self, uuid: str, answered: bool) -> None:
        """A node answers again, or does not any more."""
        node = self._follower.configuration.get("nodes", uuid)
        if self._recording and node is not None:
            what = "reachable" if answered else "unreachable"
            self._append(NODE, {"what": what, "uuid": uuid, "name": getattr(node, "name", None)})

    def _config_changed(self, step: ConfigStep) -> None:
        after: Configuration = self._follower.configuration
        if after.position == self.log.commit or not self._recording:
            return
        fields, node_events = step.events(after)
        self._append(CONFIG, fields, after.position)
        for node_fields in node_events:
            self._append(NODE, node_fields)

    def _locks_known(self) -> None:
        """The stream of locks has begun: what happened before is unknown."""
        self.log.lose([LOCK])

    def _lock_changed(self, fields: Fields) -> None:
        self._append(LOCK, fields)

    def _append(self, kind: str, fields: Fields, commit: tuple[int, int] | None = None) -> None:
        self.log.append(kind, time.time(), fields, commit)
        moved, self._moved = self._moved, None
        if moved is not None and not moved.done():
            moved.set_result(None)

    # Recording only while it is of use

    def _record(self) -> None:
        if not self._recording:
            self.log.commit = self._follower.position
            unfinished = list(self._jobs.unfinished_files())
            ids = (*self._jobs.ended_statuses(), *(file.id for file in unfinished))
            self._job_changes.adopt(unfinished, max(ids, default=0))
            self._recording = True

    def _rest_later(self) -> None:
        if self._rest_timer is not None:
            self._rest_timer.cancel()
        self._rest_timer = asyncio.get_running_loop().call_later(_LINGER_S, self._rest)

    def _rest(self) -> None:
        if not any(LOCK in reader.kinds for reader in self._readers):
            self._locks.stop()
        if not self._readers:
            self._recording = False
            self._job_changes.adopt([], 0)
            self.log.clear()

    async def close(self) -> None:
        if self._rest_timer is not None:
            self._rest_timer.cancel()
        await self._locks.close()

    # Subscribers

    async def serve(
        self,
        connection: Connection,
        kinds: Kinds = _ALL_KINDS,
        position: From = None,
        snapshot: WithSnapshot = False,
    ) -> None:
        """The call `Subscribe`. The connection is a stream from then on, until either side ends it.

        Raises `GanetiError` where locks cannot be followed.
        """
        reader = _Reader(kinds)
        self._readers[reader] = None
        try:
            if LOCK in kinds:
                await self._locks.ready()
            self._record()
            begin, first = await self._begin(reader, position, snapshot)
            answer = {"success": True, "result": {"position": str(begin), "kinds": sorted(kinds)}}
            await self._stream(connection, reader, encode(answer) + first)
        finally:
            del self._readers[reader]
            self._rest_later()

    async def _begin(
        self, reader: _Reader, position: EventPosition | None, snapshot: bool
    ) -> tuple[EventPosition, bytes]:
        """Set where the reader begins; gives that position, and what goes before the first event."""
        if position is None or snapshot:
            return self._begin_now(reader, snapshot)
        if position.life == self.log.life and self.log.reaches(position.number, reader.kinds):
            reader.number = position.number
            return position, b""
        if reader.kinds == {CONFIG}:
            number, goal = self.log.number, self.log.commit
            missed = await missed_commits(self._wconfd, position, goal)
            if missed is not None and self.log.reaches(number, reader.kinds):
                reader.number = number
                return position, missed
        return self._begin_now(reader, True)

    def _begin_now(self, reader: _Reader, snapshot: bool) -> tuple[EventPosition, bytes]:
        """Begin at the newest event. Without an await: see the head of this module."""
        reader.number = self.log.number
        return self.log.position, self._snapshot(reader.kinds) if snapshot else b""

    def _snapshot(self, kinds: frozenset[str]) -> bytes:
        config = self._follower.configuration
        fields: Fields = {}
        if CONFIG in kinds:
            fields[CONFIG] = {"commit": list(config.position), "objects": config_rows(config)}
        if JOB in kinds:
            fields[JOB] = job_rows(self._jobs.unfinished_files(), self._jobs.ended_statuses())
        if LOCK in kinds:
            fields[LOCK] = self._locks.mirror.state()
        if NODE in kinds:
            fields[NODE] = node_rows(config, self._catalogue, self._silent_nodes())
        return encode_event("snapshot", self.log.position, time.time(), fields)

    async def _stream(self, connection: Connection, reader: _Reader, first: bytes) -> None:
        writing = asyncio.ensure_future(self._write(connection, reader, first))
        ended = asyncio.ensure_future(connection.ended())
        try:
            await asyncio.wait((writing, ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            writing.cancel()
            ended.cancel()
            await asyncio.gather(writing, ended, return_exceptions=True)
            connection.abort()

    async def _write(self, connection: Connection, reader: _Reader, first: bytes) -> None:
        """Send what there is, wait for more; returns when the subscriber has fallen too far behind."""
        data = first
        while True:
            try:
                async with asyncio.timeout(_SEND_TIMEOUT_S):
                    await connection.send_bytes(data)
            except TimeoutError:
                break
            chunk = self.log.after(reader.number, reader.kinds, _CHUNK_BYTES)
            while chunk is not None and not chunk.data:
                reader.number = chunk.number
                await self._more()
                chunk = self.log.after(reader.number, reader.kinds, _CHUNK_BYTES)
            if chunk is None:
                break
            reader.number, data = chunk.number, chunk.data
        _log.warning("a subscriber of events is dropped, as it does not read them; it may continue from its position")

    async def _more(self) -> None:
        """Wait until an event is appended."""
        if self._moved is None:
            self._moved = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._moved)


def _nothing() -> None:
    """There is nobody to tell."""


def feed(hub: EventHub, queue: QueueDriver, follower: ConfigFollower, asker: NodeAsker) -> None:
    """Have the hub told of everything."""
    queue.observers.append(hub.job_changed)
    follower.observers.append(hub.config_coming)
    asker.observers.append(hub.node_asked)
