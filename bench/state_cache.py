# SPDX-License-Identifier: BSD-2-Clause
"""What the cache of the cluster's state saves: node calls and CPU of lists looked at again, and of a count of capacity.

    .venv/bin/python bench/state_cache.py [NODES] [--bed | --count]

A real WConfD and LuxiD's query code over NODES (1,000) nodes that answer from this process; ten lists within the two
seconds an answer serves, as of somebody who watches. With ``--bed``, real commands on three fake nodes: CPU seconds of
their daemons. With ``--count``, a count of what fits, of mirrored pairs, over a picture that is there.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from measure import TREE, report

sys.path.insert(0, str(TREE))
NODES = int(next((word for word in sys.argv[1:] if word.isdigit()), "1000"))
LISTS = 10
FIELDS = {
    "node": ["name", "dtotal", "dfree", "mtotal", "mnode", "mfree", "pinst_cnt", "sinst_cnt"],
    "instance": ["name", "status", "oper_ram"],
}


class Nodes:
    """Stands for the nodes: each has a guest."""

    def __init__(self) -> None:
        self.calls = 0

    async def call_many(self, uuids: Any, call: str, *, deadline_s: float | None = None, **arguments: Any) -> Any:
        from ganeti.ports.nodes import NodeAnswer

        self.calls += len(uuids)
        return [NodeAnswer(uuid, self._answer(uuid, call)) for uuid in uuids]

    def _answer(self, uuid: str, call: str) -> Any:
        name = f"inst-{uuid}"
        from tests.fakes.node_answers import facts, found_instance

        guests = [found_instance(name, memory_mib=512)]
        if call == "all_instances_info":
            return msgspec.to_builtins(guests)
        space = (10**6, 10**6)
        told = facts(memory_total_mib=65536, memory_free_mib=60000, spaces=[space, space], cpu_total=32, guests=guests)
        return msgspec.to_builtins(told)


async def measure() -> None:
    from msgspec.structs import replace
    from tests.fakes.sample_cluster import add_instance, catalogue, configuration
    from tests.fakes.wconfd import fast_directory, prepare, running_wconfd, until

    from ganeti.calls.config_follower import ConfigFollower
    from ganeti.calls.wconfd_client import WConfdClient
    from ganeti.luxid.queries.report_listener import ReportListener
    from ganeti.luxid.queries.state_cache import StateCache
    from ganeti.master.query import collecting, resources
    from ganeti.master.query.fields import QueryWorld
    from ganeti.master.query.running import run_query
    from ganeti.system.event_loop import Background

    config = configuration(NODES)
    config.put("cluster", "cluster", replace(config.cluster, hvparams={"pretend": {}}))
    for number in range(1, NODES + 1):
        uuid = f"uuid-node{number}"
        add_instance(config, f"inst-{uuid}", uuid)
    known = resources.build(catalogue())
    with fast_directory() as root:
        Path(prepare(root, fresh=False).config_file).write_text(json.dumps(config.to_plain()))
        async with running_wconfd(root) as daemon:
            client, background = WConfdClient(daemon.paths.wconfd_socket), Background()
            follower = ConfigFollower(client)
            background.start(follower.run(), "following")
            await follower.filled(60.0)
            for what, fields in FIELDS.items():
                for cached in (False, True):
                    cache, nodes = StateCache(), Nodes()
                    cache.follow(follower, client, daemon.paths.wconfd_socket)
                    await until(lambda cache=cache: cache._serial is not None)
                    asker = collecting.NodeAsker(nodes)  # type: ignore[arg-type]
                    began_s = time.process_time()
                    for _ in range(LISTS):
                        world = QueryWorld(follower.configuration, catalogue())
                        listener = ReportListener(cache, serves=cached)
                        collect = collecting.collector(collecting.Inquiry(world, asker, None, listener))  # type: ignore[arg-type]
                        rows = known[what].rows
                        assert rows is not None
                        await run_query(known[what], rows(world), fields, None, collect)
                    how = "from the cache" if cached else "--cache=off"
                    report(f"{LISTS} {what} lists of {NODES} nodes, {how}: calls of nodes", nodes.calls, "calls")
                    spent_s = (time.process_time() - began_s) / LISTS
                    report(f"one list of {what}s, {NODES} nodes, {how}: CPU of the asking side", spent_s, "s")
                    await cache.close()
            await background.cancel()
            await client.close()


def on_a_bed() -> None:
    import cluster_commands
    from measure import testbed

    with testbed("fake") as layout:
        add = ("gnt-instance", "add", "-t", "diskless", "-o", "noop+default", "-B", "memory=64")
        for number in range(10):
            cluster_commands.on_master(layout, *add, f"inst{number}")
        for words in (("gnt-node", "list"), ("gnt-instance", "list"), ("gnt-group", "capacity", "-I", "hail")):
            for how in ("--cache=off", "--cache=on"):
                line = (*words, how)
                cluster_commands.on_master(layout, *line)
                found, daemons_s = cluster_commands.costs(layout, 10, functools.partial(_each, line))
                report(f"{' '.join(line)}, 3 nodes: CPU of daemons and jobs", daemons_s, "s")
                report(f"{' '.join(line)}, 3 nodes: wall", found.wall_s, "s")


def counts() -> None:
    import allocation

    from ganeti.master.cache.cluster_picture import ClusterPicture
    from ganeti.master.cache.placer import Placer
    from ganeti.model.placement_requests import CountCapacity

    for nodes, instances, groups in ((20, 200, 1), (80, 1000, 1), (200, 4000, 4), (1000, 20000, 10)):
        config = allocation.configuration(nodes, instances, groups)
        picture = ClusterPicture(functools.partial(_same, config))
        picture.take_reports({f"node{n:04d}": allocation.report(n, instances // nodes) for n in range(nodes)})
        placer = Placer(picture)
        began_s = time.process_time()
        uuids = [group.uuid for group in config.groups()]
        own = {uuid: {"max_inst_spec": [8192, 102400, 4]} for uuid in uuids}
        request = CountCapacity(node_groups=uuids, default_template="drbd", group_parameters=own)
        placer.answer(config, request, "drbd", [])
        report(f"capacity counted at {nodes}x{instances}, CPU", time.process_time() - began_s, "s")


def _same(config: Any) -> Any:
    return config


def _each(line: tuple[str, ...], _: int) -> tuple[str, ...]:
    return line


if __name__ == "__main__":
    if "--bed" in sys.argv:
        on_a_bed()
    elif "--count" in sys.argv:
        counts()
    else:
        asyncio.run(measure())
