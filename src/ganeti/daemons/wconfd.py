# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-wconfd: the configuration and the locks of the cluster, on the master (D6)."""

import argparse
import gc
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ganeti.base.errors import EXIT_NO_CLUSTER, EXIT_NOT_MASTER, ConfigurationError, LockError
from ganeti.base.paths import Paths
from ganeti.master.config.head import Head
from ganeti.master.config.importing import Import, Start, decide, read_foreign
from ganeti.master.config.invariants import verify_all
from ganeti.master.config.publication import PublishedForm
from ganeti.master.config.records import Commit, StepAnswer
from ganeti.master.config.steps import Steps
from ganeti.master.config.store import Loaded
from ganeti.master.config.stream import ChangeStream
from ganeti.master.locks.table import LockTable
from ganeti.runtime.config_store import SqliteStore
from ganeti.runtime.daemonize import Daemon, DaemonRefused, daemon_parser, parse_options, run_daemon
from ganeti.runtime.event_loop import Background
from ganeti.runtime.files import read_if_there
from ganeti.runtime.livelock import is_alive
from ganeti.runtime.publisher import Publisher, hash_of
from ganeti.runtime.unix_socket import serve as serve_socket
from ganeti.runtime.wconfd_commits import Committer, StoreThread
from ganeti.runtime.wconfd_locks import LockService, load_table, remove_stale_lock_files, undo_records_in
from ganeti.runtime.wconfd_server import Parts, Server

NAME = "ganeti-wconfd"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_options(NAME, sys.argv[1:] if arguments is None else arguments, make_parser())
    if options.no_voting and not options.yes_do_it:
        print(f"{NAME}: --no-voting skips the question who is master: confirm with --yes-do-it", file=sys.stderr)
        return 1
    return run_daemon(NAME, options, serve)


def make_parser() -> argparse.ArgumentParser:
    parser = daemon_parser(NAME)
    parser.add_argument("--no-voting", action="store_true", help="do not ask the nodes who is master")
    parser.add_argument("--yes-do-it", action="store_true", help="confirm --no-voting")
    parser.add_argument("--force-node", action="store_true", help="run although this node is not the master")
    return parser


@dataclass
class Opened:
    """The configuration as the start found or made it."""

    store: SqliteStore
    loaded: Loaded
    file_hash: str | None


async def serve(daemon: Daemon) -> None:
    from ganeti.master import operations

    operations.load()
    paths = daemon.environment.paths
    make_directories(paths)
    opened = open_configuration(daemon)
    service = Service(paths, opened)
    background = Background()
    await service.locks.free_the_dead()
    background.start(service.committer.run(), "commits")
    background.start(service.publisher.run(), "publication")
    background.start(service.locks.watch_owners(service.clean_up), "watching lock owners")
    socket = await serve_socket(paths.wconfd_socket, service.server.serve)
    service.publisher.notify()
    daemon.ready()
    await daemon.stopping.wait()
    await socket.close()
    await background.cancel()
    service.store.close()


class Service:
    """The parts, put together."""

    def __init__(self, paths: Paths, opened: Opened) -> None:
        loaded = opened.loaded
        self._paths = paths
        self._has_undo = undo_records_in(paths.queue_dir)
        self.store = StoreThread(opened.store)
        self.form = PublishedForm(loaded.config, loaded.fragments, loaded.mtime_s)
        stream = ChangeStream(loaded.config.position)
        stream.restore(loaded.stream_start, loaded.events)
        self.publisher = Publisher(paths, self.form, self.store, opened.file_hash)
        self.locks = LockService(_load_locks(paths), f"{paths.data_dir}/locks.data", self._has_undo)
        self.committer = Committer(
            Head(loaded.config), self.form, stream, Steps(loaded.steps), self.store, time.time, self._committed
        )
        self.server = Server(Parts(self.committer, self.locks, self.publisher, paths.config_database, self.clean_up))
        _freeze_memory()

    async def clean_up(self) -> None:
        """Free what dead owners hold, and forget what finished jobs left."""
        await self.locks.free_the_dead()
        await self.committer.forget_steps(self._is_finished)
        in_use = {owner.lock_file for owner in self.locks.table.owners()}
        remove_stale_lock_files(self._paths.livelock_dir, in_use)

    def _is_finished(self, newest: StepAnswer) -> bool:
        return not is_alive(newest.lock_file) and not self._has_undo(newest.job)

    def _committed(self, commit: Commit, event: bytes | None) -> None:
        self.server.tell(event)
        self.publisher.notify()


def make_directories(paths: Paths) -> None:
    """The directories this daemon writes to, with the modes of 3.1."""
    for directory, mode in ((paths.data_dir, 0o755), (paths.socket_dir, 0o770), (paths.livelock_dir, 0o750)):
        if not os.path.isdir(directory):
            os.makedirs(directory, exist_ok=True)
            os.chmod(directory, mode)


def open_configuration(daemon: Daemon) -> Opened:
    """Load or import. Raises `DaemonRefused` with the exit status of 3.1, `ConfigurationError` with the reason."""
    paths = daemon.environment.paths
    data = read_if_there(paths.config_file)
    if data is None and not os.path.exists(paths.config_database):
        raise DaemonRefused("this machine is in no cluster: create one with gnt-cluster init", EXIT_NO_CLUSTER)
    gc.disable()  # decoding makes millions of objects and no garbage
    try:
        store = SqliteStore(paths.config_database)
        stored = store.load()
        file_hash = None if data is None else hash_of(data)
        decision = decide(stored, file_hash)
        if decision is Start.NO_CLUSTER:
            raise DaemonRefused("this machine is in no cluster: create one with gnt-cluster init", EXIT_NO_CLUSTER)
        imported = None
        if decision is Start.IMPORT and data is not None and file_hash is not None:
            imported = read_foreign(data, file_hash, stored.config.position if stored else None, time.time())
        loaded = _after_import(imported, stored) if imported is not None else stored
        if loaded is None:
            raise ConfigurationError("there is no configuration to start from")
        check_master(daemon, loaded)
        if imported is not None:
            store.commit([imported.commit])
        for problem in verify_all(loaded.config):
            daemon.log.warning("%s", problem)
        return Opened(store, loaded, file_hash)
    finally:
        gc.enable()


def _after_import(imported: Import, stored: Loaded | None) -> Loaded:
    commit = imported.commit
    return Loaded(
        imported.config,
        {(put.kind, put.uuid): put.data for put in commit.puts},
        mtime_s=commit.time_s,
        steps=stored.steps if stored else [],
        stream_start=commit.position,
    )


def check_master(daemon: Daemon, loaded: Loaded) -> None:
    """Raise `DaemonRefused` unless this node is the master."""
    config = loaded.config
    master = config.node(config.cluster.master_node).name
    if not daemon.options.force_node and not daemon.environment.is_named(master):
        raise DaemonRefused(
            f"this node, {daemon.environment.hostname}, is not the master: that is {master}", EXIT_NOT_MASTER
        )


def _load_locks(paths: Paths) -> LockTable:
    try:
        return load_table(f"{paths.data_dir}/locks.data")
    except LockError as err:
        raise DaemonRefused(str(err)) from err


def _freeze_memory() -> None:
    """The configuration lives as long as this process: the collector need not visit it."""
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
