# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-luxid: the job queue and all queries, on the master (S2.4, S2.5)."""

import argparse
import gc
import os
import sys
import time
from collections.abc import Sequence

from ganeti.base.errors import GanetiError
from ganeti.base.paths import Paths
from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.daemon_commits import DaemonCommits
from ganeti.calls.node_client import NodeClient
from ganeti.calls.serving import handlers_of, stream_of
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.daemons.master_checks import check_node
from ganeti.daemons.master_start import as_master
from ganeti.luxid.event_stream import SUBSCRIBE, EventHub, QueueJobs, feed
from ganeti.luxid.explain_calls import ExplainCalls
from ganeti.luxid.filter_calls import FilterCalls
from ganeti.luxid.hook_calls import HookCalls
from ganeti.luxid.maintenance_calls import MaintenanceCalls
from ganeti.luxid.own_address import take_address
from ganeti.luxid.placement.capacities import Capacities
from ganeti.luxid.placement.placements import Placements
from ganeti.luxid.queries.group_states import GroupStates
from ganeti.luxid.queries.sources import QuerySources
from ganeti.luxid.query_calls import QueryCalls
from ganeti.luxid.queue.driver import QueueDriver
from ganeti.luxid.queue.rules import limits
from ganeti.luxid.queue.spawner_client import SpawnerClient
from ganeti.luxid.queue_calls import QueueCalls
from ganeti.luxid.recording import RecordCalls, Recorder
from ganeti.luxid.server import LuxiServer
from ganeti.master.locks.owners import Owner
from ganeti.master.queue.machine import QueueMachine
from ganeti.node.catalogue import build_catalogue
from ganeti.stores.job_files import JobFiles
from ganeti.system.daemonize import Daemon, daemon_parser, parse_options, run_daemon
from ganeti.system.environment import Environment
from ganeti.system.event_loop import Background
from ganeti.system.flight_record import FlightRecord
from ganeti.system.livelock import LiveLock, job_lock_path
from ganeti.system.unix_socket import allow_many_connections
from ganeti.wconfd.master_vote import add_voting_options, voting_is_settled

NAME = "ganeti-luxid"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_options(NAME, sys.argv[1:] if arguments is None else arguments, make_parser())
    if not voting_is_settled(NAME, options):
        return 1
    spawner = SpawnerClient(debug=options.debug)

    def before_loop(environment: Environment) -> None:
        check_node(environment, by_ssconf=not options.no_voting)
        spawner.launch()

    async def serve_queue(daemon: Daemon) -> None:
        await serve(daemon, spawner)

    return run_daemon(NAME, options, serve_queue, before_loop)


def make_parser() -> argparse.ArgumentParser:
    parser = daemon_parser(NAME)
    add_voting_options(parser)
    return parser


async def serve(daemon: Daemon, spawner: SpawnerClient) -> None:
    async with as_master(daemon) as given:
        paths = daemon.environment.paths
        JobFiles(paths).prepare()
        daemon.hold_alone(paths.queue_dir)
        if not daemon.options.no_voting and not paths.root:  # the command that starts it so takes the address itself
            address = take_address(paths, given.follower.configuration.cluster, given.nodes)
            given.background.start(address, "taking the cluster's address")
        release = OwnerRelease(paths, given.wconfd, given.background)
        await serve_clients(daemon, spawner, given.follower, given.nodes, release)


async def serve_clients(
    daemon: Daemon, spawner: SpawnerClient, follower: ConfigFollower, nodes: NodeClient, owners: "OwnerRelease"
) -> None:
    """Take up the queue and answer, until the daemon is told to stop."""
    paths = daemon.environment.paths
    lock = LiveLock(own_lock_path(paths))
    machine = QueueMachine(lock.path, limits(follower.configuration))
    queue = QueueDriver(paths, machine, spawner, owners.wconfd, follower, owners.release)
    queue.rules.apply()
    follower.changed = queue.rules.apply
    catalogue = build_catalogue()
    sources = QuerySources(follower, queue, owners.wconfd, catalogue, nodes)
    placement = Placements(follower, owners.wconfd, sources.asker, catalogue, paths.wconfd_socket, cache=sources.cache)
    commits = DaemonCommits(owners.wconfd, lock.path)
    filters = FilterCalls(owners.wconfd, commits, follower, lambda: queue.next_id - 1)
    queue_calls = QueueCalls(paths, queue)
    queries = QueryCalls(paths, sources)
    explanations = ExplainCalls(queue, owners.wconfd, lambda: follower.configuration)
    maintenance = MaintenanceCalls(follower, placement)
    capacities = Capacities(follower, owners.wconfd, sources.cache, placement.renew_reports)
    groups = GroupStates(follower, owners.wconfd, sources)
    events = EventHub(QueueJobs(queue), follower, catalogue, paths.wconfd_socket, lambda: sources.asker.silent)
    feed(events, queue, follower, sources.asker)
    record = FlightRecord(paths.log_dir, "luxi-daemon")
    Recorder(record, QueueJobs(queue), follower, sources.asker).listen(queue)
    stories = RecordCalls(follower, sources.asker)
    calls = queries.of_resources() | handlers_of(
        *(queue_calls, queries, filters, explanations, stories, placement, capacities, groups, maintenance),
        HookCalls(nodes),
    )
    server = LuxiServer(calls, {SUBSCRIBE: stream_of(SUBSCRIBE, events.serve)})
    queue.start()
    await queue.confirm()
    allow_many_connections()
    for path in (paths.luxi_socket, paths.master_socket):
        await server.listen(path)
    gc.freeze()  # what there is by now stays: to look through it for garbage would stop the loop for 30 ms at a time
    daemon.ready()
    await daemon.stopping.wait()
    await server.close()
    await events.close()
    await queue.stop()
    await placement.close()
    await sources.close()
    record.close()
    lock.remove()


def own_lock_path(paths: Paths) -> str:
    """A path no LuxiD had before (S2.34): lock files are never used twice."""
    return f"{paths.livelock_dir}/luxi-daemon_{os.getpid()}_{time.time_ns()}"


class OwnerRelease:
    """Frees the locks of jobs whose process died: WConfD would find out as well, only later."""

    def __init__(self, paths: Paths, wconfd: WConfdClient, background: Background) -> None:
        self._paths = paths
        self.wconfd = wconfd
        self._background = background

    def release(self, job_id: int, attempts: int) -> None:
        self._background.start(self._release(job_id, attempts), f"freeing the locks of job {job_id}")

    async def _release(self, job_id: int, attempts: int) -> None:
        for attempt in range(1, attempts + 1):
            path = job_lock_path(self._paths.livelock_dir, job_id, attempt)
            try:
                await self.wconfd.free_locks(Owner(job_id, path))
            except GanetiError as err:
                raise GanetiError(f"locks of job {job_id} could not be freed now: {err}") from err


if __name__ == "__main__":
    sys.exit(main())
