# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-wconfd: the configuration and the locks of the cluster, on the master (D6)."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from ganeti.base.errors import EXIT_NOT_MASTER
from ganeti.master.replication.followers import Timing
from ganeti.runtime.daemonize import Daemon, daemon_parser, parse_options, run_daemon
from ganeti.runtime.damage import damage_of_configuration, damage_of_locks
from ganeti.runtime.event_loop import Background
from ganeti.runtime.master_ending import end_master_daemons
from ganeti.runtime.master_vote import add_voting_options, voting_is_settled, win_vote
from ganeti.runtime.node_client import NodeClient
from ganeti.runtime.wconfd_service import Service
from ganeti.runtime.wconfd_start import Opened, check_master, make_directories, open_configuration, own_node

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


async def serve(daemon: Daemon) -> None:
    from ganeti.master import operations

    operations.load()
    paths = daemon.environment.paths
    make_directories(paths)
    with damage_of_configuration(paths):
        opened = open_configuration(paths)
    config = opened.loaded.config
    nodes = NodeClient(paths, lambda: config)
    background = Background()

    def deposed(_: str) -> None:
        background.start(_end_as_deposed(daemon), "end of the master's daemons")

    try:
        _become_master(daemon, opened)
        if not daemon.options.no_voting:
            await win_vote(config, nodes)
        opened.accept()
        with damage_of_locks():
            service = Service(
                paths,
                opened,
                nodes,
                on_deposed=deposed,
                forced=daemon.options.no_voting and daemon.options.epoch is None,
                timing=Timing(away=tuple(daemon.options.away.split(","))),
            )
        try:
            if await _start(daemon, service):
                daemon.ready()
                await daemon.stopping.wait()
        finally:
            await service.stop()
    finally:
        await background.cancel()
        await nodes.close()


async def _end_as_deposed(daemon: Daemon) -> None:
    """Let nothing of a master outlive this daemon: who would ask it who is master could not any more."""
    daemon.status = EXIT_NOT_MASTER
    await end_master_daemons(daemon.environment.paths, besides=NAME)
    daemon.stop_with(EXIT_NOT_MASTER)


def _become_master(daemon: Daemon, opened: Opened) -> None:
    """Begin the epoch that was asked for, and raise `DaemonRefused` unless this node is the master, and in sync."""
    options, config = daemon.options, opened.loaded.config
    if options.epoch is not None:
        members = options.members.split(",") if options.members else None
        opened.begin_epoch(options.epoch, own_node(daemon.environment, config), members)
    if not options.force_node:
        check_master(daemon.environment, config)
    opened.check_member(forced=options.no_voting)


async def _start(daemon: Daemon, service: Service) -> bool:
    """False if the daemon is told to stop before the copies have what they lack, which takes as long as it takes."""
    starting = asyncio.ensure_future(service.start())
    told = asyncio.ensure_future(daemon.stopping.wait())
    told.add_done_callback(lambda _: starting.cancel())
    try:
        await starting
    except asyncio.CancelledError:
        if not daemon.stopping.is_set():
            raise
        return False
    finally:
        told.cancel()
    return True


if __name__ == "__main__":
    sys.exit(main())
