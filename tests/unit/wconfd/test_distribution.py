# SPDX-License-Identifier: BSD-2-Clause
"""What many nodes are sent: nothing twice, not all at a time, and those of one group alone before it is verified."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.fakes.sample_cluster import configuration

from ganeti.master.config.publication import SsconfSource
from ganeti.model.objects import Node
from ganeti.stores.publisher import Published
from ganeti.wconfd import distribution
from ganeti.wconfd.distribution import Distributor
from ganeti.wire.ssconf import SIZE_LIMIT_BYTES

COUNT = 200


class Nodes:
    """Take what they are sent, after a while."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.busy = self.most = 0

    async def call(self, node_uuid: str, call: str, /, *, deadline_s: float | None = None, **arguments: Any) -> Any:
        self.calls.append((node_uuid, call))
        self.busy += 1
        self.most = max(self.most, self.busy)
        await asyncio.sleep(0.001)
        self.busy -= 1
        return [] if call == "differing_ssconf" else None

    async def call_many(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("not used")

    def told(self, call: str) -> list[str]:
        return [uuid for uuid, name in self.calls if name == call]


def published(serial: int, **values: str) -> Published:
    nodes = [
        Node(uuid=f"n{number}", name=f"n{number}", primary_ip="", secondary_ip="", group=f"group{number % 20}")
        for number in range(COUNT)
    ]
    return Published((1, serial), "/nowhere", values, SsconfSource(configuration().cluster, nodes, [], [], []))


def distributing(story: Callable[[Distributor, Nodes], Awaitable[None]]) -> Nodes:
    nodes = Nodes()

    async def go() -> None:
        distributor = Distributor(nodes)
        try:
            await story(distributor, nodes)
        finally:
            await distributor.close()

    asyncio.run(asyncio.wait_for(go(), 30))
    return nodes


def test_a_list_that_is_too_long_for_other_nodes_has_nothing_sent_again() -> None:
    async def story(distributor: Distributor, nodes: Nodes) -> None:
        long = "web.example.com\n" * (SIZE_LIMIT_BYTES // 16 + 1)
        distributor.publish(published(1, instance_list=long, cluster_tags="a\n"))
        await distributor.flush()
        assert len(nodes.told("write_ssconf_files")) == COUNT
        distributor.publish(published(2, instance_list=long + "new.example.com\n", cluster_tags="a\n"))
        await distributor.flush()
        assert len(nodes.told("write_ssconf_files")) == COUNT
        distributor.publish(published(3, instance_list=long, cluster_tags="a\nb\n"))
        await distributor.flush()
        assert len(nodes.told("write_ssconf_files")) == 2 * COUNT

    distributing(story)


def test_not_all_nodes_are_sent_something_at_a_time() -> None:
    async def story(distributor: Distributor, nodes: Nodes) -> None:
        distributor.publish(published(1, cluster_tags="a\n"))
        await asyncio.sleep(0.05)
        assert nodes.most <= distribution.SENT_AT_ONCE < COUNT
        await distributor.flush()
        assert sorted(set(nodes.told("write_ssconf_files"))) == sorted(f"n{number}" for number in range(COUNT))

    distributing(story)


def test_the_nodes_of_a_group_alone_are_asked_before_it_is_verified() -> None:
    async def story(distributor: Distributor, nodes: Nodes) -> None:
        distributor.publish(published(1, cluster_tags="a\n"))
        await distributor.flush()
        nodes.calls.clear()
        await distributor.flush("group7")
        assert sorted(nodes.told("differing_ssconf")) == sorted(f"n{number}" for number in range(7, COUNT, 20))
        await distributor.flush("there is none")
        assert len(nodes.calls) == COUNT // 20

    distributing(story)
