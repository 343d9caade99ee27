# SPDX-License-Identifier: BSD-2-Clause
"""What WConfD does before it serves: find or import the configuration, and make sure that this node is the master."""

import gc
import logging
import os
import time
from dataclasses import dataclass

from ganeti.base.errors import EXIT_NO_CLUSTER, EXIT_NOT_MASTER, ConfigurationError
from ganeti.base.paths import Paths
from ganeti.master.config.fingerprint import UNREADABLE, fingerprint_of
from ganeti.master.config.importing import Import, Start, decide, read_foreign
from ganeti.master.config.invariants import verify_all
from ganeti.master.config.store import Loaded
from ganeti.master.replication.membership import Kept, Membership
from ganeti.model.configuration import Configuration
from ganeti.runtime.config_store import SqliteStore
from ganeti.runtime.daemonize import DaemonRefused
from ganeti.runtime.environment import Environment
from ganeti.runtime.files import read_if_there

_log = logging.getLogger(__name__)
_NO_CLUSTER = "this machine is in no cluster: create one with gnt-cluster init"


@dataclass
class Opened:
    """The configuration as the start found it; `imported` is not in the store yet."""

    store: SqliteStore
    loaded: Loaded
    file_digest: str | None
    imported: Import | None
    outdated_file: str | None = None
    """A `config.data` of ours that lost power has left damaged, or older than what was acknowledged."""

    def accept(self) -> None:
        """This node is the master: take over what is imported. Raises `ConfigurationError`."""
        if self.outdated_file is not None:
            _set_aside(self.outdated_file)
        if self.imported is not None:
            self.store.begin_epoch(self.imported.commit, self.kept)
            _log.info(
                "config.data was not written by this daemon: it is imported as %d.%d", *self.loaded.config.position
            )
        elif self.kept != self.loaded.kept:
            self.store.set_membership(self.kept)
        self.store.begin_use(boot_id())

    @property
    def kept(self) -> Kept:
        """Which copies are in sync: the master's alone where an epoch has begun without any other."""
        kept, epoch = self.loaded.kept, self.loaded.config.position[0]
        if kept is not None and kept.membership.version[0] == epoch:
            return kept
        return Kept(Membership((epoch, 1), (self.loaded.config.cluster.master_node,)))


def make_directories(paths: Paths) -> None:
    """The directories WConfD writes to, with the modes of 3.1."""
    for directory, mode in ((paths.data_dir, 0o755), (paths.socket_dir, 0o770), (paths.livelock_dir, 0o750)):
        if not os.path.isdir(directory):
            os.makedirs(directory, exist_ok=True)
            os.chmod(directory, mode)


def open_configuration(paths: Paths) -> Opened:
    """Load the store, or read and verify a foreign `config.data`; changes nothing in either.

    Raises `DaemonRefused` where there is no cluster, `ConfigurationError` or `ConfigVerifyError` with the reason.
    """
    data = read_if_there(paths.config_file)
    if data is None and not os.path.exists(paths.config_database):
        raise DaemonRefused(_NO_CLUSTER, EXIT_NO_CLUSTER)
    gc.disable()  # decoding makes a great many objects and no garbage
    try:
        store = SqliteStore(paths.config_database)
        try:
            return _open(store, data, paths.config_file)
        except BaseException:
            store.close()
            raise
    finally:
        gc.enable()


def _open(store: SqliteStore, data: bytes | None, config_file: str) -> Opened:
    stored = store.load()
    digest = UNREADABLE if data is None else fingerprint_of(data)
    start = decide(stored, data, digest, boot_id())
    imported = None
    loaded = stored
    if data is not None and start is Start.IMPORT:
        imported = read_foreign(data, digest, stored.config.position if stored else None, time.time())
        loaded = _after_import(imported, stored)
    if loaded is None:
        raise DaemonRefused(_NO_CLUSTER, EXIT_NO_CLUSTER)
    for problem in verify_all(loaded.config):
        _log.warning("%s", problem)
    if start is Start.OUTDATED:
        return Opened(store, loaded, None, imported, config_file)
    return Opened(store, loaded, digest if data is not None else None, imported)


def boot_id() -> str:
    """Tells one run of the machine from another; without the kernel's help none is the one before."""
    data = read_if_there("/proc/sys/kernel/random/boot_id")
    return data.decode().strip() if data else f"unknown at {time.time_ns()}"


def _set_aside(path: str) -> None:
    """Take away the name, and not only link: a start after this one, before anything is published, would import it."""
    kept = f"{path}.found"
    try:
        os.rename(path, kept)
    except OSError as err:
        raise ConfigurationError(f"{path} cannot be kept as {kept}: {err.strerror}") from err
    _log.warning(
        "The machine went down without warning, and %s is not what was published last: the database is used. "
        "It is kept as %s; to import it instead, stop ganeti-wconfd, copy it back, start ganeti-wconfd",
        path,
        kept,
    )


def _after_import(imported: Import, stored: Loaded | None) -> Loaded:
    commit = imported.commit
    return Loaded(
        imported.config,
        {(put.kind, put.uuid): put.data for put in commit.puts},
        mtime_s=commit.time_s,
        steps=stored.steps if stored else [],
        stream_start=commit.position,
    )


def check_master(environment: Environment, config: Configuration) -> None:
    """Raise `DaemonRefused` unless the configuration names this node."""
    master = config.node(config.cluster.master_node).name
    if not environment.is_named(master):
        raise DaemonRefused(f"this node, {environment.hostname}, is not the master: that is {master}", EXIT_NOT_MASTER)
