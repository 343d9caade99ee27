# SPDX-License-Identifier: BSD-2-Clause
"""Claims and needs of each kind of object."""

from ganeti.master.config.indexes import Claim, Indexes, claims_of, needs_of
from ganeti.model.configuration import Configuration
from ganeti.model.objects import Disk, Instance, Nic


def test_a_replicated_disk_claims_its_port_minors_and_volumes(golden):
    disk = next(disk for disk in Configuration.from_plain(golden).disks() if disk.children)
    claims = set(claims_of("disks", disk))
    first, second = disk.nodes
    assert Claim("TCP/UDP port", "11000") in claims
    assert Claim(f"replication minor of node {second}", "0") in claims
    assert Claim(f"plain volume of node {first}", f"xenvg/{disk.uuid}.disk0_data") in claims


def test_an_address_is_claimed_within_its_network_only():
    one = Instance(uuid="i", name="i", nics=[Nic(mac="AA:00:00:00:00:01", ip="10.0.0.1", network="n1")])
    two = Instance(uuid="j", name="j", nics=[Nic(mac="aa:00:00:00:00:01", ip="10.0.0.1", network="n2")])
    shared = set(claims_of("instances", one)) & set(claims_of("instances", two))
    assert shared == {Claim("MAC address", "aa:00:00:00:00:01")}


def test_a_forthcoming_instance_may_have_no_node_yet():
    assert list(needs_of(Instance(uuid="i", name="i", forthcoming=True))) == []
    assert list(needs_of(Instance(uuid="i", name="i"))) == [("nodes", "")]


def test_what_is_removed_leaves_nothing_behind():
    indexes = Indexes()
    disk = Disk(uuid="d", dev_type="plain", logical_id=["vg", "lv"], nodes=["n", "n"])
    indexes.put(("disks", "d"), disk)
    assert indexes.holders
    assert indexes.needed_by
    indexes.remove(("disks", "d"), disk)
    assert indexes.holders == {}
    assert indexes.needed_by == {}
