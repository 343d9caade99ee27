# SPDX-License-Identifier: BSD-2-Clause
"""A node that is named for an instance must have room for each disk in the volume group where it is to lie."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext
from tests.fakes.node_answers import node_facts
from tests.fakes.sample_cluster import configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master import allocation
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.model.templates import TEMPLATES
from ganeti.model.traits import Catalogue, HypervisorTraits

FREE_MIB = {"xenvg": 5000, "fast": 300}
PLAIN, DRBD = TEMPLATES["plain"], TEMPLATES["drbd"]


@pytest.fixture
def ctx() -> FakeContext:
    config = configuration()
    config.put("cluster", "cluster", replace(config.cluster, volume_group_name="xenvg"))
    hypervisors = {name: HypervisorTraits(name) for name in config.cluster.enabled_hypervisors}
    context = FakeContext(config, Catalogue(dict(TEMPLATES), hypervisors))
    context.nodes.handlers["node_info"] = facts
    return context


def facts(name: str, *, storage: list[dict[str, str]], **_: Any) -> dict[str, Any]:
    """Each volume group has its own room."""
    answer: dict[str, Any] = node_facts()
    [space] = answer["storage"]
    settings = [msgspec.to_builtins(unit)["setting"] for unit in storage]
    return answer | {"storage": [space | {"name": each, "storage_free": FREE_MIB[each]} for each in settings]}


def disk(group: str, size_mib: int, index: int = 0) -> DiskSpec:
    return DiskSpec(uuid=f"d{index}", template="plain", logical_id=[group, f"v{index}"], size_mib=size_mib, index=index)


def check(ctx: FakeContext, template: Any, *disks: DiskSpec) -> None:
    spec = InstanceSpec(
        uuid="u",
        name="web9",
        hypervisor=ctx.config.view().cluster.enabled_hypervisors[0],
        primary_node="node1",
        primary_node_uuid="uuid-node1",
        os="noop",
        beparams={"maxmem": 128, "minmem": 128, "vcpus": 1},
        hvparams={},
        osparams={},
        disks=list(disks),
        nics=[],
    )
    asyncio.run(allocation.check_capacity(ctx, "uuid-node1", spec, template))


def test_a_disk_needs_room_in_its_own_volume_group(ctx: FakeContext) -> None:
    check(ctx, PLAIN, disk("xenvg", 4000), disk("fast", 300, 1))
    with pytest.raises(PrerequisiteError, match="on node node1, fast, for web9: needed 301 MiB, available 300 MiB"):
        check(ctx, PLAIN, disk("xenvg", 10), disk("fast", 301, 1))
    with pytest.raises(PrerequisiteError, match="on node node1, xenvg, for web9: needed 5001 MiB"):
        check(ctx, PLAIN, disk("xenvg", 2500), disk("xenvg", 2501, 1), disk("fast", 1, 2))


def test_the_volumes_of_a_mirrored_disk_are_counted_where_each_lies(ctx: FakeContext) -> None:
    def pair(meta_mib: int) -> DiskSpec:
        parts = [disk("xenvg", 1000), disk("fast", meta_mib, 1)]
        return DiskSpec(uuid="d", template="drbd", logical_id=[], size_mib=1000, index=0, children=parts)

    check(ctx, DRBD, pair(128))
    with pytest.raises(PrerequisiteError, match="fast, for web9: needed 301 MiB"):
        check(ctx, DRBD, pair(301))
