# SPDX-License-Identifier: BSD-2-Clause
"""What the master has, every node gets."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import ExecutionError, NodeTimeoutError
from ganeti.master.operations.cluster.redist_conf import RedistributeConfiguration
from ganeti.model.objects import CLUSTER_KEY


def test_files_and_names_of_hosts_go_to_nodes_that_answer() -> None:
    ctx = FakeContext(configuration(), catalogue())
    config = ctx.config.config
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, modify_etc_hosts=True))
    node3 = config.node("uuid-node3")
    config.put("nodes", "uuid-node4", replace(node3, uuid="uuid-node4", name="node4", offline=True))
    sent: list[tuple[str, str]] = []
    entered: dict[str, Any] = {}

    def upload(node: str, path: str, content: str, mode: int) -> None:
        assert (content, mode) == ("key\n", 0o440)
        if node == "node3":
            raise ExecutionError("the disk is full")
        sent.append((node, path))

    ctx.nodes.handlers |= {
        "shared_files": lambda node: [{"path": "/var/lib/ganeti/hmac.key", "content": "key\n", "mode": 0o440}],
        "upload_file": upload,
        "etc_hosts_modify": lambda node, entries: entered.update({node: entries}),
    }
    run(RedistributeConfiguration(), ctx)
    assert "flush" in ctx.story
    assert sent == [("node2", "/var/lib/ganeti/hmac.key")]
    assert sorted(entered) == ["node1", "node2", "node3"]
    assert entered["node1"] == {f"node{number}": f"10.77.0.{min(number, 3)}" for number in (1, 2, 3, 4)}
    assert ctx.lines == [
        "File /var/lib/ganeti/hmac.key on node node3 stays as it is (the disk is full): run gnt-cluster redist-conf "
        "when it answers"
    ]


def test_a_node_that_does_not_answer_is_waited_for_once() -> None:
    ctx = FakeContext(configuration(), catalogue())
    config = ctx.config.config
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, modify_etc_hosts=True))
    asked: list[str] = []

    def upload(node: str, path: str, content: str, mode: int) -> None:
        asked.append(node)
        if node == "node3":
            raise NodeTimeoutError("Node node3 does not answer any more")

    ctx.nodes.handlers |= {
        "shared_files": lambda node: [
            {"path": f"/var/lib/ganeti/{name}", "content": "key\n", "mode": 0o440} for name in ("hmac.key", "rapi.pem")
        ],
        "upload_file": upload,
        "etc_hosts_modify": lambda node, entries: asked.append(node),
    }
    run(RedistributeConfiguration(), ctx)
    assert asked == ["node2", "node3", "node2", "node1", "node2"]
    assert ctx.lines == [
        "Node node3 does not answer (Node node3 does not answer any more), its files stay as they are: run gnt-cluster "
        "redist-conf when it answers"
    ]
