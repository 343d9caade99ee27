# SPDX-License-Identifier: BSD-2-Clause
"""What WConfD does before it serves: find or import the configuration, and make sure that this node is the master."""

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from typing import Any

import msgspec
from msgspec.structs import replace

from ganeti.base.errors import EXIT_NO_CLUSTER, EXIT_NOT_MASTER, ConfigurationError
from ganeti.base.paths import Paths
from ganeti.bootstrap.own_mastership import why_not_master
from ganeti.master.config.fingerprint import UNREADABLE, Fingerprint, fingerprint_of
from ganeti.master.config.importing import Import, Start, decide, read_foreign
from ganeti.master.config.invariants import verify_all
from ganeti.master.config.records import Commit, make_put
from ganeti.master.config.store import Loaded, StoredCommit
from ganeti.master.config.stream import event_of
from ganeti.master.mastership.takeover import FORCED_STEP
from ganeti.model.configuration import Configuration, Draft
from ganeti.model.membership import Kept, Membership
from ganeti.model.objects import CLUSTER_KEY, Node
from ganeti.stores.config_store import SqliteStore
from ganeti.system.accounts import SOCKET_DIR_MODE
from ganeti.system.boot import kernel_boot_id
from ganeti.system.daemonize import DaemonRefused
from ganeti.system.environment import Environment
from ganeti.system.files import read_if_there

_log = logging.getLogger(__name__)
_NO_CLUSTER = "this machine is in no cluster: create one with gnt-cluster init"


@dataclass
class Opened:
    """The configuration as the start found it; `imported` is not in the store yet."""

    store: SqliteStore
    loaded: Loaded
    file_digest: str | None
    imported: Import | None
    begun: Commit | None = None
    """The first commit of the epoch that this start begins."""
    outdated_file: str | None = None
    """A published `config.data` that a loss of power has damaged, or made older than what was acknowledged."""

    def accept(self) -> None:
        """This node is the master: take over what is imported. Raises `ConfigurationError`."""
        if self.outdated_file is not None:
            _set_aside(self.outdated_file)
        if self.imported is not None:
            self.store.begin_epoch(self.imported.commit, self.kept)
            _log.info(
                "config.data was not written by this daemon: it is imported as %d.%d", *self.loaded.config.position
            )
        if self.begun is not None:
            self.store.begin_epoch(self.begun, self.kept)
            _log.info("Epoch %d begins: %s", self.begun.position[0], self.kept.membership)
        elif self.imported is None and self.kept != self.loaded.kept:
            self.store.set_membership(self.kept)
        self.store.begin_use(kernel_boot_id())

    @property
    def kept(self) -> Kept:
        """Which copies are in sync: the master's alone where an epoch has begun without any other."""
        kept, epoch = self.loaded.kept, self.loaded.config.position[0]
        if kept is not None and kept.membership.version[0] == epoch:
            return kept
        return Kept(Membership((epoch, 1), (self.loaded.config.cluster.master_node,)))

    def begin_epoch(self, epoch: int, me: Node, members: Sequence[str] | None) -> None:
        """Make *me* the master from here on, with the members of the newest membership that was promised with.

        *members* None means those of this copy; in a forced epoch, this node alone. Repeated for an epoch that has
        begun, it changes nothing. Raises `DaemonRefused`.
        """
        loaded, stored = self.loaded, self.loaded.config.position[0]
        config = loaded.config
        if epoch == stored and config.cluster.master_node == me.uuid:
            return
        if epoch <= stored:
            raise DaemonRefused(f"epoch {epoch} is over: this node's copy is of epoch {stored}", EXIT_NOT_MASTER)
        if members is None:
            is_forced = epoch // FORCED_STEP > stored // FORCED_STEP
            members = (me.uuid,) if is_forced else self.kept.membership.members
        if me.uuid not in members:
            raise DaemonRefused(_not_in_sync(me.name, members, config), EXIT_NOT_MASTER)
        draft = Draft(config, time.time())
        draft.put("cluster", replace(config.cluster, master_node=me.uuid))
        config.position = (epoch, 1)
        put = make_put("cluster", CLUSTER_KEY, draft.cluster)
        begun = Commit(config.position, draft.now_s, (put,))
        digest = next(Fingerprint(config.header, loaded.fragments).after([begun]))
        self.begun = begun = dataclass_replace(begun, digest=digest)
        config.put(put.kind, put.uuid, put.obj)
        loaded.fragments[put.kind, put.uuid] = put.data
        loaded.mtime_s = begun.time_s
        loaded.events.append((begun.position, event_of(begun)))
        loaded.commits.append(StoredCommit(begun.position, begun.time_s, digest, event_of(begun)))
        loaded.kept = Kept(Membership((epoch, 1), tuple(members)))

    def check_member(self, *, forced: bool) -> None:
        """Raise `DaemonRefused` if this node's copy is not in sync; *forced*, it alone is from here on."""
        kept, config = self.kept, self.loaded.config
        me = config.cluster.master_node
        if me in kept.membership.members:
            return
        if not forced:
            raise DaemonRefused(_not_in_sync(config.node(me).name, kept.membership.members, config), EXIT_NOT_MASTER)
        version = (kept.membership.version[0], kept.highest + 1)
        self.loaded.kept = Kept(Membership(version, (me,)), version[1])


def _not_in_sync(name: str, members: Sequence[str], config: Configuration) -> str:
    names = ", ".join(node.name for node in config.nodes() if node.uuid in members) or "no node that is known"
    return (
        f"the copy of the configuration at this node, {name}, is not in sync, so it may lack what was acknowledged: "
        f"let one of these be the master: {names}; or start with --no-voting --yes-do-it, and lose what is lacking"
    )


def own_node(environment: Environment, config: Configuration) -> Node:
    """This machine in the configuration; raises `DaemonRefused`."""
    for node in config.nodes():
        if environment.is_named(node.name):
            return node
    raise DaemonRefused(f"this machine, {environment.hostname}, is no node of the cluster", EXIT_NOT_MASTER)


def make_directories(paths: Paths) -> None:
    """The directories WConfD writes to."""
    for directory, mode in ((paths.data_dir, 0o755), (paths.socket_dir, SOCKET_DIR_MODE), (paths.livelock_dir, 0o750)):
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
    store = SqliteStore(paths.config_database)
    try:
        return _open(store, data, paths)
    except BaseException:
        store.close()
        raise


def _open(store: SqliteStore, data: bytes | None, paths: Paths) -> Opened:
    stored = store.load()
    digest = UNREADABLE if data is None else fingerprint_of(data)
    start = decide(stored, data, digest, kernel_boot_id())
    imported = None
    loaded = stored
    if data is not None and start is Start.IMPORT:
        position = stored.config.position if stored else None
        imported = read_foreign(data, digest, position, time.time(), promised_epoch(paths))
        loaded = _after_import(imported, stored)
    if loaded is None:
        raise DaemonRefused(_NO_CLUSTER, EXIT_NO_CLUSTER)
    for problem in verify_all(loaded.config):
        _log.warning("%s", problem)
    if start is Start.OUTDATED:
        return Opened(store, loaded, None, imported, outdated_file=paths.config_file)
    return Opened(store, loaded, digest if data is not None else None, imported)


def promised_epoch(paths: Paths) -> int:
    """The highest epoch that the node daemon of this machine knows of, 0 if none: it outlives the database."""
    try:
        epoch = msgspec.json.decode(read_if_there(paths.epoch_file) or b"{}", type=dict[str, Any]).get("epoch")
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as err:
        _log.warning("%s cannot be read: %s", paths.epoch_file, err)
        return 0
    return epoch if isinstance(epoch, int) and epoch > 0 else 0


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
        raise DaemonRefused(why_not_master(environment.paths, environment.hostname, master), EXIT_NOT_MASTER)
