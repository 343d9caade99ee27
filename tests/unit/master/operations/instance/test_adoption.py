# SPDX-License-Identifier: BSD-2-Clause
"""What belongs to an instance is adopted by no other one."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext
from tests.fakes.node_answers import disk_status
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operations.instance.wanted.adoption import find_adoptees
from ganeti.model.objects import Disk
from ganeti.node.storage.lvm.driver import LogicalVolumes

DATA = ["xenvg", "u.disk0_data"]


@pytest.mark.parametrize("name", ["u.disk0_data", "old"])
def test_a_volume_below_a_mirrored_disk_is_refused(name: str) -> None:
    """While that instance is stopped nothing has its volumes open."""
    ctx = FakeContext(configuration(), catalogue())
    config = ctx.config.config
    [mirrored] = config.instance_disks(add_instance(config, "web1", template="local", admin_state="down"))
    below = Disk(uuid="below", dev_type="plain", logical_id=DATA, size=64)
    config.put("disks", mirrored.uuid, replace(mirrored, dev_type="drbd", children=[below]))
    ctx.nodes.handlers["blockdev_find"] = lambda name, **_: disk_status(size_mib=64)
    new = Disk(uuid="new", dev_type="plain", size=0)
    asked = [{"adopt": name, "vg": "xenvg"}]
    work = find_adoptees(ctx, ctx.config.view(), [new], asked, LogicalVolumes.traits, ["uuid-node1"], "web2")  # type: ignore[arg-type]
    if name == "old":
        assert asyncio.run(work)[1] == {"new": ["xenvg", "old"]}
    else:
        with pytest.raises(PrerequisiteError, match=r"u\.disk0_data is a disk already: adopt another"):
            asyncio.run(work)
