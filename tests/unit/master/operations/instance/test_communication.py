# SPDX-License-Identifier: BSD-2-Clause
"""Instance communication: its network and who is connected to it, and the NICs of instances."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import node_facts
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import decode
from ganeti.master.operations.cluster.set_params import ModifyCluster
from ganeti.master.operations.group.add import MakeGroup
from ganeti.master.operations.instance.change.set_params import ModifyInstanceOperation
from ganeti.master.operations.instance.creation.create import CreateInstance
from ganeti.model.network_pool import pool_of
from ganeti.model.objects import Instance

NICPARAMS = {"mode": "routed", "link": "communication_rt", "vlan": ""}


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    context.nodes.handlers["node_info"] = lambda name, **_: node_facts()
    context.nodes.handlers["all_instances_info"] = lambda name, **_: []
    add_instance(context.config.config, "web1", admin_state="down")
    return context


def do(ctx: FakeContext, op: str, **values: Any) -> Any:
    return run(decode({"OP_ID": op, **values}), ctx)


def talk(ctx: FakeContext, network: str = "talk") -> None:
    do(ctx, ModifyCluster.op_id, instance_communication_network=network)


def communicate(ctx: FakeContext, wanted: bool) -> None:
    do(ctx, ModifyInstanceOperation.op_id, instance_name="web1", instance_communication=wanted)


def instance(ctx: FakeContext) -> Instance:
    return ctx.config.view().find_instance("web1")


def test_the_network_is_made_and_every_group_connected(ctx: FakeContext) -> None:
    talk(ctx)
    view = ctx.config.view()
    network = view.find_network("talk")
    assert (network.network, network.network6, network.mac_prefix) == ("169.254.0.0/16", "fe80::/10", "52:54:00")
    assert view.cluster.instance_communication_network == "talk"
    assert all(group.networks[network.uuid] == NICPARAMS for group in view.groups())
    assert not pool_of(network).is_free("169.254.169.254")
    with pytest.raises(PrerequisiteError, match="A network cannot be called 'x y'"):
        talk(ctx, "x y")
    do(ctx, MakeGroup.op_id, group_name="green")
    assert ctx.config.view().find_group("green").networks == {network.uuid: NICPARAMS}
    talk(ctx)
    assert len(ctx.config.view().networks()) == len(view.networks())


def test_an_instance_gets_its_nic_and_gives_it_back(ctx: FakeContext) -> None:
    with pytest.raises(PrerequisiteError, match="has no network for instance communication: name one first"):
        communicate(ctx, True)
    talk(ctx)
    before = instance(ctx).nics
    communicate(ctx, True)
    nic = instance(ctx).nics[-1]
    assert (nic.name, nic.mac[:8], nic.nicparams) == ("ganeti:communication:web1", "52:54:00", NICPARAMS)
    assert nic.ip is not None and nic.ip.startswith("169.254.")
    communicate(ctx, True)
    assert len(instance(ctx).nics) == len(before) + 1
    spec = instance_spec(ctx.config.view(), ctx.catalogue, instance(ctx))
    assert "reservations" not in (spec.nics[-1].network or {})

    with pytest.raises(PrerequisiteError, match="Instance web1 communicates over network 'talk'"):
        talk(ctx, "")
    communicate(ctx, False)
    assert instance(ctx).nics == before
    assert pool_of(ctx.config.view().find_network("talk")).is_free(nic.ip)
    talk(ctx, "")
    assert ctx.config.view().cluster.instance_communication_network == ""


def test_a_new_instance_has_it_beside_its_nics(ctx: FakeContext) -> None:
    talk(ctx)
    wanted = {"instance_name": "web2", "mode": "create", "disk_template": "common", "disks": [{"size": 64}]}
    do(ctx, CreateInstance.op_id, **wanted, nics=[{}], os_type="noop+default", instance_communication=True)
    assert [nic.name for nic in ctx.config.view().find_instance("web2").nics] == [None, "ganeti:communication:web2"]
