# SPDX-License-Identifier: BSD-2-Clause
"""A configuration that names hypervisors of 3.1 without a driver here loads, lists, and verify says which they are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import node_facts
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.master import operations
from ganeti.master.operation import decode
from ganeti.master.query.fields import QueryWorld
from ganeti.master.query.instances import INSTANCES
from ganeti.master.query.running import run_query
from ganeti.master.verify import configuration as of_configuration
from ganeti.master.verify import instances as of_instances
from ganeti.model.configuration import Configuration
from ganeti.model.objects import CLUSTER_KEY

operations.load()
FOREIGN = ("xen-pvm", "xen-hvm", "chroot", "lxc")


def taken_over(hypervisor: str) -> Configuration:
    config = configuration()
    add_instance(config, "web1")
    instance = replace(config.find_instance("web1"), hypervisor=hypervisor, hvparams={"kernel_path": "/boot/x"})
    config.put("instances", instance.uuid, instance)
    cluster = replace(config.cluster, enabled_hypervisors=[hypervisor, "pretend"])
    config.put("cluster", CLUSTER_KEY, replace(cluster, hvparams=cluster.hvparams | {hypervisor: {"a": 1}}))
    return Configuration.from_plain(config.to_plain())


@pytest.mark.parametrize("hypervisor", FOREIGN)
def test_it_is_listed_and_verify_names_it(hypervisor: str) -> None:
    config, known = taken_over(hypervisor), catalogue()
    names = [field.name for field in INSTANCES.with_drivers(known).listed() if not field.live]

    async def nobody(rows: Any, fields: Any) -> None: ...

    rows = INSTANCES.rows(QueryWorld(config, known)) if INSTANCES.rows else []
    _, [row] = asyncio.run(run_query(INSTANCES.with_drivers(known), rows, names, None, nobody))
    assert dict(zip(names, row, strict=True))["hypervisor"] == [0, hypervisor]
    messages = [found.message for found in of_configuration.hypervisor_parameters(config, known)]
    assert messages == [f"hypervisor {hypervisor} has no driver here: there are pretend"]
    [found] = of_instances.placement(config, known, config.find_instance("web1"))
    assert (found.code, found.message) == (
        "EINSTANCEUNSUITABLENODE",
        f"its hypervisor {hypervisor} has no driver here",
    )


@pytest.mark.parametrize("hypervisor", FOREIGN)
def test_other_instances_are_made_beside_it(hypervisor: str) -> None:
    ctx = FakeContext(taken_over(hypervisor), catalogue())
    asked: list[Any] = []

    def all_info(name: str, *, hypervisors: Any) -> list[Any]:
        asked.append(list(hypervisors))
        return []

    ctx.nodes.handlers |= {"node_info": lambda name, **_: node_facts(), "all_instances_info": all_info}
    opcode = {
        "OP_ID": "OP_INSTANCE_CREATE",
        "mode": "create",
        "instance_name": "new1",
        "hypervisor": "pretend",
        "disk_template": "none",
        "disks": [],
        "nics": [],
        "os_type": "noop",
        "no_install": True,
        "pnode": "node2",
        "beparams": {"maxmem": 128, "minmem": 128},
    }
    run(decode(opcode), ctx)
    assert ctx.config.view().find_instance("new1").hypervisor == "pretend"
    assert all(each == ["pretend"] for each in asked)


def test_verify_takes_from_an_os_what_its_modification_takes() -> None:
    config = configuration()
    given = {"noop": {"pretend": {"port": 81}}}
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, os_hvp=given, enabled_hypervisors=["pretend"]))
    assert not list(of_configuration.hypervisor_parameters(config, catalogue()))
