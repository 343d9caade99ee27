# SPDX-License-Identifier: BSD-2-Clause
"""WConfD with followers in memory: what is acknowledged is on all of them, and nobody waits for who is away."""

import asyncio
import json
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.fakes import sample_cluster
from tests.fakes.replica import FakeNodes, FakeReplica
from tests.fakes.wconfd import TagCluster, fast_directory, prepare, running_wconfd, until

from ganeti.master.replication.followers import Timing

TIMING = Timing(take_s=0.3, long_take_s=2.0, quick_s=0.05, heartbeat_s=0.1, retry_first_s=0.02, retry_longest_s=0.1,
                ask_again_s=0.05)  # fmt: skip
NODE1, NODE2, NODE3 = "uuid-node1", "uuid-node2", "uuid-node3"


@pytest.fixture
def root():
    with fast_directory() as path:
        paths = prepare(path, fresh=False)
        plain = sample_cluster.configuration().to_plain()
        plain["cluster"] |= {"enabled_hypervisors": ["fake"], "hvparams": {"fake": {}}}
        plain["cluster"] |= {"enabled_disk_templates": ["diskless"]}
        Path(paths.config_file).write_text(json.dumps(plain))
        yield path


def network() -> FakeNodes:
    return FakeNodes([FakeReplica(uuid, now_s=time.time) for uuid in (NODE2, NODE3)])


@asynccontextmanager
async def master(root, nodes, **more):
    async with running_wconfd(root, nodes, fresh=False, timing=TIMING, **more) as daemon:
        yield daemon


def run(scenario, root, nodes, **more):
    async def go():
        async with asyncio.timeout(30), master(root, nodes, **more) as daemon:
            return await scenario(daemon)

    return asyncio.run(go())


async def in_sync(daemon, *nodes):
    await until(lambda: all(daemon.service.replicator.is_in_sync(node) for node in nodes))


def test_an_acknowledged_commit_is_on_every_member(root):
    nodes = network()

    async def scenario(daemon):
        await in_sync(daemon, NODE2, NODE3)
        job = daemon.job(1)
        for number in range(5):
            position, _ = await daemon.client.commit(job, number, TagCluster(tag=f"t{number}"), True)
            for replica in nodes.replicas.values():
                assert replica.position == position
                assert replica.digest == daemon.service.form.digest
                assert (1, 1, number) in replica.steps
        state = daemon.service.replicator.state()
        assert sorted(state["membership"]["members"]) == [NODE1, NODE2, NODE3]
        assert [node["state"] for node in state["nodes"].values()] == ["master", "in-sync", "in-sync"]

    run(scenario, root, nodes)
