# SPDX-License-Identifier: BSD-2-Clause
"""Nodes with exclusive storage: which disks can be on them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operations.instance.wanted.creation_input import read_disk
from ganeti.master.operations.instance.wanted.disk_places import place_disks
from ganeti.model.objects import CLUSTER_KEY, Disk
from ganeti.model.templates import TEMPLATES


def placed(template: str, *nodes: str, **asked: int) -> list[Disk]:
    """A disk of a *template* on *nodes*, the second of which has exclusive storage."""
    ctx = FakeContext(configuration(), catalogue())
    config = ctx.config.config
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, volume_group_name="xenvg"))
    config.put("nodes", "uuid-node2", replace(config.node("uuid-node2"), ndparams={"exclusive_storage": True}))
    traits, values = TEMPLATES[template], {"size": 64} | asked
    disk = read_disk(0, values, traits, ctx.entropy)
    return place_disks(config, [disk], [values], traits, list(nodes), "/srv", "web1", ctx.entropy)


def test_volumes_are_on_them_and_name_their_spindles() -> None:
    assert placed("plain", "uuid-node2", spindles=3)[0].spindles == 3
    assert placed("mirror", "uuid-node1", "uuid-node2")[0].nodes == ["uuid-node1", "uuid-node2"]
    with pytest.raises(PrerequisiteError, match="exclusive storage only, which node node1 does not have"):
        placed("plain", "uuid-node1", spindles=3)


@pytest.mark.parametrize("nodes", [("uuid-node1", "uuid-node2"), ("uuid-node2", "uuid-node3")])
def test_mirrored_volumes_are_not(nodes: tuple[str, str]) -> None:
    with pytest.raises(PrerequisiteError, match="drbd is not possible on node node2, which has exclusive storage: use"):
        placed("drbd", *nodes)
