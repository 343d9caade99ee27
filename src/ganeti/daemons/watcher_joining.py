# SPDX-License-Identifier: BSD-2-Clause
"""What the watcher does with a joining that was interrupted on this machine (`bootstrap.attempt`).

One that died before the cluster was asked is taken back at once. After that, its job may still run, or wait for locks:
after an hour the ConfDs of the candidates say whether this machine is a node. Where none answers, everything stays.
"""

import logging
import time
from collections.abc import Callable

from ganeti.base.errors import GanetiError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.bootstrap.attempt import NODE_DAEMON, Attempt, take_back_interrupted
from ganeti.bootstrap.machine import Machine
from ganeti.calls.confd_client import ConfdClient, SilentError
from ganeti.daemons.node_daemon import cluster_key, ssconf_words
from ganeti.noded.access import own_name
from ganeti.wire.confd import PORT, Kind

JOB_WITHIN_S = 3600.0
"""How long the job of a joining may wait; one that runs later finds no node daemon here and fails."""
_log = logging.getLogger(__name__)


def ask_membership(paths: Paths, node_name: str) -> bool | None:
    """Whether the candidates know this machine as a node; None where nobody says it.

    One of them may have no copy of the configuration yet: a node of which nothing is known, by somebody who knows the
    addresses of others, is none.
    """
    places = [(address, PORT) for address in ssconf_words(paths, "master_candidates_ips")]
    try:
        client = ConfdClient(places, cluster_key(paths))
        end_s = client.deadline_s()
        if client.ask(Kind.NODE_ROLE, node_name, end_s) is not None:
            return True
        return False if client.ask(Kind.NODE_ADDRESSES, None, end_s) else None
    except (OSError, SilentError, GanetiError) as err:
        _log.warning("no ConfD says whether this machine is a node: %s", err)
        return None


def end_joining(
    machine: Machine,
    ask: Callable[[Paths, str], bool | None] = ask_membership,
    now_s: Callable[[], float] = time.time,
) -> None:
    """Take back what an interrupted joining has left here, unless its job may have made this machine a node.

    What cannot be done is told in the log, and tried again in the next round: a node's daemons need this one.
    """
    try:
        _end_joining(machine, ask, now_s)
    except (GanetiError, OSError) as err:
        _log.error("what an interrupted joining has left here stays: %s", err)


def _end_joining(machine: Machine, ask: Callable[[Paths, str], bool | None], now_s: Callable[[], float]) -> None:
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
        if attempt.asked_at_s is not None and now_s() - attempt.asked_at_s > JOB_WITHIN_S:
            _settle(machine, attempt, lambda: ask(machine.paths, own_name(machine.paths)))
    finally:
        attempt.leave()


def _settle(machine: Machine, attempt: Attempt, ask: Callable[[], bool | None]) -> None:
    """Stop the node daemon before the answer that counts: without it, no job can take this machine in any more."""
    answer = ask()
    if answer is False:
        attempt.stop_daemons()
        answer = ask()
        if answer is False:
            attempt.take_back()
            _log.warning("the cluster has not taken this machine in: it is as it was before its joining")
            return
        machine.daemon_util("start", NODE_DAEMON)
    if answer:
        attempt.keep()
        _log.info("the cluster has taken this machine in: its joining has ended")
