# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-mirrord: keeps the copies of mirrored disks equal. It starts with the first one that is in use on the node."""

import asyncio
import sys
from collections.abc import Sequence
from functools import partial

from ganeti.base.paths import Paths
from ganeti.daemons.node_daemon import cluster_key, options_of
from ganeti.mirrord.disk import Surroundings
from ganeti.mirrord.loss_reports import LossReporter
from ganeti.mirrord.peers import Peers
from ganeti.mirrord.server import Server
from ganeti.node.storage.mirror.places import Places
from ganeti.node.storage.mirror.requests import PORT
from ganeti.noded.access import own_name
from ganeti.system.daemonize import Daemon, run_daemon
from ganeti.system.environment import any_address
from ganeti.system.ssconf import ssconf_words
from ganeti.system.tls import ServerFiles, server_context
from ganeti.system.unix_socket import allow_many_connections

NAME = "ganeti-mirrord"
_IDLE_S = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(NAME, PORT, arguments)
    return 1 if options is None else run_daemon(NAME, options, serve)


async def serve(daemon: Daemon) -> None:
    allow_many_connections()
    paths = daemon.environment.paths
    places = Places(paths)
    places.make_directory()
    tls = server_context(ServerFiles.of(paths))
    reporter = LossReporter(own_name(paths), partial(_master, paths), lambda: cluster_key(paths).strip())
    server = Server(Surroundings(places, Peers(paths), reporter=reporter))
    await server.start(daemon.options.bind or any_address(paths), daemon.options.port, tls)
    daemon.ready()
    while not daemon.stopping.is_set():
        try:
            await asyncio.wait_for(daemon.stopping.wait(), _IDLE_S)
        except TimeoutError:
            if server.is_idle:
                daemon.log.info("no mirrored disk is in use here any more")
                break
    server.close()
    await reporter.close()


def _master(paths: Paths) -> tuple[str, list[str]]:
    """The master's name, and where it answers."""
    return next(iter(ssconf_words(paths, "master_node")), ""), ssconf_words(paths, "master_ip")


if __name__ == "__main__":
    sys.exit(main())
