# SPDX-License-Identifier: BSD-2-Clause
"""The lock table at work: on disk before anyone is told, freed when its owners die (S2.12, S2.13, S2.30).

`locks.data` is written, without fsync, before a call is answered: a restart of the daemon loses no lock, and no lock
survives the machine. Calls of one turn of the loop share one write.

Owners die without saying so. Those that keep somebody waiting are probed every few seconds, all of them now and then.
A dead job with undo records keeps its locks until its successor takes them over (D5).
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

import msgspec

from ganeti.base.errors import GanetiError, LockError
from ganeti.master.locks import snapshot
from ganeti.master.locks.owners import Owner
from ganeti.master.locks.state import Request
from ganeti.master.locks.table import Change, LockTable
from ganeti.runtime.files import read_if_there, write_atomically
from ganeti.runtime.livelock import is_alive

_log = logging.getLogger(__name__)
PROBE_BLOCKERS_EVERY_S = 2.0
PROBE_ALL_EVERY_S = 311.0


def load_table(path: str) -> LockTable:
    """Read `locks.data`; raises `LockError` if it cannot be understood."""
    data = read_if_there(path)
    if data is None:
        return LockTable()
    try:
        plain = msgspec.json.decode(data)
    except msgspec.DecodeError as err:
        raise LockError(f"{path} is not JSON ({err}): remove the file once no job runs") from err
    return snapshot.from_plain(plain)


class LockService:
    """One table, its file, and those who wait."""

    def __init__(self, table: LockTable, path: str, has_undo_records: Callable[[int], bool]) -> None:
        self.table = table
        self._path = path
        self._has_undo_records = has_undo_records
        self._waiting: dict[Owner, asyncio.Future[None]] = {}
        self._saving: asyncio.Future[None] | None = None

    async def apply(self, change: Change) -> Change:
        """Save the table, then wake those whom *change* has granted something; gives *change* back."""
        await self._save()
        for pending in change.granted:
            _log.info("%s gets %s after waiting", pending.owner, ", ".join(pending.wants))
            waiting = self._waiting.pop(pending.owner, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
        return change

    async def wait(self, owner: Owner, priority: int, request: Request) -> None:
        """Return when the request is granted. Asking again joins the request that waits already.

        Raises `LockError` if the request makes no sense, or was withdrawn meanwhile.
        """
        change = self.table.update_waiting(owner, priority, request)
        if not change.blockers:
            await self.apply(change)
            return
        waiting = self._waiting.get(owner)
        if waiting is None:
            waiting = self._waiting[owner] = asyncio.get_running_loop().create_future()
            _log.info("%s waits for %s", owner, ", ".join(str(blocker) for blocker in change.blockers))
        await self.apply(change)
        await asyncio.shield(waiting)

    async def cancel(self, owner: Owner) -> None:
        change = self.table.cancel(owner)
        self._turn_away(owner, "was withdrawn")
        await self.apply(change)

    async def free(self, *owners: Owner) -> None:
        change = self.table.free(*owners)
        for owner in owners:
            self._turn_away(owner, "was withdrawn when its owner gave up all locks")
        await self.apply(change)

    async def hand_over(self, old: Owner, new: Owner) -> None:
        """Give the locks of a dead owner to its successor; raises `LockError` while the old one lives."""
        if old != new and is_alive(old.lock_file):
            raise LockError(f"{old} is alive (it holds {old.lock_file}): its locks cannot be handed over")
        change = self.table.hand_over(old, new)
        self._turn_away(old, "was withdrawn when its owner's successor took over")
        await self.apply(change)
        _log.info("%s takes over the locks of its predecessor", new)

    async def free_the_dead(self, owners: Iterable[Owner] | None = None) -> list[Owner]:
        """Probe *owners*, or all; gives those that were found dead and freed."""
        dead = [owner for owner in (self.table.owners() if owners is None else owners) if self._is_gone(owner)]
        if dead:
            _log.info("The locks of %s are freed: dead", ", ".join(map(str, dead)))
            await self.free(*dead)
        return dead

    async def watch_owners(self, clean_up: Callable[[], Awaitable[None]]) -> None:
        """Free the dead for ever; *clean_up* looks at all of them and at what else they left."""
        since_all_s = 0.0
        while True:
            await asyncio.sleep(PROBE_BLOCKERS_EVERY_S)
            since_all_s += PROBE_BLOCKERS_EVERY_S
            try:
                if since_all_s >= PROBE_ALL_EVERY_S:
                    since_all_s = 0.0
                    await clean_up()
                else:
                    await self.free_the_dead(self._blockers())
            except (OSError, GanetiError) as err:  # a full disk must not keep the locks of the dead for ever
                _log.error("What dead processes left could not be cleaned up, trying again later: %s", err)

    def _blockers(self) -> list[Owner]:
        """Those in somebody's way, and those who wait."""
        blockers: dict[Owner, None] = {}
        for pending in self.table.waiting():
            blockers[pending.owner] = None
            blockers |= dict.fromkeys(self.table.in_the_way(pending))
        return list(blockers)

    def _is_gone(self, owner: Owner) -> bool:
        """Dead, and nobody will come for its locks. Probed first: once dead, it writes no more records."""
        if is_alive(owner.lock_file):
            return False
        return not (isinstance(owner.name, int) and self._has_undo_records(owner.name))

    def _turn_away(self, owner: Owner, why: str) -> None:
        waiting = self._waiting.pop(owner, None)
        if waiting is not None and not waiting.done():
            waiting.set_exception(LockError(f"The lock request of {owner} {why}"))
            waiting.exception()  # the one who waited may be gone

    async def _save(self) -> None:
        if self._saving is None:
            loop = asyncio.get_running_loop()
            self._saving = loop.create_future()
            loop.call_soon(self._write)
        await asyncio.shield(self._saving)

    def _write(self) -> None:
        saving, self._saving = self._saving, None
        try:
            write_atomically(self._path, msgspec.json.encode(snapshot.to_plain(self.table)), mode=0o640, durable=False)
        except OSError as err:
            _log.error("%s cannot be written, a restart now would lose locks: %s", self._path, err.strerror)
        if saving is not None and not saving.done():
            saving.set_result(None)


def remove_stale_lock_files(directory: str, in_use: set[str]) -> list[str]:
    """Remove lock files that dead processes have left (S2.30), except those in *in_use*; gives their names."""
    stale = [entry.path for entry in os.scandir(directory) if entry.is_file(follow_symlinks=False)]
    stale = [path for path in stale if path not in in_use and not is_alive(path)]
    for path in stale:
        with suppress(FileNotFoundError):
            os.unlink(path)
    return stale


def undo_records_in(queue_dir: str) -> Callable[[int], bool]:
    """Give the question whether a job has undo records left."""

    def has_records(job_id: int) -> bool:
        try:
            return os.stat(f"{queue_dir}/job-{job_id}.undo").st_size > 0
        except FileNotFoundError:
            return False

    return has_records
