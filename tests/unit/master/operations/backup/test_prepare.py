# SPDX-License-Identifier: BSD-2-Clause
"""Preparing an export: nothing to tell within the cluster; a key, and what is signed, for another one."""

from typing import Any

from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.master.operations.backup.prepare import PrepareExport
from ganeti.wire.cluster_signatures import check_handshake, check_key_name


def test_what_the_importing_side_needs_is_signed() -> None:
    ctx = FakeContext(configuration(), catalogue())
    add_instance(ctx.config.view(), "web1")
    assert run(PrepareExport(instance_name="web1", mode="local"), ctx) is None
    assert ctx.story == []

    def key(node: str, /, **asked: Any) -> dict[str, str]:
        return {"name": asked["name"], "certificate": f"certificate of {node}"}

    ctx.nodes.handlers["transfer_key_make"] = key
    told = run(PrepareExport(instance_name="web1", mode="remote"), ctx)
    check_handshake(ctx.domain_secret(), told["handshake"])
    name = check_key_name(ctx.domain_secret(), told["x509_key_name"])
    assert told["x509_ca"].endswith("\n\ncertificate of node1")
    assert ctx.story == [f"undo: remove the key {name} from node1", "node1 transfer_key_make"]
