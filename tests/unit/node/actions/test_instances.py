# SPDX-License-Identifier: BSD-2-Clause
"""Calls that run instances, on the fake hypervisor and real image files."""

from pathlib import Path

import pytest
from tests.fakes.one_node import OneNode, disk_spec, instance_spec

from ganeti.base.errors import BlockDeviceError, GanetiError, HypervisorError


def with_disk(node: OneNode):
    node.call("blockdev_create", disk=disk_spec())
    return instance_spec(disks=[disk_spec()])


def lock_holder(node: OneNode) -> str:
    lock = Path(node.paths.under("/srv/disks/web1/d0.file.disk0.lock"))
    return lock.read_text() if lock.exists() else ""


def test_an_instance_starts_on_its_disks_and_stops(node) -> None:
    spec = with_disk(node)
    assert node.call("instance_info", instance=spec) is None
    node.call("instance_start", instance=spec)
    found = node.call("instance_info", instance=spec)
    assert (found.name, found.hypervisor, found.state, found.memory_mib) == ("web1", "fake", "running", 128)
    assert '"node":"node1"' in lock_holder(node)
    assert [guest.name for guest in node.call("all_instances_info", hypervisors={"fake": {}})] == ["web1"]
    assert node.call("instance_list", hypervisors={"fake": {}}) == ["web1"]
    node.call("instance_shutdown", instance=spec, timeout_s=5)
    node.call("instance_shutdown", instance=spec, timeout_s=5)
    node.call("instance_disks_shutdown", instance=spec)
    assert lock_holder(node) == ""
    assert [line for line in node.logged if "instance" in line] == [
        "instance web1 started",
        "instance web1 stopped, it was running",
    ]


def test_no_guest_starts_without_its_disk(node) -> None:
    with pytest.raises(BlockDeviceError, match="missing"):
        node.call("instance_start", instance=instance_spec(disks=[disk_spec()]))
    assert node.call("instance_list", hypervisors={"fake": {}}) == []


def test_all_disks_are_made_usable_and_removed_in_one_call(node) -> None:
    disks = [disk_spec(index=index) for index in range(2)]
    for disk in disks:
        node.call("blockdev_create", disk=disk)
    spec = instance_spec(disks=disks)
    attached = node.call("instance_disks_assemble", instance=spec)
    assert [disk.spec.index for disk in attached] == [0, 1]
    assert node.call("instance_disks_remove", instance=spec).settled
    assert list(Path(node.paths.under("/srv/disks")).iterdir()) == []


def test_a_reboot_keeps_the_guest(node) -> None:
    spec = with_disk(node)
    node.call("instance_start", instance=spec)
    for hard in (False, True):
        node.call("instance_reboot", instance=spec, hard=hard)
        assert node.call("instance_info", instance=spec).state == "running"


def test_an_unknown_hypervisor_names_those_there_are(node) -> None:
    with pytest.raises(HypervisorError, match=r"Unknown hypervisor 'xyz': this node knows .*fake"):
        node.call("instance_info", instance=instance_spec(hypervisor="xyz"))


def test_node_info_tells_capacity_and_space(node) -> None:
    storage = [{"template": "file", "setting": "/srv/disks"}, {"template": "paper", "setting": "/x"}]
    info = node.call("node_info", storage=storage, hypervisors={"fake": {}})
    assert info.hypervisors["fake"].memory_total > 0
    assert info.storage[0].storage_free > 0
    assert info.storage[1].storage_free is None
    assert info.boot_id == node.call("node_info", storage=[], hypervisors={}).boot_id != ""


def test_node_info_tells_of_guests_where_they_are_asked_for(node) -> None:
    node.call("instance_start", instance=instance_spec())
    found = node.call("node_info", storage=[], hypervisors={"fake": {}}, guests=True).guests
    assert [guest.name for guest in found] == ["web1"]
    assert node.call("node_info", storage=[], hypervisors={"fake": {}}).guests is None


def test_console_and_parameters_come_from_the_driver(node) -> None:
    assert node.call("instance_console_info", instance=instance_spec()).instance == "web1"
    node.call("hypervisor_validate_params", hypervisor="fake", hvparams={})
    with pytest.raises(GanetiError):
        node.call("hypervisor_validate_params", hypervisor="fake", hvparams={"colour": "red"})
