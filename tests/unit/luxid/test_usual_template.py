# SPDX-License-Identifier: BSD-2-Clause
"""By the disks of which template the room for whole nodes is judged: of those that need room on a node's own disk.

Without disks at all no node has any, and none could take over a mirrored instance.
"""

import pytest
from tests.fakes.sample_cluster import configuration

from ganeti.luxid.placement.placements import _usual_template
from ganeti.model.objects import Disk, Instance


@pytest.mark.parametrize(
    ("templates", "usual"),
    [
        ([], "common"),
        (["diskless", "diskless"], "diskless"),
        (["diskless", "diskless", "sharedfile"], "sharedfile"),
        (["diskless", "sharedfile", "sharedfile", "mirror"], "mirror"),
        (["sharedfile", "drbd"], "drbd"),
    ],
)
def test_templates_that_need_room_come_first(templates: list[str], usual: str) -> None:
    config = configuration()
    for number, template in enumerate(templates):
        disks = [] if template == "diskless" else [f"d{number}"]
        for uuid in disks:
            config.put("disks", uuid, Disk(uuid=uuid, dev_type=template))
        own = Instance(uuid=f"i{number}", name=f"i{number}", primary_node="uuid-node1", disks=disks)
        config.put("instances", own.uuid, own)
    assert _usual_template(config) == usual
