# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-mond: tells over HTTP how this node and its guests are (S2.17)."""

import asyncio
import sys
from collections.abc import Sequence
from functools import partial

import ganeti.node.hypervisors
from ganeti.base.paths import Paths
from ganeti.base.registry import import_all
from ganeti.calls.confd_client import ConfdClient
from ganeti.daemons.node_daemon import ClusterKey, options_of
from ganeti.mond.answers import PORT, answer
from ganeti.mond.cluster import ConfdView
from ganeti.mond.guest_end_reports import GuestEndReporter, GuestEnds
from ganeti.mond.monitor import Monitor
from ganeti.mond.node import Node
from ganeti.mond.noded_probes import NodedProbes, asked_key
from ganeti.node.collectors.local_probes import LocalProbes
from ganeti.node.collectors.probes import Probes
from ganeti.node.hypervisors.interface import Hypervisor
from ganeti.noded.access import own_name
from ganeti.noded.world import RealNodeWorld
from ganeti.system import accounts
from ganeti.system.daemonize import Daemon, run_daemon
from ganeti.system.environment import any_address
from ganeti.system.event_loop import Background
from ganeti.system.flight_record import FlightRecord
from ganeti.system.http_server import HttpServer
from ganeti.system.ssconf import ssconf_words
from ganeti.wire.confd import PORT as CONFD_PORT

NAME = "ganeti-mond"
_CONFD_WITHIN_S = 3.0
"""Shorter than a client waits for a report."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(NAME, PORT, arguments)
    return 1 if options is None else run_daemon(NAME, options, serve)


async def serve(daemon: Daemon) -> None:
    paths = daemon.environment.paths
    name = own_name(paths)
    import_all(ganeti.node.hypervisors)
    hypervisors, ssconf = sorted(Hypervisor.registry.items()), partial(ssconf_words, paths)
    if accounts.are_used(paths.root):
        probes: Probes = NodedProbes(paths)
        key = await asyncio.to_thread(ClusterKey, paths, asked_key)
    else:
        world = RealNodeWorld(paths, name)
        probes, key = LocalProbes(paths, [driver(world) for _, driver in hypervisors], ssconf), ClusterKey(paths)
    view = ConfdView(partial(_confds, paths, key), name)
    record = FlightRecord(paths.log_dir, "monitoring-daemon")
    names = [own for own, _ in hypervisors]
    node = Node(name, view, names, probes, lambda: key().strip(), ssconf, record=record)
    reporter, ends = GuestEndReporter(name, partial(ssconf, "master_ip"), node.key), GuestEnds(node.look)
    node.tell, node.follow = reporter.tell, ends.follow
    monitor = Monitor(node)
    address = daemon.options.bind or any_address(paths)
    server = HttpServer(partial(answer, monitor), address=address, port=daemon.options.port, tls=None)
    await server.start()
    daemon.log.info("answers on port %d", server.port)
    background = Background()
    background.start(view.follow(), "the settings of collectors")
    monitor.start()
    daemon.ready()
    await daemon.stopping.wait()
    await server.close()
    await background.cancel()
    await monitor.close()
    await ends.close()
    await reporter.close()
    record.close()


def _confds(paths: Paths, key: ClusterKey) -> ConfdClient:
    places = [(address, CONFD_PORT) for address in ssconf_words(paths, "master_candidates_ips")]
    return ConfdClient(places, key(), _CONFD_WITHIN_S)


if __name__ == "__main__":
    sys.exit(main())
