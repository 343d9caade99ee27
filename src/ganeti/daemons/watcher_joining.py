# SPDX-License-Identifier: BSD-2-Clause
"""What the watcher does with a joining that was interrupted on this machine (`bootstrap.attempt`).

One that died before the cluster was asked is taken back at once. After that, its job may still run, or wait for locks:
after an hour the ConfDs of the candidates say whether this machine is a node. Where another node has become the master
meanwhile, they are asked in the next round: the command that wanted the node has ended with its master. Where none
answers, everything stays.
"""

import logging
import time
from collections.abc import Callable

from ganeti.base.errors import GanetiError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.bootstrap.attempt import NODE_DAEMON, Attempt, take_back_interrupted
from ganeti.bootstrap.machine import Machine
from ganeti.calls.confd_client import ConfdClient, SilentError
from ganeti.daemons.node_daemon import cluster_key
from ganeti.noded.access import own_name
from ganeti.system.ssconf import ssconf_words
from ganeti.wire.confd import PORT, Kind

JOB_WITHIN_S = 3600.0
"""How long the job of a joining may wait; one that runs later finds no node daemon here and fails."""
_log = logging.getLogger(__name__)


def ask_membership(paths: Paths, node_name: str) -> bool | None:
    """Whether the candidates know this machine as a node; None where nobody says it.

    One of them may have no copy of the configuration yet: a node of which nothing is known, by somebody who knows the
    addresses of others, is none.
    """
    try:
        client = _client(paths)
        end_s = client.deadline_s()
        if client.ask(Kind.NODE_ROLE, node_name, end_s) is not None:
            return True
        return False if client.ask(Kind.NODE_ADDRESSES, None, end_s) else None
    except (OSError, SilentError, GanetiError) as err:
        _log.warning("no ConfD says whether this machine is a node: %s", err)
        return None


def ask_master(paths: Paths) -> str | None:
    """The name of the master by the candidates; None where nobody says it."""
    try:
        client = _client(paths)
        name = client.ask(Kind.MASTER, None, client.deadline_s())
    except (OSError, SilentError, GanetiError) as err:
        _log.warning("no ConfD says who is the master: %s", err)
        return None
    return name if isinstance(name, str) else None


def _client(paths: Paths) -> ConfdClient:
    places = [(address, PORT) for address in ssconf_words(paths, "master_candidates_ips")]
    return ConfdClient(places, cluster_key(paths))


def end_joining(
    machine: Machine,
    ask: Callable[[Paths, str], bool | None] = ask_membership,
    now_s: Callable[[], float] = time.time,
    master: Callable[[Paths], str | None] = ask_master,
) -> None:
    """Take back what an interrupted joining has left here, unless its job may have made this machine a node.

    What cannot be done is told in the log, and tried again in the next round: a node's daemons need this one.
    """
    try:
        _end_joining(machine, ask, now_s, master)
    except (GanetiError, OSError) as err:
        _log.error("what an interrupted joining has left here stays: %s", err)


def _end_joining(
    machine: Machine,
    ask: Callable[[Paths, str], bool | None],
    now_s: Callable[[], float],
    master: Callable[[Paths], str | None],
) -> None:
    try:
        if take_back_interrupted(machine):
            _log.warning("a joining was interrupted before the cluster was asked: this machine is as it was before")
            return
        attempt = Attempt.left_behind(machine)
    except PrerequisiteError as err:
        _log.info("%s", err)
        return
    if attempt is None:
        return
    try:
        if attempt.asked_at_s is not None:
            is_late = now_s() - attempt.asked_at_s > JOB_WITHIN_S
            if is_late or _is_abandoned(attempt, lambda: master(machine.paths)):
                _settle(machine, attempt, lambda: ask(machine.paths, own_name(machine.paths)), may_keep=is_late)
    finally:
        attempt.leave()


def _is_abandoned(attempt: Attempt, master: Callable[[], str | None]) -> bool:
    """Whether the master that asked is one no more, so that nobody waits for its job."""
    return bool(attempt.asked_by) and master() not in (None, attempt.asked_by)


def _settle(machine: Machine, attempt: Attempt, ask: Callable[[], bool | None], *, may_keep: bool) -> None:
    """Stop the node daemon before the answer that counts: without it, no job can take this machine in any more.

    One that is a node now is not one for good while its job can still fail (not *may_keep*): a later round asks again.
    """
    answer = ask()
    if answer is False:
        attempt.stop_daemons()
        answer = ask()
        if answer is False:
            attempt.take_back()
            _log.warning("the cluster has not taken this machine in: it is as it was before its joining")
            return
        machine.daemon_util("start", NODE_DAEMON)
    if answer and may_keep:
        attempt.keep()
        _log.info("the cluster has taken this machine in: its joining has ended")
