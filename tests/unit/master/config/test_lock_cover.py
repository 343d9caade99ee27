# SPDX-License-Identifier: BSD-2-Clause
"""A change is held against the locks of its job: what it touches without its lock is named."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.master.config.head import Head
from ganeti.master.config.lock_cover import missing
from ganeti.model.configuration import Draft
from ganeti.model.locks import ALL_INSTANCES, ALL_NODE_RES, BGL
from ganeti.model.objects import Network, NodeGroup
from ganeti.ports.config import Change


class Touch(Change, frozen=True, kw_only=True):
    """Change a field of each object that is named."""

    objects: dict[str, dict[str, Any]]

    def apply(self, draft: Draft) -> None:
        for key, fields in self.objects.items():
            kind, uuid = key.split("/")
            old = draft.get(kind, uuid)
            assert old is not None
            draft.put(kind, replace(old, **fields))


WEB = {"instances/uuid-web1": {"admin_state": "down"}}
NODE = {"nodes/uuid-node2": {"powered": False}}
POOL = {"networks/uuid-net": {"reservations": "1" * 16}}


@pytest.mark.requirement("S2.58")
@pytest.mark.parametrize(
    ("objects", "held", "found"),
    [
        (WEB, {}, ["instance web1"]),
        (WEB, {"instance/web1": "shared", BGL: "shared"}, ["instance web1"]),
        (WEB, {"instance/web1": "exclusive"}, []),
        (WEB, {ALL_INSTANCES: "exclusive"}, []),
        (WEB | NODE, {"instance/web1": "exclusive"}, ["node node2"]),
        (WEB | NODE, {BGL: "exclusive"}, []),
        (NODE, {ALL_NODE_RES: "exclusive"}, []),
        (NODE, {"node/uuid-node1": "exclusive"}, ["node node2"]),
        (POOL, {}, []),
        ({"networks/uuid-net": {"name": "other"}}, {}, ["network net"]),
        ({"nodegroups/uuid-green": {"alloc_policy": "last_resort"}}, {}, ["node group green"]),
    ],
)
def test_what_is_touched_without_its_lock(objects: dict[str, Any], held: dict[str, str], found: list[str]) -> None:
    config = configuration()
    add_instance(config, "web1")
    network = Network(uuid="uuid-net", name="net", network="10.0.0.0/28", reservations="0" * 16)
    config.put("networks", "uuid-net", network)
    config.put("nodegroups", "uuid-green", NodeGroup(uuid="uuid-green", name="green"))
    assert missing(Head(config).stage(Touch(objects=objects), 1000.0), held) == found
