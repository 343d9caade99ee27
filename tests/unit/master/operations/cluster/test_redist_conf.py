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


def test_what_the_master_has_lost_is_not_taken_from_the_others() -> None:
    """Nodes with an empty key answer no questions, and with an empty `known_hosts` ssh refuses all of them."""
    ctx = FakeContext(configuration(), catalogue())
    config = ctx.config.config
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, modify_etc_hosts=False, rsahostkeypub="AAAA"))
    sent: dict[str, set[str]] = {}

    def upload(node: str, path: str, content: str, mode: int) -> None:
        sent.setdefault(f"{path.rpartition('/')[2]}: {content}", set()).add(node)

    ctx.nodes.handlers |= {
        "shared_files": lambda node: [
            {"path": "/var/lib/ganeti/hmac.key", "content": "\n", "mode": 0o440},
            {"path": "/var/lib/ganeti/known_hosts", "content": "other ssh-rsa BBBB\n", "mode": 0o644},
            {"path": "/var/lib/ganeti/rapi/users", "content": "", "mode": 0o640},
        ],
        "upload_file": upload,
    }
    run(RedistributeConfiguration(), ctx)
    assert sent == {
        "known_hosts: cluster ssh-rsa AAAA\nother ssh-rsa BBBB\n": {"node1", "node2", "node3"},
        "users: ": {"node2", "node3"},
    }
    assert ctx.lines == [
        "File /var/lib/ganeti/known_hosts of the master had no key of cluster cluster: it has it again",
        "File /var/lib/ganeti/hmac.key of the master is empty and is not sent: gnt-cluster renew-crypto "
        "--new-confd-hmac-key makes a new one",
    ]


def test_a_file_that_is_no_utf_8_goes_as_it_is() -> None:
    ctx = FakeContext(configuration(), catalogue())
    config = ctx.config.config
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, modify_etc_hosts=False))
    users = {"path": "/var/lib/ganeti/rapi/users", "content": "jack # \xfc\n", "mode": 0o640, "encoding": "latin-1"}
    sent: list[dict[str, Any]] = []
    ctx.nodes.handlers |= {
        "shared_files": lambda node: [users],
        "upload_file": lambda node, **file: sent.append(file),
    }
    run(RedistributeConfiguration(), ctx)
    assert sent == [users, users] and ctx.lines == []


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
