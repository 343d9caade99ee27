# SPDX-License-Identifier: BSD-2-Clause
"""The vote of the master candidates that the master's daemons must win before they serve (protocols, section 1)."""

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Mapping

from ganeti.base.errors import EXIT_NOT_MASTER, GanetiError, NodeTimeoutError, NodeUnreachableError
from ganeti.base.version import RELEASE
from ganeti.master.config.vote import ANOTHER, Verdict, count_votes, explain, vote_of
from ganeti.master.mastership.conduct import LOOK_EPOCH
from ganeti.model.configuration import Configuration
from ganeti.model.node_calls.mastership import MasterNodeName
from ganeti.model.node_calls.replica import Promise
from ganeti.model.objects import Node
from ganeti.ports.nodes import NodesPort, ask
from ganeti.system.daemonize import DaemonRefused

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
    """Ask the candidates who is master; raises `DaemonRefused` unless a majority names this node."""
    me = config.node(config.cluster.master_node)
    voters = [node for node in config.nodes() if node.master_candidate and not node.offline]
    if [node.uuid for node in voters] == [me.uuid]:
        return
    votes: dict[str, str | None] = {}
    for round_number in range(VOTING_ROUNDS):
        if round_number:
            await pause(VOTING_PAUSE_S)
        asked = _Round(config, nodes, voters)
        votes = await asked.gather()
        if asked.is_outdated:
            raise DaemonRefused(
                "this node is the master no longer: its copy has got another's records since it was read",
                EXIT_NOT_MASTER,
            )
        verdict = count_votes(votes, me.name)
        if verdict is Verdict.ELECTED:
            return
        if verdict is Verdict.REJECTED:
            raise DaemonRefused(
                f"this node is not the master to the others: {explain(votes, me.name)}{_way_out(votes, me.name)}",
                EXIT_NOT_MASTER,
            )
        _log.warning("No majority of the master candidates has answered: %s", explain(votes, me.name))
    raise DaemonRefused(
        f"no majority of the master candidates has answered ({explain(votes, me.name)}){_way_out(votes, me.name)}; if "
        "this node is the master beyond doubt, start with --no-voting --yes-do-it"
    )


def _way_out(votes: Mapping[str, str | None], own_name: str) -> str:
    """Who is named may have been interrupted before it served, or have died since."""
    others = sorted({name for name in votes.values() if name not in (None, own_name, ANOTHER)})
    if not others:
        return ""
    named = " or ".join(str(name) for name in others)
    return (
        f". If {named} does not serve as the master, run daemon-util start-master there; if that cannot be, "
        "gnt-cluster master-failover here"
    )


class _Round:
    """Asks all at once, no longer than it takes to decide: a node that is away must not hold up the others."""

    def __init__(self, config: Configuration, nodes: NodesPort, voters: list[Node]) -> None:
        self._config = config
        self._nodes = nodes
        self._voters = voters
        self._me = config.node(config.cluster.master_node)
        self._names = {node.uuid: node.name for node in config.nodes()}
        self._votes: dict[str, str | None] = {node.name: None for node in voters}
        self._left = len(voters)
        self._decided = asyncio.Event()
        self.is_outdated = False
        """This node's own copy is of a later epoch, because another node was master meanwhile. Later records of the
        same epoch are this node's own: jobs go on changing things while LuxiD starts."""

    async def gather(self) -> dict[str, str | None]:
        asking = [asyncio.ensure_future(self._ask(node)) for node in self._voters]
        try:
            await self._decided.wait()
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        return dict(self._votes)

    async def _ask(self, node: Node) -> None:
        try:
            self._votes[node.name] = await self._vote(node)
        except GanetiError as err:
            _log.debug("%s has not voted: %s", node.name, err)
        finally:
            self._left -= 1
            if not self._left or count_votes(self._votes, self._me.name) is not Verdict.OPEN:
                self._decided.set()

    async def _vote(self, node: Node) -> str | None:
        try:
            told = await ask(
                self._nodes,
                node.uuid,
                Promise(
                    cluster=self._config.cluster.uuid,
                    software=RELEASE,
                    epoch=LOOK_EPOCH,
                    master=self._me.uuid,
                    time_s=time.time(),
                    ask_only=True,
                ),
            )
        except (NodeUnreachableError, NodeTimeoutError):
            raise
        except GanetiError as err:
            _log.debug("%s promises nothing to anybody: %s", node.name, err)
            return await ask(self._nodes, node.uuid, MasterNodeName())
        if node is self._me and told.position is not None and told.position[0] > self._config.position[0]:
            self.is_outdated = True
        return vote_of(told, node.uuid, self._me.uuid, self._config.position[0], self._names)
