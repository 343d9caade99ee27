# SPDX-License-Identifier: BSD-2-Clause
"""The lock table at work: on disk before anyone is told, freed when its owners die (S2.12, S2.13, S2.30).

What a call does is in `locks.data` (`lock_journal`) before it is answered: a restart of the daemon loses no lock. Calls
of one turn of the loop share one write.

Owners die without saying so. Those that keep somebody waiting are probed every few seconds, all of them now and then.
A dead job with undo records keeps its locks until its successor takes them over (D5).
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from ganeti.base.errors import INTERNAL_ERROR, GanetiError, LockError
from ganeti.master.locks import asking
from ganeti.master.locks.asking import Outcome
from ganeti.master.locks.effects import Effect
from ganeti.master.locks.owners import Owner
from ganeti.master.locks.snapshot import Saved
from ganeti.master.locks.state import Request
from ganeti.master.locks.table import Change
from ganeti.stores.lock_journal import LockJournal
from ganeti.system.livelock import attempt_of, is_alive

_log = logging.getLogger(__name__)
PROBE_BLOCKERS_EVERY_S = 2.0
PROBE_ALL_EVERY_S = 311.0
_NAMED = 20
"""How many of the dead the log names."""


@dataclass(slots=True)
class News:
    """What the calls of one turn of the loop did; told when it is on disk.

    granted: owners whose waiting requests were granted, unless the owner's own call said so in its answer.
    """

    serial: int
    time_s: float = 0.0
    granted: list[Owner] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)


class Lack:
    """Tells the log when a file cannot be written, and when it can again, though it is tried every two seconds."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._told: str | None = None

    def tell(self, why: str | None) -> None:
        """*why* the last try failed; None if it did not."""
        if why is not None and why != self._told:
            _log.error("%s cannot be written: %s", self._path, why)
        elif why is None and self._told is not None:
            _log.info("%s can be written again", self._path)
        self._told = why


class LockService:
    """One table, its file, and those who wait."""

    def __init__(
        self,
        saved: Saved,
        path: str,
        has_undo_records: Callable[[int], bool],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.table, self.times = saved
        self.listeners: dict[Callable[[News], None], None] = {}
        self._path = path
        self._journal = LockJournal(path, saved)
        self._has_undo_records = has_undo_records
        self._now_s = now_s
        self._waiting: dict[Owner, asyncio.Future[None]] = {}
        self._news = News(1)
        self._saving: asyncio.Future[None] | None = None
        self._lack = Lack(self._path)
        self.choosers: dict[asyncio.Future[None], None] = {}

    async def apply(self, change: Change) -> Change:
        """Give *change* back when it is on disk, and those whom it has granted something have been told.

        Raises `LockError` if it cannot be written: nobody may act upon it yet. It stays, so asking again is harmless.
        """
        self._note(change)
        await self.saved()
        return change

    async def give_up(self, change: Change) -> None:
        """As `apply` for what never fails. What cannot be written now is written, and told to others, later."""
        self._note(change)
        with suppress(LockError):
            await self.saved()

    async def saved(self) -> None:
        """Return when all that was noted is on disk and told; raises `LockError` if it cannot be written."""
        if self._saving is None and self._news.effects:
            self._begin_saving()
        if self._saving is not None:
            await asyncio.shield(self._saving)

    def ask(self, owner: Owner, priority: int, request: Request) -> Outcome:
        """See `asking.ask`; wait for `saved` before telling anybody. A grant that comes later is `News`."""
        before = self.table.pending(owner)
        outcome = asking.ask(self.table, owner, priority, request)
        after = self.table.pending(owner)
        if before is not None and (after is None or after.arrival != before.arrival):
            self._turn_away(owner, "was replaced by another one")
        self._note(outcome[0])
        return outcome

    async def claim(self, old: Owner | None, new: Owner, priority: int, request: Request) -> Outcome:
        """See `asking.claim`."""
        outcome = asking.claim(self.table, old, new, priority, request)
        if old is not None and not self.table.has_pending(old):
            self._turn_away(old, "was withdrawn when its owner's process took over")
        await self.apply(outcome[0])
        return outcome

    async def change_priority(self, owner: Owner, priority: int) -> bool:
        """Move a waiting request (S1.84); False if there is none."""
        pending = self.table.pending(owner)
        if pending is None:
            return False
        if pending.priority != priority:
            change = self.table.change_priority(owner, priority)
            if not change.blockers:  # its new place lets it pass at once: the caller learns that from the grant
                change = change._replace(granted=(pending, *change.granted))
            await self.apply(change)
        return True

    async def take_some(self, owner: Owner, request: Request, at_least: int, timeout_s: float) -> tuple[str, ...]:
        """Take as many of the locks as can be had in order, as soon as these are *at_least* so many (S2.52).

        After *timeout_s* gives nothing. Looks at holders only and so overtakes those who wait.
        """
        taken = self.table.opportunistic_union(owner, request, at_least)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while len(taken.acquired) < at_least:
                    await self._something_freed()
                    if not is_alive(owner.lock_file):
                        raise LockError(f"{owner} died while it waited for locks")
                    taken = self.table.opportunistic_union(owner, request, at_least)
        return (await self.apply(taken)).acquired

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
        await self.give_up(change)

    async def free(self, *owners: Owner) -> None:
        self._free(*owners)
        with suppress(LockError):
            await self.saved()

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
        dead = self._free_dead(self.table.owners() if owners is None else owners)
        with suppress(LockError):
            await self.saved()
        return dead

    def free_if_dead(self, lock_file: str) -> None:
        """The owner of this lock file may have died just now."""
        self._free_dead(owner for owner in self.table.owners() if owner.lock_file == lock_file)

    @property
    def serial(self) -> int:
        """The number of the last news that were told."""
        return self._news.serial - 1

    async def watch_owners(self, clean_up: Callable[[], Awaitable[None]]) -> None:
        """Free the locks of dead owners until cancelled; *clean_up* looks at all owners and at what else they left."""
        since_all_s = 0.0
        try:
            while True:
                await asyncio.sleep(PROBE_BLOCKERS_EVERY_S)
                since_all_s += PROBE_BLOCKERS_EVERY_S
                everyone = since_all_s >= PROBE_ALL_EVERY_S
                since_all_s = 0.0 if everyone else since_all_s
                try:
                    await (clean_up() if everyone else self.free_the_dead(self.table.owners_concerned()))
                except (OSError, GanetiError) as err:  # a full disk must not keep the locks of the dead for ever
                    _log.error("What dead processes left could not be cleaned up, trying again later: %s", err)
        finally:
            self._end_journal()

    def _free_dead(self, owners: Iterable[Owner]) -> list[Owner]:
        """Each lock file is probed once, however many owners it has."""
        alive: dict[str, bool] = {}
        dead = []
        for owner in owners:
            if owner.lock_file not in alive:
                alive[owner.lock_file] = is_alive(owner.lock_file)
            if not alive[owner.lock_file] and not self._awaits_successor(owner):
                dead.append(owner)
        if dead:
            others = f" and {len(dead) - _NAMED} others" if len(dead) > _NAMED else ""
            _log.info("The locks of %s%s are freed: dead", ", ".join(map(str, dead[:_NAMED])), others)
            self._free(*dead)
        return dead

    def _awaits_successor(self, owner: Owner) -> bool:
        """A dead attempt of a job that left undo records. Probed first: once dead, it writes no more of them.

        What LuxiD asked for in the name of a job is not held by an attempt: nobody comes for it.
        """
        if not isinstance(owner.name, int) or attempt_of(owner.lock_file) is None:
            return False
        return self._has_undo_records(owner.name)

    def _free(self, *owners: Owner) -> None:
        change = self.table.free(*owners)
        for owner in owners:
            self._turn_away(owner, "was withdrawn when its owner gave up all locks")
        self._note(change)

    async def _something_freed(self) -> None:
        chooser = asyncio.get_running_loop().create_future()
        self.choosers[chooser] = None
        try:
            await chooser
        finally:
            self.choosers.pop(chooser, None)

    def _wake_choosers(self) -> None:
        for chooser in self.choosers:
            if not chooser.done():
                chooser.set_result(None)

    def _turn_away(self, owner: Owner, why: str) -> None:
        waiting = self._waiting.pop(owner, None)
        if waiting is not None and not waiting.done():
            waiting.set_exception(LockError(f"The lock request of {owner} {why}"))
            waiting.exception()  # the one who waited may be gone

    def _note(self, change: Change) -> None:
        """Remember what a call did, to be written and told at the end of this turn of the loop."""
        if self._saving is None:
            self._begin_saving()
        effects = self.table.take_effects()
        self.times.note(effects, self._news.time_s)
        self._news.effects.extend(effects)
        for pending in change.granted:
            _log.info("%s gets %s after waiting", pending.owner, ", ".join(pending.wants))
            self._news.granted.append(pending.owner)
        if change.weakened:
            self._wake_choosers()

    def _begin_saving(self) -> None:
        loop = asyncio.get_running_loop()
        self._saving = loop.create_future()
        self._news.time_s = self._now_s()
        loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what was noted, then tell those concerned. What cannot be written is told when it can."""
        saving, self._saving = self._saving, None
        if saving is None:
            return
        news = self._news
        try:
            if news.effects:
                self._journal.write(news.time_s, news.effects)
        except OSError as err:
            self._lack.tell(err.strerror or str(err))
            if not saving.done():
                saving.set_exception(
                    LockError(f"{self._path} cannot be written ({err.strerror}): see that its file system has room")
                )
                saving.exception()  # perhaps nobody waits for it
            return
        self._lack.tell(None)
        self._news = News(news.serial + 1)
        for owner in news.granted:
            waiting = self._waiting.pop(owner, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
        for listener in list(self.listeners):
            try:
                listener(news)
            except Exception:
                _log.exception("A follower of the locks gets no more events because of %s", INTERNAL_ERROR)
                self.listeners.pop(listener, None)
        if not saving.done():
            saving.set_result(None)

    def _end_journal(self) -> None:
        """This daemon ends: leave the file short, so that the next one begins soon."""
        self.flush()
        with suppress(OSError):
            self._journal.write_whole()
        self._journal.close()


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
