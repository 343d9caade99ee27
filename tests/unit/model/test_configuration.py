# SPDX-License-Identifier: BSD-2-Clause
"""The whole configuration in memory, drafts on top of it, and finding things by what people type."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from ganeti.base.errors import ConfigurationError, PrerequisiteError
from ganeti.model.configuration import Configuration, Draft
from ganeti.model.objects import Disk, Instance, Network, Nic, Node

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "config" / "config-3.1.json"
WEB1, WEB2 = "00000040-0000-4000-8000-000000000040", "00000041-0000-4000-8000-000000000041"
NODE1, NODE2 = "00000020-0000-4000-8000-000000000020", "00000021-0000-4000-8000-000000000021"


@pytest.fixture
def config() -> Configuration:
    return Configuration.from_plain(json.loads(GOLDEN.read_bytes()))


def test_a_file_read_and_written_is_the_same(config):
    again = Configuration.from_plain(json.loads(json.dumps(config.to_plain())))
    assert again.to_plain() == config.to_plain()
    assert again.maintenance.round_delay_s == 300


def test_unknown_keys_stay_with_their_object(config):
    web1 = config.instance(WEB1)
    assert web1.nics[1].unknown == {"later_nic_key": "kept"}
    assert replace(web1, name="renamed").to_plain()["nics"][1]["later_nic_key"] == "kept"
    assert config.cluster.to_plain()["future_setting"] == {"from": "a later version"}


def test_null_means_absent_where_null_is_no_value():
    node = Node.from_plain(
        {"uuid": "n", "name": "n", "primary_ip": "1", "secondary_ip": "1", "group": "g", "tags": None, "powered": None}
    )
    assert (node.tags, node.powered) == ([], True)
    assert "tags" in node.to_plain()
    network = Network.from_plain({"uuid": "n", "name": "n", "network": "192.0.2.0/24", "gateway": None})
    assert "gateway" not in network.to_plain()


@pytest.mark.parametrize(
    ("cls", "data", "complaint"),
    [
        (Node, {"uuid": "u", "name": "node9"}, "Node node9 cannot be read: Object missing required field"),
        (Instance, {"uuid": "u", "name": "web", "disks": "none"}, r"Instance web cannot be read: .*\$.disks"),
        (Disk, {"uuid": "u", "dev_type": "plain", "children": [{"uuid": "c"}]}, "Disk c cannot be read: .*dev_type"),
        (Nic, {}, "Nic without a name cannot be read: .*mac"),
    ],
)
def test_what_cannot_be_read_is_named(cls, data, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        cls.from_plain(data)


def test_a_file_without_a_cluster_is_none():
    with pytest.raises(ConfigurationError, match=r"not a config.data file"):
        Configuration.from_plain({"version": 3010000})


def test_exchanged_names_are_indexed_rightly(config):
    one, two = config.instance(WEB1), config.instance(WEB2)
    config.put("instances", WEB1, replace(one, name=two.name))
    config.put("instances", WEB2, replace(two, name=one.name))
    assert config.uuid_by_name("instances", one.name) == WEB2
    assert config.uuid_by_name("instances", two.name) == WEB1
    config.remove("instances", WEB1)
    assert sorted(config.names("instances")) == ["web1.example.com", "web3.example.com"]


def test_a_draft_advances_serial_and_time_once_and_leaves_its_base_alone(config):
    draft = Draft(config, 2_000_000_000.0)
    web1 = config.instance(WEB1)
    draft.put("instances", replace(web1, admin_state="down"))
    draft.put("instances", replace(draft.instance(WEB1), name="renamed"))
    changed = draft.instance(WEB1)
    assert (changed.serial_no, changed.mtime, changed.ctime) == (web1.serial_no + 1, 2_000_000_000.0, web1.ctime)
    assert (changed.admin_state, changed.name) == ("down", "renamed")
    assert config.instance(WEB1) == web1


def test_a_new_object_gets_its_first_serial_and_both_times(config):
    draft = Draft(config, 2_000_000_000.0)
    draft.put("disks", Disk(uuid="d", dev_type="plain", serial_no=77))
    disk = draft.disk("d")
    assert (disk.serial_no, disk.ctime, disk.mtime) == (1, 2_000_000_000.0, 2_000_000_000.0)


def test_a_draft_is_read_as_if_it_were_committed(config):
    draft = Draft(config, 0.0)
    draft.put("instances", replace(config.instance(WEB1), name="renamed"))
    draft.remove("instances", WEB2)
    draft.put("disks", Disk(uuid="d", dev_type="plain"))
    draft.put("disks", Disk(uuid="short-lived", dev_type="plain"))
    draft.remove("disks", "short-lived")
    assert list(draft.names("instances")) == ["renamed", "web3.example.com"]
    assert draft.find_instance("renamed").uuid == WEB1
    assert draft.uuid_by_name("instances", "web1.example.com") is None
    assert draft.uuid_by_name("instances", "web2.example.com") is None
    assert [disk.uuid for disk in draft.disks()][-1] == "d"
    assert ("disks", "short-lived") not in draft.touched


@pytest.mark.parametrize("typed", ["web1.example.com", WEB1, "web1", "web1.example"])
def test_instances_are_found_by_name_uuid_or_leading_labels(config, typed):
    assert config.find_instance(typed).uuid == WEB1


@pytest.mark.parametrize(
    ("find", "typed", "complaint"),
    [
        ("find_instance", "web", r"Instance 'web' not known: there are web1.example.com, web2"),
        ("find_node", "nobody", r"Node 'nobody' not known: there are node1.example.com"),
        ("find_group", "def", r"Group 'def' not known: there are default"),
        ("find_network", "la", r"Network 'la' not known: there are lan"),
    ],
)
def test_an_unknown_name_says_which_there_are(config, find, typed, complaint):
    with pytest.raises(PrerequisiteError, match=complaint) as caught:
        getattr(config, find)(typed)
    assert caught.value.code == "unknown_entity"


def test_an_ambiguous_name_is_refused(config):
    config.put("instances", "x", Instance(uuid="x", name="web1.example.org"))
    with pytest.raises(PrerequisiteError, match=r"'web1' is ambiguous: it may be web1.example.com, web1.example.org"):
        config.find_instance("web1")


def test_what_belongs_together(config):
    web1 = config.instance(WEB1)
    assert config.instance_nodes(web1) == [NODE1, NODE2]
    assert config.secondary_nodes(web1) == [NODE2]
    assert config.disk_template(web1) == "drbd"
    assert config.disk_template(replace(web1, disks=[])) == "diskless"
    mixed = replace(web1, disks=[*web1.disks, *config.instance(WEB2).disks])
    assert config.disk_template(mixed) == "mixed"
    assert [instance.name for instance in config.primary_instances(NODE2)] == ["web2.example.com"]
    assert [node.name for node in config.group_nodes(config.find_group("spare").uuid)] == ["node3.example.com"]
