# SPDX-License-Identifier: BSD-2-Clause
"""The copy of a master candidate while it is open: the database, its form in memory, and their publication.

Invariant: the form, with the records that are not acknowledged yet upon it, is what the database holds. The fingerprint
each record comes with is checked before anything is written, so a record that does not fit changes nothing. Calls are
made one at a time.

What is published is the form, and only once the master has said that it is acknowledged: what is not may be taken back
by the next master. It says so with position and fingerprint, for a copy may hold a former master's records. A daemon
that begins does not know what was acknowledged, so it publishes nothing until it is told.
"""

import base64
import binascii
import logging
import os
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec

from ganeti.base.errors import ConfigurationError, GanetiError
from ganeti.base.paths import Paths
from ganeti.master.config.fingerprint import Ahead
from ganeti.master.config.publication import PublishedForm
from ganeti.master.config.records import Commit, ObjectKey, Position, Put, StepAnswer
from ganeti.model.configuration import Configuration
from ganeti.model.membership import Membership
from ganeti.model.objects import CONTAINERS, KINDS, SINGLES
from ganeti.model.replica_records import Acknowledged, CommitRecord, WireStep, answer_of, fragment_of
from ganeti.node.promises import established_epoch
from ganeti.node.ssconf import NewestSsconf
from ganeti.noded.replica_publication import ReplicaPublication, file_digest
from ganeti.ports.replica import DAMAGED, GAP, SOFTWARE
from ganeti.stores.replica_fault import ReplicaFaultError
from ganeti.stores.replica_store import Content, Marks, ReplicaStore
from ganeti.system.boot import kernel_boot_id
from ganeti.system.pause_points import reach

_log = logging.getLogger(__name__)
InTurn = Callable[..., Awaitable[Any]]
"""Does work in the one thread that has the disk."""


class ReplicaCopy:
    """One open copy."""

    def __init__(
        self, paths: Paths, store: ReplicaStore, content: Content, in_turn: InTurn, newest_ssconf: NewestSsconf
    ) -> None:
        self._paths = paths
        self._newest_ssconf = newest_ssconf
        self._store = store
        self._in_turn = in_turn
        self.membership = content.membership
        self._form: PublishedForm | None = None
        """What is acknowledged, or what was found: nobody has said yet what of that is."""
        self._pending: deque[Commit] = deque()
        """Records that are on disk and not known to be acknowledged."""
        self._boot = ""
        self._known_files: tuple[str, ...] = ()
        """Fingerprints of a `config.data` that WConfD takes for its own when it opens the database."""
        self._publication: ReplicaPublication | None = None
        self._marks: tuple[Position, Marks] | None = None
        """What was told last, and as of which change of what it tells."""
        self._digest: tuple[Position, str] | None = None
        if content.loaded is not None:
            loaded = content.loaded
            self._known_files = loaded.published
            self._boot = loaded.boot
            self._set_form(PublishedForm(loaded.config, loaded.fragments, loaded.mtime_s))

    def _set_form(self, form: PublishedForm) -> None:
        self._form = form
        self._ahead = Ahead(form.fingerprint)
        self._pending.clear()
        self._marks, self._digest = None, None

    @property
    def position(self) -> Position | None:
        """Of the newest record on disk."""
        if self._pending:
            return self._pending[-1].position
        return None if self._form is None else self._form.position

    @property
    def digest(self) -> str:
        """Fingerprint of the configuration on disk."""
        return self._pending[-1].digest if self._pending else self._form_digest

    @property
    def _form_digest(self) -> str:
        form = self._form
        if form is None:
            return ""
        if self._digest is None or self._digest[0] != form.position:
            self._digest = form.position, form.digest
        return self._digest[1]

    def marks(self, node_name: str) -> Marks:
        """See `glance`."""
        established = established_epoch(self.position, None if self.membership is None else self.membership.version)
        if self._form is None:
            return Marks(established=established)
        if self._marks is None or self._marks[0] != self._form.ssconf_position:
            source = self._form.ssconf_source()
            own = next((node for node in source.nodes if node.name == node_name), None)
            marks = Marks(source.cluster.uuid)
            if own is not None:
                marks = Marks(source.cluster.uuid, own.uuid, own.master_candidate)
            self._marks = (self._form.ssconf_position, marks)
        if self._marks[1].established != established:
            self._marks = (self._marks[0], replace(self._marks[1], established=established))
        return self._marks[1]

    async def check_writing(self) -> None:
        """Raise `ConfigurationError` where the disk takes nothing: writes what is there.

        That it is used in this run of the machine is noted when publication begins: until then, an older `config.data`
        may lie there that a loss of power has left.
        """
        if self._form is not None:
            await self._in_turn(self._store.begin_use, self._boot)

    async def acknowledge(self, acknowledged: Acknowledged | None) -> None:
        """Publish what is acknowledged, if this copy holds it. Raises `ConfigurationError`."""
        if self.acknowledge_at_once(acknowledged) or self._form is None:
            return
        found = await self._in_turn(file_digest, self._paths)
        await self._in_turn(self._store.begin_use, kernel_boot_id())
        self._publication = ReplicaPublication(self._paths, self._form, found, self._newest_ssconf)

    def acknowledge_at_once(self, acknowledged: Acknowledged | None) -> bool:
        """Take in what is acknowledged; gives False if publication is to begin now, which takes the disk."""
        form = self._form
        if acknowledged is None or form is None:
            return True
        if acknowledged != (form.position, self._form_digest):
            if all(acknowledged != (commit.position, commit.digest) for commit in self._pending):
                return True
            while self._pending and self._pending[0].position <= acknowledged[0]:
                form.apply(self._pending.popleft())
            if not self._pending:
                self._ahead.reset()
            if self._publication is not None:
                self._publication.notify()
        return self._publication is not None

    async def append(
        self,
        after: Position,
        records: Sequence[CommitRecord],
        membership: Membership | None,
        ended_jobs: Sequence[int],
        write_first: Callable[[], None],
    ) -> None:
        """Make records and a membership durable, after *write_first* has been done in the same turn.

        Raises `ReplicaFaultError` if they do not fit or the disk fails, `OSError` and `GanetiError` of *write_first*.
        """
        commits = self._fitting(after, records) if records else []
        newer = self._newer(membership)

        def write() -> None:
            write_first()
            if commits or newer is not None or ended_jobs:
                self._store.apply(commits, newer, ended_jobs)

        try:
            await self._in_turn(write)
        except BaseException:
            if commits:
                self._ahead.reset(self._pending)
            raise
        reach("replica-applied")
        if newer is not None:
            self.membership = newer
        self._pending.extend(commit for commit in commits if commit.changes_objects)
        await self._maintain()

    async def restore(
        self,
        position: Position,
        data: bytes,
        steps: Sequence[WireStep],
        membership: Membership | None,
        digest: str,
    ) -> None:
        """Replace everything; raises `ReplicaFaultError` for a configuration that is not what *digest* says.

        One of this epoch that is older than the copy was under way for long: what has come since was acknowledged.
        """
        held = self.position
        if held is not None and held[0] == position[0] and held[1] > position[1]:
            raise ReplicaFaultError(GAP, f"This copy holds {_text(held)} already, and {_text(position)} came")
        found = await self._in_turn(file_digest, self._paths)
        config, commit = await self._in_turn(read_whole, position, data, digest, found or "")
        fragments = {(put.kind, put.uuid): put.data for put in commit.puts}
        form = PublishedForm(config, fragments, commit.time_s)
        if form.digest != digest:
            raise ReplicaFaultError(DAMAGED, "The configuration that came is not what its fingerprint says")
        newer = self._newer(membership)
        await self._stop_publication(settle=False)
        await self._in_turn(self._store.restore, commit, [_step_of(step) for step in steps], newer)
        reach("replica-restored")
        self._set_form(form)
        self._known_files = (found or "", digest)
        self.membership = newer or self.membership
        await self._maintain()

    async def keep_members(self, membership: Membership) -> None:
        newer = self._newer(membership)
        if newer is not None:
            await self._in_turn(self._store.apply, [], newer)
            self.membership = newer

    async def flush(self) -> None:
        """Return when what is acknowledged is published."""
        if self._publication is not None:
            await self._publication.flush()

    async def close(self, *, settle: bool) -> None:
        """Close the database; with *settle* for WConfD, which is to find `config.data` as the database has it."""
        is_published = self._publication is not None
        mark = await self._stop_publication(settle=settle)
        try:
            if settle and not is_published:
                await self._in_turn(self._remove_unknown_file)
            if mark is not None:
                await self._in_turn(self._store.end_use, mark)
        except ConfigurationError as err:
            _log.warning("%s", err)
        finally:
            await self._in_turn(self._store.close)

    async def _stop_publication(self, *, settle: bool) -> Any:
        publication, self._publication = self._publication, None
        return None if publication is None else await publication.close(settle=settle)

    def _remove_unknown_file(self) -> None:
        """WConfD would take it for an administrator's, and there is nothing acknowledged to write in its place."""
        found = file_digest(self._paths)
        if found is not None and found not in self._known_files:
            _log.warning("%s is not what this copy has published: it is removed", self._paths.config_file)
            with suppress(OSError):
                os.unlink(self._paths.config_file)

    async def _maintain(self) -> None:
        if self._store.wants_maintenance:
            await self._in_turn(self._store.maintain)

    def _newer(self, membership: Membership | None) -> Membership | None:
        known = self.membership
        if membership is None or (known is not None and membership.version <= known.version):
            return None
        return membership

    def _fitting(self, after: Position, records: Sequence[CommitRecord]) -> list[Commit]:
        """The commits of records that continue this copy; raises `ReplicaFaultError` for others."""
        held = self.position
        if held is None or held != after:
            told = "nothing" if held is None else _text(held)
            raise ReplicaFaultError(GAP, f"The records begin after {after[0]}.{after[1]}, and this copy holds {told}")
        mark = None if self._publication is None else self._publication.mark
        commits = [replace(commit_of(record), published=mark) for record in records]
        try:
            self._check(after, commits)
        except ReplicaFaultError:
            self._ahead.reset(self._pending)
            raise
        return commits

    def _check(self, after: Position, commits: Sequence[Commit]) -> None:
        position = after
        for commit in commits:
            if not commit.changes_objects:
                continue
            follows = commit.position == (position[0], position[1] + 1) or commit.position[0] > position[0]
            new = {(put.kind, put.uuid) for put in commit.puts}
            if not follows or not all(key in new or self._ahead.holds(key) for key in commit.removes):
                raise ReplicaFaultError(GAP, f"Record {_text(commit.position)} does not follow {_text(position)}")
            if self._ahead.sign([commit]) != [commit.digest]:
                raise ReplicaFaultError(
                    DAMAGED, f"With record {_text(commit.position)}, this copy is not what the master has"
                )
            position = commit.position


def commit_of(record: CommitRecord) -> Commit:
    """Raises `ReplicaFaultError` for objects this release cannot read."""
    puts = tuple(_put_of(kind, uuid, fragment_of(plain), plain) for kind, uuid, plain in record.put)
    step = None if record.step is None else _step_of(record.step)
    removes: tuple[ObjectKey, ...] = tuple(record.remove)
    return Commit(record.position, record.time_s, puts, removes, step, digest=record.digest)


def read_whole(position: Position, data: bytes, digest: str, file_found: str) -> tuple[Configuration, Commit]:
    """Read a compressed `config.data` tolerantly, keeping each fragment as it stands there.

    *file_found* is the fingerprint of the `config.data` on this node's disk, which this commit makes outdated: WConfD
    must not take it for an administrator's. Raises `ReplicaFaultError`.
    """
    try:
        plain = zlib.decompress(base64.b64decode(data, validate=True))
        top = msgspec.json.decode(plain, type=dict[str, msgspec.Raw])
        fragments = [(kind, key, bytes(top[kind])) for kind, key in SINGLES.items() if kind in top or kind == "cluster"]
        for kind in CONTAINERS:
            if kind in top:
                entries = msgspec.json.decode(top[kind], type=dict[str, msgspec.Raw])
                fragments += [(kind, uuid, bytes(entry)) for uuid, entry in entries.items()]
        header = {key: msgspec.json.decode(value) for key, value in top.items() if key not in KINDS}
        puts = tuple(_put_of(kind, uuid, raw, msgspec.json.decode(raw)) for kind, uuid, raw in fragments)
        time_s = float(header.get("mtime", 0.0))
    except (
        binascii.Error,
        zlib.error,
        msgspec.DecodeError,
        UnicodeDecodeError,
        KeyError,
        TypeError,
        ValueError,
    ) as err:
        raise ReplicaFaultError(
            DAMAGED, f"The configuration that came cannot be read: {type(err).__name__}: {err}"
        ) from err
    config = Configuration()
    config.header = header
    config.position = position
    for put in puts:
        config.put(put.kind, put.uuid, put.obj)
    commit = Commit(position, time_s, puts, whole=True, header=header, imported_digest=file_found, digest=digest)
    return config, commit


def _put_of(kind: str, uuid: str, data: bytes, plain: Any) -> Put:
    try:
        return Put(kind, uuid, KINDS[kind].from_plain(plain), data)
    except (KeyError, AttributeError, TypeError, GanetiError) as err:
        raise ReplicaFaultError(
            SOFTWARE, f"This release cannot read the object {kind}/{uuid}: {type(err).__name__}: {err}"
        ) from err


def _step_of(step: WireStep) -> StepAnswer:
    job, attempt, number, settles, lock_file, answer = step
    return StepAnswer(job, attempt, number, settles, lock_file, answer_of(answer))


def _text(position: Position) -> str:
    return f"{position[0]}.{position[1]}"
