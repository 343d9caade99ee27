# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-wconfd: the configuration and the locks of the cluster, on the master (D6)."""

import argparse
import sys
from collections.abc import Sequence

from ganeti.runtime.daemonize import Daemon, daemon_parser, parse_options, run_daemon
from ganeti.runtime.damage import damage_of_configuration, damage_of_locks
from ganeti.runtime.master_vote import add_voting_options, voting_is_settled, win_vote
from ganeti.runtime.node_client import NodeClient
from ganeti.runtime.wconfd_service import Service
from ganeti.runtime.wconfd_start import check_master, make_directories, open_configuration

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
    try:
        if not daemon.options.force_node:
            check_master(daemon.environment, config)
        if not daemon.options.no_voting:
            await win_vote(config, nodes)
        opened.accept()
        with damage_of_locks():
            service = Service(paths, opened, nodes)
        await service.start()
        daemon.ready()
        await daemon.stopping.wait()
        await service.stop()
    finally:
        await nodes.close()


if __name__ == "__main__":
    sys.exit(main())
