# SPDX-License-Identifier: BSD-2-Clause
"""Snapshots of templates that keep none: refused with the reason, and what to do instead."""

import pytest
from tests.fakes.one_node import OneNode, disk_spec, instance_spec

from ganeti.base.errors import BlockDeviceError
from ganeti.node.storage.interface import DiskTemplate


@pytest.mark.parametrize("template", ["blockdev"])
def test_a_template_without_snapshots_says_why_and_what_to_do(node: OneNode, template: str) -> None:
    instance = instance_spec(disks=[disk_spec(template)])
    with pytest.raises(BlockDeviceError, match=rf"^Disks of template {template} keep no snapshots, since .*export"):
        node.call("instance_snapshots", instance=instance)
    assert DiskTemplate.registry[template].why_no_snapshots != DiskTemplate.why_no_snapshots
