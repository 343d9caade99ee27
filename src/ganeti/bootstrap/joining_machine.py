# SPDX-License-Identifier: BSD-2-Clause
"""The part of the machine that joins: everything is set up in one go, and taken back where it does not become a node.

`gnt-node add` keeps one connection until the cluster has taken the machine in. Each message is one line of JSON: the
machine says that it is there, the master sends what `prepare-node-join` and `node-daemon-setup` read, the machine says
how that went, the master says that it asks the cluster, which the machine writes down and confirms, and then how that
ended. A connection that breaks before the cluster is asked takes everything back; one that breaks later leaves the
machine as it is: its job goes on. A machine whose part is killed is taken back by the next one there (`attempt`).
"""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import IO, Any

from ganeti.base.errors import UNREADABLE_JSON, GanetiError
from ganeti.bootstrap import daemon_setup, join_input, prepare_join
from ganeti.bootstrap.attempt import Attempt, settle_former
from ganeti.bootstrap.join_input import DaemonSetup, JoiningRequest, PrepareJoin
from ganeti.bootstrap.machine import Machine
from ganeti.bootstrap.remote import ASKED, KEEP, READY, TAKE_BACK


class JoiningMachine:
    """A machine as it was before it joined, and what was done since."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._attempt: Attempt | None = None

    def set_up(self, request: JoiningRequest) -> None:
        """Do what both parts ask, the start of the node daemon included; what an earlier joining left goes first.

        Raises `PrerequisiteError` before anything is written, other errors after taking everything back.
        """
        machine = self._machine
        keys, setup = join_input.decode(request.prepare, PrepareJoin), join_input.decode(request.setup, DaemonSetup)
        given_up_by = setup.cluster_name if request.is_alone else ""
        settle_former(machine, is_member=request.is_member, given_up_by=given_up_by)
        join_input.check_epoch(request.epoch, machine.paths)
        prepare_join.check(keys, machine.paths)
        pem = daemon_setup.check(setup, machine)
        self._attempt = attempt = Attempt.begin(machine, setup.cluster_name)
        try:
            prepare_join.apply(keys, machine, attempt)
            daemon_setup.write(setup, pem, machine, attempt.files)
            with attempt.files.syncing():
                if setup.start_node_daemon:
                    attempt.start_daemons()
                    daemon_setup.start_node_daemon(machine)
        except (GanetiError, OSError) as err:
            self.take_back()
            raise err if isinstance(err, GanetiError) else GanetiError(f"The node could not be set up: {err}") from err

    def ask_cluster(self) -> None:
        """The master is about to: from now on, only what the cluster says takes anything back. Raises `OSError`."""
        if self._attempt is not None:
            self._attempt.ask_cluster()

    def start_answering(self) -> None:
        """Start what answers others besides the node daemon, unless the machine has left the cluster meanwhile."""
        daemon_setup.start_answering(self._machine)

    def keep(self) -> None:
        """The machine is a node."""
        if self._attempt is not None:
            self._attempt.keep()

    def leave(self) -> None:
        """Nobody has said how the job ended: the watcher asks the cluster later."""
        if self._attempt is not None:
            self._attempt.leave()

    def take_back(self) -> None:
        """Leave files, keys and daemons as they were; what the daemons have written meanwhile goes, too."""
        if self._attempt is not None:
            self._attempt.take_back()


def converse(machine: Machine, heard: IO[bytes], said: IO[bytes]) -> None:
    """Join as the master on the other side says. Raises what setting up raises, after telling the master."""
    _say(said, {"state": READY})
    line = heard.readline()
    if not line.strip():
        return  # what the master would have refused, it has refused meanwhile
    joining = JoiningMachine(machine)
    try:
        joining.set_up(join_input.decode_joining(line))
    except GanetiError as err:
        _say(said, {"error": str(err)})
        raise
    with suppress(OSError):
        _say(said, {"error": None})
    verdict = settle(joining, heard, partial(_say, said))
    with suppress(OSError):
        _say(said, {"state": KEEP if verdict == KEEP else TAKE_BACK})
    if verdict != TAKE_BACK:
        machine.leave_behind(joining.start_answering)


def settle(joining: JoiningMachine, heard: Iterable[bytes], say: Callable[[dict[str, Any]], None]) -> str:
    """Hear from the master whether the cluster has taken the machine in, and take everything back where it has not.

    Gives `KEEP`, `TAKE_BACK`, or `ASKED`: the connection broke before the end of the job was told, all stays.
    """
    is_asked, keeps = _hear_verdict(joining, heard, say)
    if keeps:
        joining.keep()
        return KEEP
    if keeps is None and is_asked:
        joining.leave()
        return ASKED
    joining.take_back()
    return TAKE_BACK


def _hear_verdict(
    joining: JoiningMachine, heard: Iterable[bytes], say: Callable[[dict[str, Any]], None]
) -> tuple[bool, bool | None]:
    """Whether the cluster was asked to take the machine in, and whether it has; None where nobody says so."""
    is_asked = False
    with suppress(OSError):
        for line in heard:
            try:
                word = json.loads(line)["state"]
            except (*UNREADABLE_JSON, LookupError, TypeError):
                break  # a connection that broke within a line
            if word == ASKED:
                joining.ask_cluster()
                is_asked = True
                say({"state": ASKED})
            elif word in (KEEP, TAKE_BACK):
                return is_asked, word == KEEP
    return is_asked, None


def _say(said: IO[bytes], message: dict[str, Any]) -> None:
    said.write(json.dumps(message).encode() + b"\n")
    said.flush()
