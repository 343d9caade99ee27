# SPDX-License-Identifier: BSD-2-Clause
"""By the disks of which template the room on nodes is judged: of those that need room on a node's own disk.

Without disks at all no node has any, and none could take over a mirrored instance.
"""

import pytest
from tests.fakes.sample_cluster import configuration

from ganeti.luxid.placement.placements import _usual_template, _with_space
from ganeti.model.configuration import Configuration
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
    assert _usual_template(with_instances(templates)) == usual


@pytest.mark.parametrize(
    ("asked", "templates", "counts"),
    [
        ("diskless", ["diskless", "mirror"], "mirror"),
        ("rbd", ["rbd", "rbd", "drbd"], "drbd"),
        ("ext", ["plain"], "plain"),
        ("ext", ["ext"], "ext"),
        ("drbd", ["mirror"], "drbd"),
        ("sharedfile", ["mirror"], "sharedfile"),
        ("unheard", ["mirror"], "unheard"),
    ],
)
def test_what_needs_no_room_on_nodes_is_placed_by_the_room_of_what_does(
    asked: str, templates: list[str], counts: str
) -> None:
    """Otherwise no failure of a node with mirrored instances could be absorbed, and nothing would be placed."""
    assert _with_space(with_instances(templates), asked) == counts


def with_instances(templates: list[str]) -> Configuration:
    config = configuration()
    for number, template in enumerate(templates):
        disks = [] if template == "diskless" else [f"d{number}"]
        for uuid in disks:
            config.put("disks", uuid, Disk(uuid=uuid, dev_type=template))
        own = Instance(uuid=f"i{number}", name=f"i{number}", primary_node="uuid-node1", disks=disks)
        config.put("instances", own.uuid, own)
    return config
