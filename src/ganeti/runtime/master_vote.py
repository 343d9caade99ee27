# SPDX-License-Identifier: BSD-2-Clause
"""The vote of the master candidates that the master's daemons must win before they serve (protocols, section 1)."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable

from ganeti.base.errors import EXIT_NOT_MASTER, GanetiError
from ganeti.master.config.vote import Verdict, count_votes, explain
from ganeti.model.configuration import Configuration
from ganeti.model.objects import Node
from ganeti.ports.nodes import NodesPort
from ganeti.runtime.daemonize import DaemonRefused

_log = logging.getLogger(__name__)
VOTING_ROUNDS = 6
VOTING_PAUSE_S = 10.0


def add_voting_options(parser: argparse.ArgumentParser) -> None:
    """The options by which a human answers instead of the candidates."""
    parser.add_argument("--no-voting", action="store_true", help="do not ask the nodes who is master")
    parser.add_argument("--yes-do-it", action="store_true", help="confirm --no-voting")


def voting_is_settled(name: str, options: argparse.Namespace) -> bool:
    """False, with a sentence on standard error, if `--no-voting` was given and not confirmed."""
    if options.no_voting and not options.yes_do_it:
        print(f"{name}: --no-voting leaves out the question who is master: confirm with --yes-do-it", file=sys.stderr)
        return False
    return True


async def win_vote(
    config: Configuration,
    nodes: NodesPort,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Ask the other candidates who is master; raises `DaemonRefused` unless a majority names this node."""
    me = config.node(config.cluster.master_node)
    others = [node for node in config.nodes() if node.master_candidate and not node.offline and node.uuid != me.uuid]
    votes: dict[str, str | None] = {}
    for round_number in range(VOTING_ROUNDS):
        if round_number:
            await pause(VOTING_PAUSE_S)
        votes = await _gather_votes(nodes, others, me.name)
        verdict = count_votes(votes, me.name)
        if verdict is Verdict.ELECTED:
            return
        if verdict is Verdict.REJECTED:
            raise DaemonRefused(
                f"this node is not the master to the others: {explain(votes, me.name)}", EXIT_NOT_MASTER
            )
        _log.warning("No majority of the master candidates has answered: %s", explain(votes, me.name))
    raise DaemonRefused(
        f"no majority of the master candidates has answered ({explain(votes, me.name)}): if this node is the master "
        "beyond doubt, start with --no-voting --yes-do-it"
    )


async def _gather_votes(nodes: NodesPort, others: list[Node], own_name: str) -> dict[str, str | None]:
    """Ask all at once, no longer than it takes to decide: a node that is away must not hold up the others."""
    votes: dict[str, str | None] = {node.name: None for node in others}

    async def ask(node: Node) -> None:
        try:
            answer = await nodes.call(node.uuid, "master_node_name")
        except GanetiError:
            return
        votes[node.name] = answer if isinstance(answer, str) else None

    pending = {asyncio.ensure_future(ask(node)) for node in others}
    try:
        while pending and count_votes(votes, own_name) is Verdict.OPEN:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    return votes
