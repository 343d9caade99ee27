# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-maintd: looks after the nodes, on the master (S4.23-S4.26)."""

import argparse
import functools
import sys
import time
from collections.abc import Sequence

from ganeti.base.errors import EXIT_NOT_MASTER
from ganeti.base.paths import Paths
from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.daemon_commits import DaemonCommits
from ganeti.calls.luxi_client import LuxiClient
from ganeti.calls.maintenance_reports import PORT
from ganeti.daemons.master_checks import check_node
from ganeti.daemons.master_start import Mastery, as_master
from ganeti.daemons.node_daemon import ClusterKey
from ganeti.maintd.answers import Answers
from ganeti.maintd.guest_ends import GuestEndReceiver, exclusively_held
from ganeti.maintd.losses import LossReceiver
from ganeti.maintd.report_polling import ReportPoller
from ganeti.maintd.rounds import Maintenance
from ganeti.model.node_calls.node import WatcherRun
from ganeti.ports.nodes import ask
from ganeti.system.daemonize import Daemon, daemon_parser, parse_options, run_daemon
from ganeti.system.environment import Environment
from ganeti.system.http_client import HttpClient
from ganeti.system.http_server import HttpServer
from ganeti.system.livelock import LiveLock
from ganeti.wconfd.master_vote import add_voting_options, voting_is_settled
from ganeti.wire.guest_report import LARGEST_BYTES

NAME = "ganeti-maintd"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_options(NAME, sys.argv[1:] if arguments is None else arguments, make_parser())
    if not voting_is_settled(NAME, options):
        return 1
    if not 0 <= options.port <= 65535:
        print(f"{NAME}: Port {options.port} is not between 0 and 65535", file=sys.stderr)
        return 1

    def before_loop(environment: Environment) -> None:
        check_node(environment, by_ssconf=not options.no_voting)

    return run_daemon(NAME, options, serve, before_loop)


def make_parser() -> argparse.ArgumentParser:
    parser = daemon_parser(NAME)
    add_voting_options(parser)
    parser.add_argument("--no-watcher", action="store_true", help="leave guests that end to the watcher's usual round")
    parser.set_defaults(port=PORT)
    return parser


async def serve(daemon: Daemon) -> None:
    async with as_master(daemon) as given:
        await _look_after(daemon, given)


async def _look_after(daemon: Daemon, given: Mastery) -> None:
    """Work and answer until the daemon is told to stop, or another node is the master."""
    paths, follower, background = daemon.environment.paths, given.follower, given.background
    lock = LiveLock(_lock_path(paths))
    client = HttpClient(None, functools.partial(_address_of, follower))
    key = ClusterKey(paths)
    poller = ReportPoller(client, lambda: key().strip(), time.time)
    luxi = LuxiClient(paths)
    ends = GuestEndReceiver(
        lambda: follower.configuration,
        functools.partial(_locks_held, luxi),
        functools.partial(_run_watcher, given),
        lambda: key().strip(),
    )
    commits = DaemonCommits(given.wconfd, lock.path)
    losses = LossReceiver(lambda: follower.configuration, commits.commit, lambda: key().strip())
    answers = Answers(
        lambda: follower.configuration,
        lambda: poller.refused + ends.refused + losses.refused,
        ends.hear,
        losses.hear,
    )
    address = daemon.options.bind or follower.configuration.cluster.master_ip
    ahead = daemon.options.bind is None
    server = HttpServer(
        answers.answer,
        address=address,
        port=daemon.options.port,
        tls=None,
        early=ahead,
        body_limit_bytes=LARGEST_BYTES,
    )
    await server.start()
    daemon.log.info("answers on %s port %d", address, server.port)

    def stop_if_deposed() -> None:
        config = follower.configuration
        if not daemon.environment.is_named(config.node(config.cluster.master_node).name):
            daemon.stop_with(EXIT_NOT_MASTER)

    follower.changed = stop_if_deposed
    maintenance = Maintenance(follower, commits, luxi, poller)
    background.start(maintenance.run(), "maintenance")
    if not daemon.options.no_watcher:
        background.start(ends.run(), "guests that ended")
    daemon.ready()
    await daemon.stopping.wait()
    await server.close()
    await background.cancel()
    await client.close()
    lock.remove()


async def _locks_held(luxi: LuxiClient) -> frozenset[str]:
    found = await luxi.call("Query", "lock", ["name", "mode"], None, only_asks=True)
    return exclusively_held(found["data"])


async def _run_watcher(given: Mastery, group: str) -> bool:
    """By the node daemon here: the watcher is root."""
    master = given.follower.configuration.cluster.master_node
    return await ask(given.nodes, master, WatcherRun(group=group))


def _address_of(follower: ConfigFollower, name: str) -> str:
    config = follower.configuration
    uuid = config.uuid_by_name("nodes", name)
    return config.node(uuid).primary_ip if uuid is not None else name


def _lock_path(paths: Paths) -> str:
    """A path that was never used before: lock files are never used twice (S2.34)."""
    return f"{paths.livelock_dir}/maint-daemon_{time.time_ns()}"


if __name__ == "__main__":
    sys.exit(main())
