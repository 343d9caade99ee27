# SPDX-License-Identifier: BSD-2-Clause
"""`daemon-util start-master`: starts the master's daemons, finishes an interrupted take-over, or says where to go."""

import sys
from collections.abc import Sequence

from ganeti.base.errors import EXIT_NO_CLUSTER, EXIT_NOT_MASTER, GanetiError
from ganeti.tools.node_daemons import Node

BESIDE = ("ganeti-rapi", "ganeti-maintd")
"""Without them jobs run as well: no other daemon waits for them."""


VOTERS = ("ganeti-wconfd", "ganeti-luxid", "ganeti-maintd")
"""They ask the candidates who is master before they serve, unless their arguments say that this is known."""


def start_master(node: Node, names: Sequence[str], for_voters: Sequence[str] = ()) -> int:
    """Start the daemons of the master, and say what was done or why not; exit status 0 only if all run.

    Those that hold a vote get the arguments *for_voters*.
    """
    if not node.is_master():
        return _start_elsewhere(node)
    names = [name for name in names if node.command(name)]
    running = [name for name in names if node.is_running(name)]
    for name in names:
        status = node.start(name, for_voters if name in VOTERS else ())
        if status and name == "ganeti-wconfd" and (own := node.own_mastership()).may_go_on:
            return _go_on(node, own.promised)
        if status == EXIT_NOT_MASTER or (status and not node.is_master()):
            return EXIT_NOT_MASTER  # what the daemon said of it stands above
        if status:
            print(f"daemon-util: {name} did not start (exit status {status})", file=sys.stderr)
            if name in BESIDE:
                continue
            return status if status == EXIT_NO_CLUSTER else 1  # the others would wait for this one
    started = [name for name in names if name not in running and node.is_running(name)]
    if not started and not running:
        print("daemon-util: nothing was started: no daemon of the master is installed beside it", file=sys.stderr)
        return 1
    print(f"Started {' and '.join(started)}" if started else "The daemons of the master run already")
    return 0


def _go_on(node: Node, epoch: int) -> int:
    print("This node has begun to become the master and was interrupted: it continues now", file=sys.stderr)
    try:
        return node.finish_take_over(epoch)
    except GanetiError as err:
        print(f"daemon-util: {err}", file=sys.stderr)
        return 1


def _start_elsewhere(node: Node) -> int:
    """This node is not the master: finish what would make it so, or say where to go."""
    own = node.own_mastership()
    if own.is_unfinished:
        if node.is_running("ganeti-wconfd"):
            print(
                "daemon-util: nothing was started: this node is becoming the master at this moment, and ganeti-wconfd "
                "starts already. Look with gnt-cluster getmaster",
                file=sys.stderr,
            )
            return 1
        return _go_on(node, own.promised)
    if own.master:
        print(
            f"daemon-util: nothing was started: this node, {node.name}, is not the master, that is {own.master}. "
            f"If {own.master} is gone, run gnt-cluster master-failover on a master candidate",
            file=sys.stderr,
        )
        return EXIT_NOT_MASTER
    if node.missing_files():
        print(
            "daemon-util: nothing was started: this machine is in no cluster, create one with gnt-cluster init",
            file=sys.stderr,
        )
        return EXIT_NO_CLUSTER
    print(
        "daemon-util: nothing was started: no file of this node says who is the master. Look on another node with "
        "gnt-cluster getmaster",
        file=sys.stderr,
    )
    return EXIT_NOT_MASTER
