# SPDX-License-Identifier: BSD-2-Clause
"""The node calls that undo steps: on a node where the step was refused, or never came, there is nothing to undo."""

import pytest
from tests.fakes.one_node import OneNode

from ganeti.base.errors import REFUSED_AT_THE_DOOR, GanetiError
from ganeti.model.node_requests import DiskSpec, InstanceSpec

NOT_ALLOWED = "/srv/elsewhere/web1/d0"
PATHS = [
    "/srv/disks/web1/d0",
    "/srv/disks/a\nb/web1/d0",
    "/srv/disks/a\0b/d0",
    NOT_ALLOWED,
    f"/srv/disks/{'x' * 300}/d",
]
OF_INSTANCES = {
    "instance_disks_shutdown": {},
    "instance_shutdown": {"timeout_s": 0},
    "instance_finalize_migration_dst": {"success": False},
    "migration_resolve": {},
    "instance_disks_remove": {},
}


def spec(path: str, *, name: str = "web1", hypervisor: str = "fake", template: str = "sharedfile") -> InstanceSpec:
    disk = DiskSpec(uuid="d0", template=template, logical_id=["loop", path], size_mib=4, index=0)
    return InstanceSpec(
        name=name,
        uuid="uuid-web1",
        hypervisor=hypervisor,
        os="test",
        primary_node="node1",
        primary_node_uuid="uuid-node1",
        hvparams={},
        beparams={"maxmem": 128, "vcpus": 1},
        disks=[disk],
    )


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("template", ["file", "sharedfile"])
@pytest.mark.parametrize("call", [*OF_INSTANCES, "blockdev_remove"])
def test_what_never_happened_is_undone(tmp_path, call, template, path):
    node = OneNode(tmp_path)
    instance = spec(path, template=template)
    if call == "blockdev_remove":
        node.call(call, disk=instance.disks[0])
    else:
        node.call(call, instance=instance, **OF_INSTANCES[call])


@pytest.mark.parametrize("call", OF_INSTANCES)
@pytest.mark.parametrize("wrong", [{"name": "a\nb"}, {"name": "../x"}, {"hypervisor": "bogus"}, {"template": "bogus"}])
def test_what_a_node_refuses_at_the_door_says_so(tmp_path, call, wrong):
    """Calls that do not need what is wrong are carried out."""
    node = OneNode(tmp_path)
    try:
        node.call(call, instance=spec("/srv/disks/web1/d0", **wrong), **OF_INSTANCES[call])
    except GanetiError as err:
        assert REFUSED_AT_THE_DOOR in err.to_wire()[1]
        assert "\n" not in err.message


@pytest.mark.parametrize("call", ["node_demote_from_mc", "node_ssh_key_remove"])
def test_what_a_candidate_was_never_given_is_taken_from_it(tmp_path, call):
    arguments = {"node_demote_from_mc": {"master": "node2"}, "node_ssh_key_remove": {"nodes": ["uuid-node9"]}}
    OneNode(tmp_path).call(call, **arguments[call])
