# SPDX-License-Identifier: BSD-2-Clause
"""WConfD's parts, put together on one event loop."""

import time
from collections.abc import Callable
from contextlib import AsyncExitStack

from ganeti.base.errors import DeposedError
from ganeti.base.paths import Paths
from ganeti.master.config.head import Head
from ganeti.master.config.publication import PublishedForm
from ganeti.master.config.records import Commit, PublishedMark, StepAnswer
from ganeti.master.config.steps import Steps
from ganeti.master.config.stream import ChangeStream
from ganeti.master.replication.followers import Timing
from ganeti.ports.nodes import NodesPort
from ganeti.stores.job_files import JobFiles
from ganeti.stores.lock_journal import load_locks
from ganeti.stores.publisher import Published, Publisher
from ganeti.system.event_loop import Background
from ganeti.system.livelock import is_alive
from ganeti.system.unix_socket import allow_many_connections, serve
from ganeti.wconfd.calls import Parts
from ganeti.wconfd.commits import Committer
from ganeti.wconfd.distribution import Distributor
from ganeti.wconfd.lock_check import LockCheck
from ganeti.wconfd.locks import LockService, remove_stale_lock_files, undo_records_in
from ganeti.wconfd.replication import Begin, Hooks, Replicator, candidates_of
from ganeti.wconfd.replication_log import ReplicationLog
from ganeti.wconfd.replication_sending import Identity
from ganeti.wconfd.reservations import ReservationService
from ganeti.wconfd.server import Server
from ganeti.wconfd.start import Opened
from ganeti.wconfd.store_thread import StoreThread


class Service:
    """Commits, locks, publication and distribution; `start` serves the socket, `stop` ends everything in order."""

    def __init__(
        self,
        paths: Paths,
        opened: Opened,
        nodes: NodesPort | None,
        now_s: Callable[[], float] = time.time,
        *,
        on_deposed: Callable[[str], None] = lambda _: None,
        on_reclaim: Callable[[], None] = lambda: None,
        forced: bool = False,
        timing: Timing | None = None,
    ) -> None:
        """*nodes* is None where there is nobody to distribute to. Raises `LockError` for an unreadable `locks.data`.

        With *forced*, copies that do not answer at the start are left out without asking anybody. *on_deposed* is told
        why this node is not the master any more, *on_reclaim* that it should get the promises of a new epoch.
        """
        loaded = opened.loaded
        self._on_deposed = on_deposed
        self._paths = paths
        self._has_undo = undo_records_in(paths.queue_dir)
        self._background = Background()
        self._ending = AsyncExitStack()
        self.store = StoreThread(opened.store)
        self.form = PublishedForm(loaded.config, loaded.fragments, loaded.mtime_s)
        begin = _begin(opened, self.form.digest, now_s, forced, timing or Timing())
        hooks = Hooks(
            lambda: self.committer.snapshot(), self._released, self._deposed, self._states_changed, on_reclaim
        )
        self.replicator = Replicator(begin, nodes, self.store, paths, hooks)
        self._distributor = (
            None if nodes is None else Distributor(nodes, self.replicator.is_in_sync, self.replicator.appeared)
        )
        stream = ChangeStream(loaded.config.position)
        stream.restore(loaded.stream_start, loaded.events)
        locks_file = f"{paths.data_dir}/locks.data"
        self.locks = LockService(load_locks(locks_file), locks_file, self._has_undo)
        self.reservations = ReservationService(f"{paths.run_dir}/reservations.json")
        self.publisher = Publisher(
            paths, self.form, opened.file_digest, self._written, self._published, self._flush_distribution
        )
        self.committer = Committer(
            Head(loaded.config),
            self.form,
            stream,
            Steps(loaded.steps),
            self.store,
            self.replicator,
            now_s,
            self._committed,
            LockCheck(self.locks),
        )
        parts = Parts(
            self.committer,
            self.locks,
            self.reservations,
            self.publisher,
            paths.config_database,
            self.clean_up,
            self.replicator,
        )
        self.server = Server(parts)

    async def start(self) -> None:
        """Clean up after what died while this daemon was away, hand the copies what they lack, then serve.

        What is durable here and not at every copy in sync was acknowledged to nobody: nobody shall see it before.
        Steps of dead jobs must go before new jobs come: in a restored queue these may have the same numbers. What a
        loss of power has damaged of the queue must not go to the copies.
        """
        JobFiles(self._paths).mend()
        allow_many_connections()
        self._ending.callback(self.store.close)
        self._ending.push_async_callback(self._end_publication)
        if self._distributor is not None:
            self._ending.push_async_callback(self._distributor.close)
        self._ending.push_async_callback(self.replicator.close)
        self._ending.push_async_callback(self._background.cancel)
        await self.clean_up()
        self.replicator.start()
        await self.replicator.wait_released()
        self._background.start(self.committer.run(), "commits")
        self._background.start(self.publisher.run(), "publication")
        if self._distributor is not None:
            self._background.start(self._distributor.run(), "looking at ssconf everywhere")
        self._background.start(self.locks.watch_owners(self.clean_up), "watching lock owners")
        socket = await serve(self._paths.wconfd_socket, self.server.serve)
        self._ending.push_async_callback(socket.close)
        self.publisher.notify()

    async def stop(self) -> None:
        await self._ending.aclose()

    async def clean_up(self) -> None:
        """Free what dead owners hold, and forget what finished jobs left."""
        await self.locks.free_the_dead()
        await self.committer.forget_steps(self._is_finished)
        in_use = {owner.lock_file for owner in self.locks.table.owners()}
        remove_stale_lock_files(self._paths.livelock_dir, in_use)

    def _is_finished(self, newest: StepAnswer) -> bool:
        return not is_alive(newest.lock_file) and not self._has_undo(newest.job)

    def _released(self, number: int) -> None:
        self.committer.finish(number)

    def _deposed(self, sentence: str) -> None:
        self.publisher.stop_publishing()
        self.committer.give_up(DeposedError(f"This node is not the master any more: {sentence}"))
        self._on_deposed(sentence)

    def _states_changed(self) -> None:
        if self._distributor is not None:
            self._distributor.refresh()

    def _committed(self, commit: Commit, event: bytes | None) -> None:
        self.reservations.fulfil(commit)
        self.server.tell(event)
        self.publisher.notify()

    def _written(self, mark: PublishedMark) -> None:
        self.committer.published = mark

    async def _end_publication(self) -> None:
        mark = await self.publisher.close()
        if mark is not None:
            await self.store.run(self.store.store.end_use, mark)

    def _published(self, published: Published) -> None:
        if self._distributor is not None:
            self._distributor.publish(published)

    async def _flush_distribution(self, group: str | None) -> None:
        if self._distributor is not None:
            await self._distributor.flush(group)


def _begin(opened: Opened, digest: str, now_s: Callable[[], float], forced: bool, timing: Timing) -> Begin:
    """*digest* is the fingerprint of the newest configuration."""
    loaded = opened.loaded
    config = loaded.config
    me = config.cluster.master_node
    start = loaded.stream_start if loaded.commits or not loaded.events else config.position
    log = ReplicationLog(
        start, loaded.commits, loaded.steps, digest if start == config.position else loaded.start_digest
    )
    kept = opened.kept
    identity = Identity(config.cluster.uuid, me, config.position[0], now_s)
    return Begin(identity, kept, candidates_of(config.nodes()), log, forced, timing)
