# SPDX-License-Identifier: BSD-2-Clause
"""Instance policies: which sizes they admit."""

import pytest
from msgspec.structs import replace
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.master.instance_spec import instance_size
from ganeti.model.ipolicy import InstanceSize, full_policy, violations


def size(template: str, disks: list[int]) -> InstanceSize:
    return InstanceSize(512, 1, disks, nic_count=1, spindle_use=1, disk_template=template)


def test_an_instance_that_is_to_have_no_disks_needs_none() -> None:
    policy = full_policy(["diskless", "plain"])
    assert violations(policy, size("diskless", [])) == [], "as placement has it"
    assert violations(policy, size("plain", [])) == ["disks is 0, allowed are 1 to 16"]


@pytest.mark.parametrize(
    ("exclusive", "template", "spindles", "counted"),
    [
        (False, "plain", [None], 1),
        (True, "plain", [20], 20),
        (True, "plain", [3, 4], 7),
        (True, "plain", [3, None], None),
        (True, "rbd", [None], 1),
    ],
)
def test_spindles_stand_for_their_use_on_exclusive_storage(
    exclusive: bool, template: str, spindles: list[int | None], counted: int | None
) -> None:
    config = configuration()
    web1 = add_instance(config, "web1")
    node = config.node(web1.primary_node)
    config.put("nodes", node.uuid, replace(node, ndparams={"exclusive_storage": exclusive}))
    disks = [replace(config.instance_disks(web1)[0], spindles=each) for each in spindles]
    found = instance_size(config, web1, disks, template)
    assert found.spindle_use == counted
    assert instance_size(config, web1, disks, template, node_uuid="uuid-node2").spindle_use == 1
    outside = [each for each in violations(full_policy(["plain", "rbd"]), found) if "spindles" in each]
    assert outside == (["spindles is 20, allowed are 1 to 12"] if counted == 20 else [])
