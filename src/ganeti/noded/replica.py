# SPDX-License-Identifier: BSD-2-Clause
"""This node's copy of configuration and queue, and its promises: what is asked, whether it may be, and who does it.

The database is opened for writing only while another node is the master: before this node promises itself to itself,
it is closed, for WConfD opens it then. One request at a time; one that has begun is finished though its caller goes.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from ganeti.base import version
from ganeti.base.clocks import clock_fault
from ganeti.base.errors import GanetiError
from ganeti.base.paths import Paths
from ganeti.model.membership import Membership
from ganeti.model.node_calls.mastership import MasterEnded
from ganeti.model.replica_records import Acknowledged, Caller, CommitRecord, Position, WireStep
from ganeti.node.promises import Promise, established_epoch, refusal_sentence
from ganeti.noded.replica_place import ReplicaPlace
from ganeti.ports.replica import CLOCK, CLUSTER, DAMAGED, DISK, EPOCH, GAP, MASTER, SOFTWARE, Answer
from ganeti.stores.replica_fault import ReplicaFaultError
from ganeti.system.event_loop import Background
from ganeti.system.livelock import is_alive

if TYPE_CHECKING:
    from ganeti.noded.replica_copy import ReplicaCopy
    from ganeti.stores.replica_store import Marks

_log = logging.getLogger(__name__)


class PromiseKeeper(Protocol):
    """Who keeps the promise durable (`NodeCalls`)."""

    @property
    def promise(self) -> Promise: ...

    def keep_promise(self, promise: Promise) -> None:
        """Raises `NodeCallError`."""
        ...


class Replica:
    """`ReplicaPort` of this node."""

    def __init__(self, paths: Paths, node_name: str, keeper: PromiseKeeper, now_s: Callable[[], float]) -> None:
        self._paths = paths
        self._background = Background()
        self._daemons = _MasterDaemons(paths, self._background)
        self._node_name = node_name
        self._keeper = keeper
        self._now_s = now_s
        self._place = ReplicaPlace(paths, node_name, now_s)
        self.newest_ssconf = self._place.newest_ssconf
        """Held by everything that writes ssconf here."""
        self._turn = asyncio.Lock()
        self._established = 0
        """As last seen."""
        self._newest_sent: tuple[int, str, float] | None = None
        """Epoch, master and the master's clock of the newest request that brought something."""

    async def state(self, caller: Caller, acknowledged: Acknowledged | None = None) -> Answer:
        """See `replica_state`. A master that is one no more learns so here, even if it has nothing to send."""
        try:
            answer = self._state_at_once(caller, acknowledged)
        except OSError:
            answer = None  # it is met again, and told, by who has its turn
        return answer or await self._whole(self._state(caller, acknowledged))

    async def append(
        self,
        caller: Caller,
        after: Position,
        commits: list[CommitRecord],
        files: dict[str, str | None],
        archived: list[int],
        serial: int,
        membership: Membership | None,
        acknowledged: Acknowledged | None = None,
    ) -> Answer:
        """See `replica_append`."""

        async def work(copy: "ReplicaCopy") -> Answer:
            def write_queue() -> None:
                if files or archived or serial:
                    self._place.queue.write(files, archived, serial)

            await copy.append(after, commits, membership, archived, write_queue)
            await copy.acknowledge(acknowledged)
            return {"position": copy.position}

        return await self._whole(self._as_follower(caller, work, in_order=bool(files or archived)))

    async def snapshot(
        self,
        caller: Caller,
        position: Position,
        config: str,
        steps: list[WireStep],
        membership: Membership | None,
        digest: str,
        acknowledged: Acknowledged | None = None,
        files: Mapping[str, str | None] = {},
    ) -> Answer:
        """See `replica_snapshot`."""

        async def work(copy: "ReplicaCopy") -> Answer:
            if files:
                await self._place.in_turn(self._place.queue.write, files, (), 0)
            await copy.restore(position, config.encode(), steps, membership, digest)
            await copy.acknowledge(acknowledged)
            _log.info("the copy of the configuration is that of %d.%d now", *position)
            return {"position": copy.position}

        return await self._whole(self._as_follower(caller, work, may_replace=True))

    async def members(self, caller: Caller, membership: Membership) -> Answer:
        """See `replica_members`."""

        async def work(copy: "ReplicaCopy") -> Answer:
            await copy.keep_members(membership)
            return {"membership": copy.membership}

        return await self._whole(self._as_follower(caller, work, in_order=False))

    async def queue_list(self, caller: Caller) -> Answer:
        """See `replica_queue_list`."""

        async def work() -> Answer:
            if (refusal := await self._refuse_caller(caller, raises=False)) is not None:
                return refusal
            return {"refused": None, "files": await self._place.in_turn(self._place.queue.digests)}

        return await self._whole(self._guarded(work()))

    async def promise(self, caller: Caller, ask_only: bool) -> Answer:
        """See `promise`."""
        answer = await self._whole(self._guarded(self._promise(caller, ask_only)))
        return {"granted": False} | answer

    async def resume(self) -> None:
        """Open the copy if this node is a candidate of another master: it will soon be asked for."""
        async with self._turn:
            try:
                marks = await self._place.marks()
                if (
                    marks is not None
                    and marks.is_candidate
                    and _follows_another(self._keeper.promise, marks, self._daemons)
                ):
                    await self._place.open()
            except ReplicaFaultError as err:
                _log.error("%s", err.sentence)
            except (GanetiError, OSError) as err:
                _log.error("The copy at this node cannot be opened before the master's next record: %s", err)

    async def forget(self) -> None:
        """See `ReplicaPort.forget`."""
        async with self._turn:
            await self._place.close_copy(settle=False)

    async def flush(self) -> None:
        """Return when what is acknowledged of the copy is published; raises `ConfigurationError`."""
        if self._place.copy is not None:
            await self._place.copy.flush()

    async def close(self) -> None:
        """The daemon ends."""
        async with self._turn:
            await self._place.close()
        await self._background.cancel()

    async def _whole(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Do *work* alone, and to its end even if the client is gone: memory and disk must agree."""

        async def alone() -> Answer:
            async with self._turn:
                return await work

        return await asyncio.shield(self._background.start(alone(), "request to the copy"))

    async def _guarded(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Turn what goes wrong with the disk or the database into a refusal."""
        try:
            return await work
        except ReplicaFaultError as err:
            if err.reason == DAMAGED:
                _log.error("%s", err.sentence)
            return self._refusal(err.reason, err.sentence)
        except OSError as err:
            return self._refusal(DISK, f"The disk of node {self._node_name} fails: {err.strerror or err}")
        except GanetiError as err:
            from ganeti.stores.replica_store import fault_of

            fault = fault_of(err, self._paths.config_database)
            reason = fault.reason if err.__cause__ is not None else DISK
            return self._refusal(reason, err.message)

    async def _as_follower(
        self,
        caller: Caller,
        work: "Callable[[ReplicaCopy], Coroutine[Any, Any, Answer]]",
        *,
        may_replace: bool = False,
        in_order: bool = True,
    ) -> Answer:
        """Do *work* with the open copy, if *caller* is the master this node follows.

        *in_order* is for what has no position or version of its own, by which it could be known to be late.
        """

        async def admitted() -> Answer:
            if (refusal := await self._refuse_caller(caller)) is not None:
                return refusal
            if in_order and (refusal := self._refuse_late(caller)) is not None:
                return refusal
            copy = await self._place.open(may_replace=may_replace)
            try:
                return {"refused": None} | await work(copy)
            except ReplicaFaultError:
                raise
            except Exception:
                # What is in memory may not be what is on disk: the next request reads it again.
                await self._place.close_copy(settle=False)
                raise

        answer = await self._guarded(admitted())
        if answer["refused"] == GAP:
            answer["position"] = None if self._place.copy is None else self._place.copy.position
        return answer

    def _state_at_once(self, caller: Caller, acknowledged: Acknowledged | None) -> Answer | None:
        """What is asked of most copies most of the time: what is in memory, by the master that is followed.

        None where anything is to be looked up, or another request has its turn.
        """
        copy, promise = self._place.copy, self._keeper.promise
        if copy is None or self._turn.locked() or self._place.wants_examination:
            return None
        marks = copy.marks(self._node_name)
        is_followed = _is_followed(caller, promise) and caller.master != marks.own
        if not is_followed or self._unfit(caller, marks) is not None:
            return None
        if self._daemons.run() or self._daemons.are_left_over() or not copy.acknowledge_at_once(acknowledged):
            return None
        return {"refused": None} | self._told(copy.position, copy.digest, copy.membership)

    async def _state(self, caller: Caller, acknowledged: Acknowledged | None) -> Answer:
        async def work() -> Answer:
            if (refusal := await self._refuse_caller(caller, raises=False)) is not None:
                return refusal
            if await self._may_open_for(caller):
                await self._place.open()
            copy = self._place.copy
            if copy is None or self._place.wants_examination:
                content = await self._place.examine()
                told = self._told(content.position, content.digest, content.membership)
            else:
                told = self._told(copy.position, copy.digest, copy.membership)
            if copy is not None and _is_followed(caller, self._keeper.promise):
                await copy.acknowledge(acknowledged)
            return {"refused": None} | told

        return await self._guarded(work())

    async def _may_open_for(self, caller: Caller) -> bool:
        """Whether *caller* is the master this node follows, and has sent something before."""
        if not _is_followed(caller, self._keeper.promise):
            return False
        marks = await self._place.marks()
        return marks is not None and _follows_another(self._keeper.promise, marks, self._daemons)

    async def _promise(self, caller: Caller, ask_only: bool) -> Answer:
        if (refusal := await self._refuse_stranger(caller)) is not None:
            return refusal
        content = await self._place.examine()
        marks = await self._place.marks()
        told = self._told(content.position, content.digest, content.membership)
        asked = self._keeper.promise.grant(caller.epoch, caller.master)
        if asked is not None and not ask_only:
            self._keeper.keep_promise(asked)
            if marks is not None and caller.master == marks.own:
                await self._place.close_copy(settle=True)
            elif self._daemons.run() or self._daemons.are_left_over():
                self._daemons.end(caller)
        promise = self._keeper.promise
        return told | {
            "refused": None,
            "granted": asked is not None,
            "promised": promise.epoch,
            "holder": promise.holder,
            "names": await self._place.named_master(),
        }

    def _told(self, position: Position | None, digest: str, membership: Membership | None) -> Answer:
        promise = self._keeper.promise
        self._established = established_epoch(position, None if membership is None else membership.version)
        return {
            "position": position,
            "digest": digest,
            "membership": membership,
            "promised": promise.epoch,
            "holder": promise.holder,
            "established": self._established,
        }

    def _refusal(self, reason: str, sentence: str) -> Answer:
        promise = self._keeper.promise
        return {
            "refused": reason,
            "sentence": sentence,
            "promised": promise.epoch,
            "holder": promise.holder,
            "established": self._established,
        }

    async def _refuse_stranger(self, caller: Caller) -> Answer | None:
        """Refuse who cannot be understood, whatever its epoch."""
        marks = None
        with suppress(ReplicaFaultError):  # a damaged copy is nobody's: whatever needs it says so
            marks = await self._place.marks()
            self._established = 0 if marks is None else marks.established
        unfit = self._unfit(caller, marks)
        if unfit is not None and unfit[0] == CLUSTER and await self._place.is_damaged():
            unfit = None  # the name of the cluster may be what rot has changed
        return None if unfit is None else self._refusal(*unfit)

    def _unfit(self, caller: Caller, marks: "Marks | None") -> tuple[str, str] | None:
        """Why who asks cannot be understood, where the copy here has these *marks*: a reason and a sentence."""
        if caller.software != version.RELEASE:
            return (
                SOFTWARE,
                f"Node {self._node_name} runs release {version.RELEASE}, the one that asks {caller.software}: "
                "upgrade the older one",
            )
        fault = clock_fault(f"node {self._node_name}", self._now_s() - caller.time_s, "the caller")
        if fault is not None:
            return CLOCK, fault
        if marks is not None and marks.cluster not in (None, caller.cluster):
            return (
                CLUSTER,
                f"Node {self._node_name} holds a copy of another cluster ({marks.cluster}): move "
                f"{self._paths.config_database} away, with its -wal and -shm, if it is not needed",
            )
        return None

    async def _refuse_caller(self, caller: Caller, *, raises: bool = True) -> Answer | None:
        """Refuse a caller that is not the master of the newest epoch.

        The promise is raised to that master, with *raises*, and always on a node that runs a master's daemons: their
        time is over.
        """
        if (refusal := await self._refuse_stranger(caller)) is not None:
            return refusal
        known = self._keeper.promise
        promise = known.admit_record(caller.epoch, caller.master)
        if promise is None:
            return self._refusal(EPOCH, refusal_sentence(known, caller.epoch))
        is_master = self._daemons.run() and not await self._is_own(caller, if_unknown=not raises)
        if is_master and caller.epoch == known.epoch and known.holder is None:
            return self._refusal(MASTER, f"Node {self._node_name} is the master of epoch {known.epoch} itself")
        if raises or is_master:
            self._keeper.keep_promise(promise)
        if is_master:
            await self._place.close_copy(settle=False)
            self._daemons.end(caller)
            return self._refusal(MASTER, f"Node {self._node_name} still runs the daemons of a master: they are ending")
        if self._daemons.are_left_over() and not await self._is_own(caller, if_unknown=True):
            self._daemons.end(caller)
        return None

    async def _is_own(self, caller: Caller, *, if_unknown: bool) -> bool:
        """Whether the master that asks is on this very node; of a damaged copy nobody can say so."""
        try:
            marks = await self._place.marks()
        except ReplicaFaultError:
            return if_unknown
        return marks is not None and marks.own == caller.master

    def _refuse_late(self, caller: Caller) -> Answer | None:
        """Refuse what was sent before something that has come already: it would make a queue file an older one."""
        newest = self._newest_sent
        if newest is not None and newest[:2] == (caller.epoch, caller.master) and caller.time_s < newest[2]:
            return self._refusal(
                CLOCK,
                f"Node {self._node_name} has got something that was sent {newest[2] - caller.time_s:.3f} seconds later "
                "than this: send it again",
            )
        self._newest_sent = (caller.epoch, caller.master, caller.time_s)
        return None

    async def stop_master(self) -> MasterEnded:
        """See `node_stop_master`."""
        from ganeti.noded.master_ending import end_master_daemons

        ended = await end_master_daemons(self._paths)
        return MasterEnded(daemons=list(ended.daemons), jobs=ended.jobs)


class _MasterDaemons:
    """The daemons of a master on this node, told by their locks: every request asks for them."""

    def __init__(self, paths: Paths, background: Background) -> None:
        self._paths = paths
        self._background = background
        self._ending: asyncio.Task[Any] | None = None
        self._wconfd = paths.pid_file("ganeti-wconfd")
        self._others = [paths.pid_file(f"ganeti-{name}") for name in ("luxid", "maintd")]

    def run(self) -> bool:
        return is_alive(self._wconfd)

    def are_left_over(self) -> bool:
        """Whether one outlives its ganeti-wconfd, which may have ended by itself as deposed.

        A ganeti-rapi does no harm: where it is not on the master, it passes requests on to there.
        """
        return any(map(is_alive, self._others))

    def end(self, caller: Caller) -> None:
        """In the background, once: the sender tries again."""
        from ganeti.noded.master_ending import end_master_daemons

        if self._ending is not None and not self._ending.done():
            return
        _log.warning(
            "node %s is the master from epoch %d on: the master's daemons and the jobs of this node are ended",
            caller.master,
            caller.epoch,
        )
        self._ending = self._background.start(end_master_daemons(self._paths), "end of the master's daemons")


def _is_followed(caller: Caller, promise: Promise) -> bool:
    return (caller.epoch, caller.master) == (promise.epoch, promise.holder)


def _follows_another(promise: Promise, marks: "Marks", daemons: _MasterDaemons) -> bool:
    return promise.holder is not None and promise.holder != marks.own and not daemons.run()
