# SPDX-License-Identifier: BSD-2-Clause
"""A cluster's new name: who is told, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operations.cluster.rename import RenameTheCluster
from ganeti.model.objects import CLUSTER_KEY

HOSTS = "cluster ssh-rsa AAAA\nclusters ssh-rsa BBBB\n"


def make(*, used: list[str] | None = None) -> FakeContext:
    ctx = FakeContext(configuration(), catalogue())
    ctx.nodes.handlers |= {
        "node_verify": lambda node, checks: {"used-addresses": used or []},
        "shared_files": lambda node: [
            {"path": "/var/lib/ganeti/hmac.key", "content": "key", "mode": 0o440},
            {"path": "/var/lib/ganeti/known_hosts", "content": HOSTS, "mode": 0o644},
        ],
    }
    return ctx


def test_name_address_nodes_and_host_keys_change_together() -> None:
    ctx = make()
    uploaded: list[tuple[str, str]] = []
    told: list[tuple[str, Any]] = []
    ctx.nodes.handlers["upload_file"] = lambda node, path, content, mode: uploaded.append((node, content))
    ctx.nodes.handlers["adopt_cluster_name"] = lambda node, **names: told.append((node, names))
    assert run(RenameTheCluster(name="other"), ctx) == "other"
    cluster = ctx.config.view().cluster
    assert (cluster.cluster_name, cluster.master_ip) == ("other", "10.77.0.9")
    names = {"old": "cluster", "new": "other"}
    assert told == [(f"node{index}", names) for index in (1, 2, 3)]
    text = "other ssh-rsa AAAA\nclusters ssh-rsa BBBB\n"
    assert uploaded == [(f"node{index}", text) for index in (1, 2, 3)]
    calls = [line for line in ctx.story if "master_ip" in line or line.startswith("commit")]
    assert calls == ["node1 node_deactivate_master_ip", "commit RenameCluster", "node1 node_activate_master_ip"]


def test_an_address_that_stays_is_not_taken_down() -> None:
    ctx = make()
    config = ctx.config.config
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, master_ip="10.77.0.9"))
    ctx.nodes.dead.add("node3")
    run(RenameTheCluster(name="other"), ctx)
    assert not [line for line in ctx.story if "master_ip" in line]
    assert ctx.lines[0].startswith("Node node3 does not know the new name of the cluster")
    assert ctx.lines[0].endswith("add it again with gnt-node add --readd node3")


@pytest.mark.parametrize(
    ("name", "used", "sentence"),
    [
        ("web.7", None, "'web.7' cannot be the name of a cluster"),
        ("node2", None, "is node node2: a cluster needs a name and address of its own"),
        ("other", ["10.77.0.9"], "The address 10.77.0.9 of other is in use already"),
    ],
)
def test_what_cannot_be_its_name(name: str, used: list[str] | None, sentence: str) -> None:
    ctx = make(used=used)
    with pytest.raises(PrerequisiteError, match=sentence):
        run(RenameTheCluster(name=name), ctx)
    assert ctx.config.view().cluster.cluster_name == "cluster"


def test_the_same_name_and_address_is_no_change() -> None:
    ctx = make()
    config = ctx.config.config
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, master_ip="10.77.0.9"))
    with pytest.raises(PrerequisiteError, match="The cluster is called cluster and has the address"):
        run(RenameTheCluster(name="cluster"), ctx)
