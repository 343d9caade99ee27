# SPDX-License-Identifier: BSD-2-Clause
"""The first and the last job of a cluster."""

from __future__ import annotations

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import ExecutionError, PrerequisiteError
from ganeti.master.operations.cluster.destroy import DestroyCluster
from ganeti.master.operations.cluster.post_init import FinishClusterInit
from ganeti.model.locks import BGL
from ganeti.model.node_calls.mastership import MasterAddress


def test_the_first_job_takes_the_address() -> None:
    ctx = FakeContext(configuration(1), catalogue())
    taken = []
    ctx.nodes.handlers["node_activate_master_ip"] = lambda name, **fields: taken.append(fields)
    operation = FinishClusterInit()
    assert operation.locks(ctx.config.view()).exclusive == {BGL}
    assert run(operation, ctx) is True
    assert taken == [{"master": MasterAddress(ip="10.77.0.100", netdev="eth0", netmask=32, ip_family=2)}]


def test_without_the_address_the_cluster_begins_all_the_same() -> None:
    ctx = FakeContext(configuration(1), catalogue())
    ctx.nodes.handlers["node_activate_master_ip"] = ExecutionError("no such device")
    assert run(FinishClusterInit(), ctx) is True
    assert ctx.lines == ["Could not activate the master IP 10.77.0.100: no such device"]


def test_only_an_empty_cluster_ends() -> None:
    with pytest.raises(PrerequisiteError, match=r"still 2 node\(s\) .* besides the master"):
        run(DestroyCluster(), FakeContext(configuration(3), catalogue()))
    config = configuration(1)
    add_instance(config, "web1")
    with pytest.raises(PrerequisiteError, match=r"still 1 instance\(s\) .* web1"):
        run(DestroyCluster(), FakeContext(config, catalogue()))


def test_the_last_job_gives_the_address_up_and_the_master_back() -> None:
    ctx = FakeContext(configuration(1), catalogue())
    operation = DestroyCluster()
    assert run(operation, ctx) == "uuid-node1"
    assert ctx.story == ["node1 node_deactivate_master_ip"]
    hooks = operation.hooks(ctx.config.view(), "uuid-node1")
    assert (hooks.path, list(hooks.pre_nodes), list(hooks.post_nodes)) == ("cluster-destroy", [], ["uuid-node1"])
