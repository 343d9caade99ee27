# SPDX-License-Identifier: BSD-2-Clause
"""Who is the master, as far as this node's own disk tells: ssconf, the configuration, and the node daemon's promise.

A new master's ssconf is written after its WConfD has begun to serve, and a file can be lost. So code that starts the
master's daemons, or sends a user elsewhere, looks here when ssconf does not name this node. Standard library only.
"""

import json
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from ganeti.base.names import is_named
from ganeti.base.paths import Paths, database_uri
from ganeti.system.files import check_plain, plain_file

_SSCONF_MODE = 0o444


@dataclass(frozen=True)
class OwnMastership:
    """All values are of this node's disk; names are empty where they are not known."""

    named: str = ""
    """The master by ssconf; empty when that file is lost."""
    recorded: str = ""
    """The master by this node's copy of the configuration."""
    me: str = ""
    """This node, as the copy names it."""
    epoch: int = 0
    """Epoch of the copy."""
    promised: int = 0
    """The highest epoch that the node daemon has promised."""
    holder: str = ""
    """The node it has promised that epoch to."""

    @property
    def serves_here(self) -> bool:
        """Whether the master's daemons are to run here: the copy names this node, and no later promise another."""
        return bool(self.me) and self.recorded == self.me and not self._is_promised_away

    @property
    def is_unfinished(self) -> bool:
        """Whether this node has begun to take over, and was interrupted before the first commit of its epoch."""
        return self.may_go_on and self.recorded != self.me

    @property
    def may_go_on(self) -> bool:
        """Whether this node has promised itself a later epoch than its copy's, also as the master that copy names.

        Such a node serves in the former epoch. Where the others have another master by now, it asks again as an
        interrupted node does.
        """
        return self.promised > self.epoch and bool(self.me) and self.holder == self.me

    @property
    def master(self) -> str:
        """The node to go to: whom this node has promised itself to last, else whom ssconf or the copy names."""
        if self.promised > self.epoch and self.holder:
            return self.holder
        if self.recorded == self.me and self._is_promised_away:
            return self.named  # somebody else is the master by now, and the copy does not say who
        return self.named or self.recorded

    @property
    def _is_promised_away(self) -> bool:
        return self.promised > self.epoch and self.holder != self.me


def read_own_mastership(paths: Paths, hostname: str) -> OwnMastership:
    """Read what there is; a file that is missing or cannot be read tells nothing."""
    named = _text(paths.ssconf_file("master_node"))
    copy = _database(paths.config_database) or _file(paths.config_file)
    if copy is None:
        return OwnMastership(named)
    epoch, master, names = copy
    promised, holder = _promise(paths.epoch_file)
    own = [name for name in names.values() if is_named(hostname, name)]
    return OwnMastership(named, names.get(master, ""), own[0] if own else "", epoch, promised, names.get(holder, ""))


def is_master(paths: Paths, hostname: str) -> bool:
    """Whether the master's daemons are to run here; they then look closer. A lost ssconf file is written again."""
    named = _text(paths.ssconf_file("master_node"))
    if named and is_named(hostname, named):
        return True
    own = read_own_mastership(paths, hostname)
    restore_ssconf(paths, own)
    return own.serves_here


def why_not_master(paths: Paths, hostname: str, named: str) -> str:
    """Why no daemon of the master runs here, and where one does; *named* is the master as the caller knows it."""
    own = read_own_mastership(paths, hostname)
    if own.is_unfinished:
        return (
            f"this node, {hostname}, has begun to become the master and was interrupted: run daemon-util start-master"
        )
    promised = own.holder if own.promised > own.epoch and own.holder != own.me else ""
    return f"this node, {hostname}, is not the master: that is {promised or named}"


def restore_ssconf(paths: Paths, own: OwnMastership) -> None:
    """Write the master's name again where the master has lost it; elsewhere the master sends it."""
    if own.named or not own.serves_here:
        return
    from ganeti.system.files import write_atomically

    write_atomically(paths.ssconf_file("master_node"), f"{own.me}\n".encode(), mode=_SSCONF_MODE)


_Copy = tuple[int, str, dict[str, str]]
"""Epoch, uuid of the master, and the name of each node by its uuid."""


def _database(path: str) -> _Copy | None:
    if not os.path.exists(path):
        return None
    try:
        check_plain(path)
        with closing(sqlite3.connect(database_uri(path, "ro"), uri=True, isolation_level=None)) as database:
            database.execute("BEGIN")
            ((epoch,),) = database.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchall()
            ((cluster,),) = database.execute("SELECT data FROM objects WHERE kind = 'cluster'").fetchall()
            nodes = database.execute("SELECT uuid, data FROM objects WHERE kind = 'nodes'").fetchall()
        names = {uuid: str(json.loads(data)["name"]) for uuid, data in nodes}
        return int(epoch), str(json.loads(cluster)["master_node"]), names
    except (OSError, sqlite3.Error, ValueError, LookupError, TypeError):
        return None


def _file(path: str) -> _Copy | None:
    """`config.data` alone: what WConfD imports."""
    try:
        with open(path, "rb", opener=plain_file) as file:
            config: Any = json.load(file)
        names = {uuid: str(node["name"]) for uuid, node in config["nodes"].items()}
        return 0, str(config["cluster"]["master_node"]), names
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def promised_epoch(paths: Paths) -> int:
    """The highest epoch this node has seen: a call that changes something must not come from a lower one."""
    return _promise(paths.epoch_file)[0]


def _promise(path: str) -> tuple[int, str]:
    try:
        with open(path, "rb", opener=plain_file) as file:
            found: Any = json.load(file)
        return int(found["epoch"]), str(found.get("holder") or "")
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return 0, ""


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace", opener=plain_file) as file:
            return file.read().strip()
    except OSError:
        return ""
