# SPDX-License-Identifier: BSD-2-Clause
"""WConfD with candidates whose copies are the real ones: both halves of replication, without a network between."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import sample_cluster
from tests.fakes.following_node import FollowingNode
from tests.fakes.wconfd import TagCluster, fast_directory, prepare, running_wconfd, until

from ganeti.base.errors import NodeUnreachableError, from_wire
from ganeti.master.config.fingerprint import fingerprint_of
from ganeti.master.replication.followers import Timing
from ganeti.noded.replica_queue import content_digest
from ganeti.ports.nodes import NodeAnswer
from ganeti.wconfd import distribution
from ganeti.wconfd.commits import JobStep
from ganeti.wconfd.start import open_configuration

TIMING = Timing(
    first_s=2.0,
    take_s=2.0,
    long_take_s=5.0,
    quick_s=0.05,
    heartbeat_s=0.1,
    retry_first_s=0.02,
    retry_longest_s=0.1,
    ask_again_s=0.05,
)
NO_HEARTBEAT = replace(TIMING, heartbeat_s=1000.0, take_s=30.0)
NODES = {"uuid-node2": "node2", "uuid-node3": "node3"}
Story = Callable[[Any, "Followers"], Awaitable[None]]


class Followers:
    """`NodesPort` of nodes with real copies; those in `away` do not answer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.nodes: dict[str, FollowingNode] = {}
        self.away: dict[str, None] = {}
        self.held: dict[str, asyncio.Event] = {}
        """Records to these nodes wait until the event is set."""

    async def call(self, node_uuid: str, call: str, /, *, deadline_s: float | None = None, **arguments: Any) -> Any:
        await asyncio.sleep(0)
        if node_uuid in self.away:
            raise NodeUnreachableError(f"Node {node_uuid} cannot be reached")
        async with asyncio.timeout(deadline_s):
            if node_uuid in self.held and call == "replica_append":
                await self.held[node_uuid].wait()
            succeeded, value = await self.nodes[node_uuid].raw(call, arguments, epoch=1)
        if not succeeded:
            raise from_wire(value)
        return value

    async def call_many(
        self, node_uuids: Iterable[str], call: str, /, *, deadline_s: float | None = None, **arguments: Any
    ) -> list[NodeAnswer]:
        return [
            NodeAnswer(uuid, await self.call(uuid, call, deadline_s=deadline_s, **arguments)) for uuid in node_uuids
        ]

    async def begin(self, stack: AsyncExitStack) -> None:
        for uuid, name in NODES.items():
            self.nodes[uuid] = await stack.enter_async_context(FollowingNode(self.root / name, name))


@pytest.fixture
def root() -> Iterator[Path]:
    with fast_directory() as path:
        master = path / "node1"
        master.mkdir()
        paths = prepare(master, fresh=False)
        plain = sample_cluster.configuration().to_plain()
        plain["cluster"] |= {"enabled_hypervisors": ["fake"], "hvparams": {"fake": {}}}
        plain["cluster"] |= {"enabled_disk_templates": ["diskless"]}
        Path(paths.config_file).write_text(json.dumps(plain))
        yield path


def tell(root: Path, story: Story, timing: Timing = TIMING) -> None:
    """Run *story* with a master and two candidates in sync."""

    async def whole() -> None:
        followers = Followers(root)
        async with asyncio.timeout(60), AsyncExitStack() as stack:
            await followers.begin(stack)
            daemon = await stack.enter_async_context(
                running_wconfd(root / "node1", followers, fresh=False, timing=timing)
            )
            await until(lambda: all(daemon.service.replicator.is_in_sync(uuid) for uuid in NODES))
            await story(daemon, followers)

    asyncio.run(whole())


async def state_of(daemon: Any, node: FollowingNode) -> dict[str, Any]:
    """What a copy says of itself, whoever asks."""
    me = daemon.service.replicator
    return await node.call("replica_state", {**caller_of(me)})


def tags_of(node: FollowingNode) -> str:
    """The cluster's tags as the node's ssconf has them; before the first publication there is no such file."""
    path = Path(node.paths.ssconf_file("cluster_tags"))
    return path.read_text() if path.exists() else ""


def published(node: FollowingNode) -> str:
    return fingerprint_of(Path(node.paths.config_file).read_bytes())


def caller_of(replicator: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = replicator._identity.arguments()
    return arguments


@pytest.mark.requirement("S2.11")
def test_what_is_acknowledged_is_on_every_candidate_and_published_there(root: Path) -> None:
    async def story(daemon: Any, followers: Followers) -> None:
        job = daemon.job(1)
        for number in range(5):
            position, _ = await daemon.client.commit(job, number, TagCluster(tag=f"t{number}"), True)
        for node in followers.nodes.values():
            state = await state_of(daemon, node)
            assert (tuple(state["position"]), state["digest"]) == (position, daemon.service.form.digest)
            assert sorted(state["membership"]["members"]) == ["uuid-node1", *NODES]
            await until(lambda node=node: published(node) == daemon.service.form.digest)

    tell(root, story)


def test_candidates_publish_what_is_acknowledged_soon_and_no_more(root: Path) -> None:
    async def story(daemon: Any, followers: Followers) -> None:
        node = followers.nodes["uuid-node2"]
        await daemon.client.commit(daemon.job(1), 1, TagCluster(tag="first"), True)
        await until(lambda: tags_of(node) == "first\n")
        go_on = followers.held["uuid-node3"] = asyncio.Event()
        step = JobStep(1, 1, 2, "/lock", False)
        commit = asyncio.ensure_future(daemon.service.committer.commit(step, TagCluster(tag="second")))
        newest = (daemon.service.form.position[0], daemon.service.form.position[1] + 1)
        replica = node.replica
        await until(lambda: replica._place.copy is not None and replica._place.copy.position == newest)
        await asyncio.sleep(3 * NO_HEARTBEAT.tell_s)
        await replica.flush()
        assert not commit.done()
        assert tags_of(node) == "first\n", "one member does not have it"
        go_on.set()
        await commit
        await until(lambda: all(tags_of(each) == "first\nsecond\n" for each in followers.nodes.values()))
        assert published(node) == daemon.service.form.digest

    tell(root, story, NO_HEARTBEAT)


@pytest.mark.parametrize("asked", [True, False])
def test_a_node_with_other_ssconf_is_sent_it_again(root: Path, asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "LOOK_EVERY_S", 1000.0 if asked else 0.05)

    async def story(daemon: Any, followers: Followers) -> None:
        node = followers.nodes["uuid-node2"]
        await daemon.client.commit(daemon.job(1), 1, TagCluster(tag="right"), True)
        await until(lambda: tags_of(node) == "right\n")
        for damage in (lambda path: path.write_text("stale\n"), lambda path: path.unlink()):
            path = Path(node.paths.ssconf_file("cluster_tags"))
            path.chmod(0o644)
            damage(path)
            if asked:
                await daemon.client.call("flushConfig")
                assert tags_of(node) == "right\n"
            else:
                await until(lambda: tags_of(node) == "right\n")

    tell(root, story)


def test_a_candidate_that_was_away_has_everything_again(root: Path) -> None:
    async def story(daemon: Any, followers: Followers) -> None:
        job = daemon.job(1)
        followers.away["uuid-node2"] = None
        for number in range(3):
            await daemon.client.commit(job, number, TagCluster(tag=f"t{number}"), True)
        del followers.away["uuid-node2"]
        await until(lambda: all(daemon.service.replicator.is_in_sync(uuid) for uuid in NODES))
        state = await state_of(daemon, followers.nodes["uuid-node2"])
        assert state["digest"] == daemon.service.form.digest

    tell(root, story)


def test_a_rotten_copy_gets_a_new_one(root: Path) -> None:
    async def story(daemon: Any, followers: Followers) -> None:
        job = daemon.job(1)
        await daemon.client.commit(job, 1, TagCluster(tag="before"), True)
        node = followers.nodes["uuid-node2"]
        followers.away["uuid-node2"] = None
        await daemon.client.commit(job, 2, TagCluster(tag="meanwhile"), True)
        await node.__aexit__()
        path = Path(node.paths.config_database)
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
        await node.__aenter__()
        del followers.away["uuid-node2"]
        await until(lambda: daemon.service.replicator.is_in_sync("uuid-node2"))
        assert (await state_of(daemon, node))["digest"] == daemon.service.form.digest
        assert Path(f"{path}.damaged").exists()

    tell(root, story)


def test_queue_files_are_on_every_candidate(root: Path) -> None:
    async def story(daemon: Any, followers: Followers) -> None:
        queue = Path(followers.root / "node1/var/lib/ganeti/queue")
        queue.mkdir(parents=True, exist_ok=True)
        for name in ("job-1", "job-2", "job-2.undo"):
            (queue / name).write_text(name)
        await daemon.service.replicator.replicate_queue(["job-1", "job-2", "job-2.undo"], [])
        for node in followers.nodes.values():
            files = (await node.call("replica_queue_list", caller_of(daemon.service.replicator)))["files"]
            assert files == {name: content_digest(name.encode()) for name in ("job-1", "job-2", "job-2.undo")}

    tell(root, story)


def test_the_promised_candidate_has_a_database_that_wconfd_starts_from(root: Path) -> None:
    async def story(daemon: Any, followers: Followers) -> None:
        job = daemon.job(1)
        position, _ = await daemon.client.commit(job, 1, TagCluster(tag="kept"), True)
        node = followers.nodes["uuid-node2"]
        caller = caller_of(daemon.service.replicator) | {"epoch": 9, "master": "uuid-node2", "ask_only": False}
        answer = await node.call("promise", caller)
        assert answer["granted"]
        assert "uuid-node2" in answer["membership"]["members"]
        opened = open_configuration(node.paths)
        opened.store.close()
        assert (opened.imported, opened.loaded.config.position) == (None, position)
        assert "kept" in opened.loaded.config.cluster.tags

    tell(root, story)
