# SPDX-License-Identifier: BSD-2-Clause
"""The part of the machine that joins: everything is set up in one go, and taken back where it does not become a node.

`gnt-node add` keeps one connection until the cluster has taken the machine in. Each message is one line of JSON: the
machine says that it is there, the master sends what `prepare-node-join` and `node-daemon-setup` read, the machine says
how that went, the master says that the cluster is asked, and then how that ended. A connection that breaks before the
cluster is asked takes everything back; one that breaks later leaves the machine as it is: its job goes on.
"""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import IO, Any

from ganeti.base.errors import UNREADABLE_JSON, CommandError, GanetiError
from ganeti.bootstrap import daemon_setup, join_input, prepare_join
from ganeti.bootstrap.daemon_setup import ANSWERING_DAEMONS, NODE_DAEMON
from ganeti.bootstrap.join_input import DaemonSetup, PrepareJoin
from ganeti.bootstrap.leave import forget_cluster
from ganeti.bootstrap.machine import FileSet, Machine
from ganeti.bootstrap.remote import ASKED, KEEP, READY, TAKE_BACK


class JoiningMachine:
    """A machine as it was before it joined, and what was done since."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._files = FileSet()
        self._is_node = os.path.exists(machine.paths.server_cert)
        self._names = set(_names(machine.paths.data_dir))
        self._ran = [name for name in (NODE_DAEMON, *ANSWERING_DAEMONS) if self._runs(name)]
        self._has_new_host_keys = False
        self._has_started = False

    def set_up(self, prepare: bytes, setup: bytes) -> None:
        """Do what both requests ask, the start of the node daemon included.

        Raises `PrerequisiteError` before anything is written, other errors after taking everything back.
        """
        machine = self._machine
        keys, request = join_input.decode(prepare, PrepareJoin), join_input.decode(setup, DaemonSetup)
        prepare_join.check(keys, machine.paths)
        pem = daemon_setup.check(request, machine)
        try:
            self._has_new_host_keys = prepare_join.apply(keys, machine, self._files)
            daemon_setup.write(request, pem, machine, self._files)
            if request.start_node_daemon:
                self._has_started = True
                daemon_setup.start_node_daemon(machine)
        except (GanetiError, OSError) as err:
            self.take_back()
            raise err if isinstance(err, GanetiError) else GanetiError(f"The node could not be set up: {err}") from err

    def start_answering(self) -> None:
        """Start what answers others besides the node daemon, unless the machine has left the cluster meanwhile."""
        daemon_setup.start_answering(self._machine)

    def take_back(self) -> None:
        """Leave files, keys and daemons as they were; what the daemons have written meanwhile goes, too."""
        machine = self._machine
        changed = [*ANSWERING_DAEMONS[::-1], NODE_DAEMON] if self._has_started else []
        for daemon in changed:
            with suppress(CommandError):
                machine.daemon_util("stop", daemon)
        self._files.take_back()
        if not self._is_node:
            forget_cluster(machine.paths, keep=self._names)
        if self._has_new_host_keys:
            with suppress(CommandError):
                machine.daemon_util("reload-ssh-keys")
        for daemon in self._ran if changed else []:
            with suppress(CommandError):
                machine.daemon_util("start", daemon)

    def _runs(self, daemon: str) -> bool:
        try:
            self._machine.daemon_util("check", daemon)
        except CommandError:
            return False
        return True


def converse(machine: Machine, heard: IO[bytes], said: IO[bytes]) -> None:
    """Join as the master on the other side says. Raises what setting up raises, after telling the master."""
    _say(said, {"state": READY})
    line = heard.readline()
    if not line.strip():
        return  # what the master would have refused, it has refused meanwhile
    joining = JoiningMachine(machine)
    try:
        requests = join_input.decode_pair(line)
        joining.set_up(*requests)
    except GanetiError as err:
        _say(said, {"error": str(err)})
        raise
    with suppress(OSError):
        _say(said, {"error": None})
    verdict = settle(joining, heard)
    with suppress(OSError):
        _say(said, {"state": KEEP if verdict == KEEP else TAKE_BACK})
    if verdict != TAKE_BACK:
        machine.leave_behind(joining.start_answering)


def settle(joining: JoiningMachine, heard: Iterable[bytes]) -> str:
    """Hear from the master whether the cluster has taken the machine in, and take everything back where it has not.

    Gives `KEEP`, `TAKE_BACK`, or `ASKED`: the connection broke before the end of the job was told, all stays.
    """
    is_asked, keeps = _hear_verdict(heard)
    if keeps:
        return KEEP
    if keeps is None and is_asked:
        return ASKED
    joining.take_back()
    return TAKE_BACK


def _hear_verdict(heard: Iterable[bytes]) -> tuple[bool, bool | None]:
    """Whether the cluster was asked to take the machine in, and whether it has; None where nobody says so."""
    is_asked = False
    with suppress(OSError):
        for line in heard:
            try:
                word = json.loads(line)["state"]
            except (*UNREADABLE_JSON, LookupError, TypeError):
                break  # a connection that broke within a line
            if word == ASKED:
                is_asked = True
            elif word in (KEEP, TAKE_BACK):
                return is_asked, word == KEEP
    return is_asked, None


def _say(said: IO[bytes], message: dict[str, Any]) -> None:
    said.write(json.dumps(message).encode() + b"\n")
    said.flush()


def _names(directory: str) -> list[str]:
    return os.listdir(directory) if os.path.isdir(directory) else []
