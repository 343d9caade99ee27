# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-wconfd: the configuration and the locks of the cluster, on the master (D6)."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from ganeti.base.errors import EXIT_NOT_MASTER, PrerequisiteError
from ganeti.bootstrap.own_mastership import is_master
from ganeti.calls.node_client import NodeClient
from ganeti.master.replication.followers import Timing
from ganeti.model.configuration import Configuration
from ganeti.ports.nodes import NodesPort
from ganeti.stores.damage import damage_of_configuration, damage_of_locks
from ganeti.system.daemonize import Daemon, daemon_parser, parse_options, run_daemon
from ganeti.system.event_loop import Background, uncollected
from ganeti.wconfd.master_vote import add_voting_options, voting_is_settled, win_vote
from ganeti.wconfd.reclaiming import reclaim
from ganeti.wconfd.service import Service
from ganeti.wconfd.start import Opened, check_master, make_directories, open_configuration, own_node

NAME = "ganeti-wconfd"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_options(NAME, sys.argv[1:] if arguments is None else arguments, make_parser())
    if not voting_is_settled(NAME, options):
        return 1
    return run_daemon(NAME, options, serve)


def make_parser() -> argparse.ArgumentParser:
    parser = daemon_parser(NAME)
    add_voting_options(parser)
    parser.add_argument("--force-node", action="store_true", help="run although this node is not the master")
    parser.add_argument(
        "--epoch",
        type=int,
        metavar="NUMBER",
        help="begin this epoch, promised by the candidates, with this node as master",
    )
    parser.add_argument(
        "--members", metavar="UUID,...", help="with --epoch: the nodes in sync by the newest membership they reported"
    )
    parser.add_argument(
        "--away",
        metavar="UUID,...",
        default="",
        help="with --epoch: members that did not answer, so are not waited for",
    )
    return parser


@dataclass(frozen=True)
class Term:
    """How this node is to be the master."""

    epoch: int | None = None
    """The epoch to begin; None to go on with the one that has begun."""
    members: Sequence[str] | None = None
    away: Sequence[str] = ()
    is_settled: bool = False
    """No vote is needed: a human, or the promises of the candidates, have said so."""
    forced: bool = False


async def serve(daemon: Daemon) -> None:
    """Serve until told to stop; where the candidates follow only a new epoch, begin it in the same process."""
    make_directories(daemon.environment.paths)
    daemon.hold_alone(daemon.environment.paths.data_dir)
    options = daemon.options
    term: Term | None = Term(
        options.epoch,
        options.members.split(",") if options.members else None,
        options.away.split(","),
        options.no_voting,
        options.no_voting and options.epoch is None,
    )
    while term is not None:
        term = await _Serving(daemon).run(term)


class _Serving:
    """One term; ends with the next one, or with none when the daemon is to end."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._background = Background()
        self._over = asyncio.Event()
        self._next: Term | None = None

    async def run(self, term: Term) -> Term | None:
        paths = self._daemon.environment.paths
        with uncollected(), damage_of_configuration(paths):
            opened = open_configuration(paths)
        config = opened.loaded.config
        nodes = NodeClient(paths, lambda: config)
        stopping = self._background.start(self._daemon.stopping.wait(), "waiting for the end")
        stopping.add_done_callback(lambda _: self._over.set())
        try:
            _become_master(self._daemon, opened, term)
            if not term.is_settled:
                is_master(paths, self._daemon.environment.hostname)  # this node's vote is the master its ssconf names
                await win_vote(config, nodes)
            opened.accept()
            with uncollected(), damage_of_locks():
                service = Service(
                    paths,
                    opened,
                    nodes,
                    on_deposed=self._deposed,
                    on_reclaim=lambda: self._reclaim(config, nodes),
                    forced=term.forced,
                    timing=Timing(away=tuple(term.away)),
                )
            try:
                await self._serve(service)
            finally:
                await service.stop()
        finally:
            await self._background.cancel()
            await nodes.close()
        return None if self._daemon.stopping.is_set() else self._next

    async def _serve(self, service: Service) -> None:
        """Return when the term is over, also before the copies have what they lack, which takes as long as it takes."""
        starting = asyncio.ensure_future(service.start())
        over = asyncio.ensure_future(self._over.wait())
        over.add_done_callback(lambda _: starting.cancel())
        try:
            await starting
        except asyncio.CancelledError:
            if not self._over.is_set():
                raise
            return
        finally:
            over.cancel()
        if not self._daemon.is_ready:
            self._daemon.ready()
        await self._over.wait()

    def _deposed(self, _: str) -> None:
        self._background.start(_end_as_deposed(self._daemon), "end of the master's daemons")

    def _reclaim(self, config: Configuration, nodes: NodesPort) -> None:
        self._background.start(self._begin_anew(config, nodes), "asking for a new epoch")

    async def _begin_anew(self, config: Configuration, nodes: NodesPort) -> None:
        try:
            begin = await reclaim(config, nodes)
        except PrerequisiteError as err:
            self._daemon.log.warning("The candidates that promised themselves away cannot be had back yet: %s", err)
            return
        self._next = Term(begin.epoch, begin.members, begin.away, is_settled=True)
        self._over.set()


async def _end_as_deposed(daemon: Daemon) -> None:
    """Let nothing of a master outlive this daemon: no process could ask it any more who is master."""
    from ganeti.noded.master_ending import end_master_daemons  # seldom needed, and slow to import

    daemon.status = EXIT_NOT_MASTER
    await end_master_daemons(daemon.environment.paths, besides=NAME)
    daemon.stop_with(EXIT_NOT_MASTER)


def _become_master(daemon: Daemon, opened: Opened, term: Term) -> None:
    """Begin the epoch of the term, and raise `DaemonRefused` unless this node is the master, and in sync."""
    config = opened.loaded.config
    if term.epoch is not None:
        opened.begin_epoch(term.epoch, own_node(daemon.environment, config), term.members)
    if not daemon.options.force_node:
        check_master(daemon.environment, config)
    opened.check_member(forced=daemon.options.no_voting)


if __name__ == "__main__":
    sys.exit(main())
