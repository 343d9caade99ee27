# SPDX-License-Identifier: BSD-2-Clause
"""The format of a disk's image is what it was made with: a guest writes all of a raw image, so also a qcow2 header that
names a file of the node."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import node_facts
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import decode
from ganeti.master.operations.instance.change.set_params import ModifyInstanceOperation
from ganeti.model.objects import Disk


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    context.nodes.handlers["node_info"] = lambda name, **_: node_facts(memory_free_mib=1000)
    context.nodes.handlers["instance_info"] = lambda name, **_: None
    add_instance(context.config.config, "web1", admin_state="down")
    return context


def set_default(ctx: FakeContext, image_format: str) -> None:
    config = ctx.config.config
    [disk, *_] = disks(ctx)
    for group in list(config.groups()):
        config.put("nodegroups", group.uuid, replace(group, diskparams={disk.dev_type: {"format": image_format}}))


def disks(ctx: FakeContext) -> list[Disk]:
    view = ctx.config.view()
    return view.instance_disks(view.find_instance("web1"))


def formats(ctx: FakeContext) -> list[Any]:
    view = ctx.config.view()
    spec = instance_spec(view, ctx.catalogue, view.find_instance("web1"))
    return [disk.params.get("format", "raw") for disk in spec.disks]


def add_disk(ctx: FakeContext, **values: Any) -> None:
    changes = [["add", -1, {"size": 32, **values}]]
    run(decode({"OP_ID": ModifyInstanceOperation.op_id, "instance_name": "web1", "disks": changes}), ctx)


def test_another_default_changes_no_disk_that_is_there(ctx: FakeContext) -> None:
    assert formats(ctx) == ["raw"]
    set_default(ctx, "qcow2")
    assert formats(ctx) == ["raw"]
    add_disk(ctx)
    add_disk(ctx, format="raw")
    assert formats(ctx) == ["raw", "qcow2", "raw"]
    set_default(ctx, "raw")
    add_disk(ctx)
    assert formats(ctx) == ["raw", "qcow2", "raw", "raw"]


def test_only_what_is_not_the_first_format_is_noted(ctx: FakeContext) -> None:
    """`config.data` of a cluster with raw images is as Ganeti writes it."""
    add_disk(ctx)
    assert [disk.params for disk in disks(ctx)] == [disks(ctx)[0].params, {}]
