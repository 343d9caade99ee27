# SPDX-License-Identifier: BSD-2-Clause
"""Configurations of other versions, up and down."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from tests.fakes import sample_cluster

from ganeti.base.errors import ConfigurationError
from ganeti.master.config import versions
from ganeti.master.config.invariants import verify_all
from ganeti.model.configuration import Configuration
from ganeti.model.objects import CONFIG_VERSION
from ganeti.node.catalogue import build_catalogue

LIMITS = {"memory-size": 1, "disk-size": 1, "disk-count": 0, "cpu-count": 1, "nic-count": 0, "spindle-use": 1}


def numbered() -> Callable[[], str]:
    counter = itertools.count()
    return lambda: f"uuid-new-{next(counter)}"


def old(version: int = 2070000) -> dict[str, Any]:
    """A cluster of 2.7: everything under names, disks in instances, old names of types."""
    disk = {
        "dev_type": "drbd8",
        "logical_id": ["node1", "node2", 11000, 0, 1, "secret"],
        "physical_id": None,
        "children": [{"dev_type": "lvm", "logical_id": ["xenvg", "a.disk0_data"], "size": 64}],
        "iv_name": "disk/0",
        "size": 64,
        "mode": "rw",
    }
    node = {"group": "uuid-group", "master_candidate": True, "offline": False, "drained": False}
    return {
        "version": version,
        "serial_no": 7,
        "cluster": {
            "uuid": "uuid-cluster",
            "cluster_name": "old",
            "master_node": "node1",
            "master_ip": "10.0.0.100",
            "master_netdev": "eth0",
            "enabled_hypervisors": ["kvm"],
            "hvparams": {"kvm": {"disk_discard": "default"}},
            "beparams": {"default": {"memory": 128, "vcpus": 1}},
            "nicparams": {"default": {"mode": "bridged", "link": "br0"}},
            "ipolicy": {"min": LIMITS, "max": LIMITS, "std": LIMITS},
            "candidate_pool_size": 2,
        },
        "nodes": {
            name: node | {"name": name, "uuid": f"uuid-{name}", "primary_ip": ip, "secondary_ip": ip}
            for name, ip in (("node1", "10.0.0.1"), ("node2", "10.0.0.2"))
        },
        "nodegroups": {"uuid-group": {"uuid": "uuid-group", "name": "default", "members": []}},
        "instances": {
            "web": {
                "name": "web",
                "uuid": "uuid-web",
                "primary_node": "node1",
                "os": "debian",
                "hypervisor": "kvm",
                "disk_template": "drbd",
                "disks": [disk],
                "nics": [{"mac": "aa:00:00:00:00:01", "nicparams": {}}],
                "admin_state": "up",
            }
        },
    }


def test_a_cluster_of_2_7_is_one_of_3_1() -> None:
    plain = old()
    versions.upgrade(plain, numbered())
    assert plain["version"] == CONFIG_VERSION
    config = Configuration.from_plain(plain)
    assert verify_all(config) == []
    (instance,) = config.instances()
    (disk,) = config.instance_disks(instance)
    assert instance.primary_node == "uuid-node1" == config.cluster.master_node
    assert disk.dev_type == "drbd" and disk.children[0].dev_type == "plain"
    assert disk.logical_id[:2] == ["uuid-node1", "uuid-node2"] == disk.nodes
    assert config.cluster.ipolicy["minmax"] == [{"min": LIMITS, "max": LIMITS}]
    assert config.cluster.beparams["default"] == {"maxmem": 128, "minmem": 128, "vcpus": 1}
    assert config.cluster.hvparams["kvm"] == {"disk_discard": "ignore"}
    assert "disk_template" not in instance.unknown and instance.nics[0].uuid
    assert config.cluster.enabled_disk_templates == ["drbd"] and config.cluster.data_collectors


def test_limits_of_a_group_that_named_some_sizes_are_kept() -> None:
    plain = old()
    plain["cluster"]["ipolicy"]["max"] = LIMITS | {"memory-size": 4096}
    plain["nodegroups"]["uuid-group"]["ipolicy"] = {"min": {}, "max": {"memory-size": 512}, "std": {}}
    versions.upgrade(plain, numbered())
    pair = {"min": LIMITS, "max": LIMITS | {"memory-size": 512}}
    assert plain["nodegroups"]["uuid-group"]["ipolicy"] == {"minmax": [pair]}


def test_nics_that_name_their_network_mean_its_uuid() -> None:
    plain = old()
    free = {"reservations": "0" * 16, "ext_reservations": "0" * 16}
    plain["networks"] = {"uuid-net": free | {"uuid": "uuid-net", "name": "dmz", "network": "192.0.2.0/28"}}
    plain["instances"]["web"]["nics"][0]["network"] = "dmz"
    versions.upgrade(plain, numbered())
    config = Configuration.from_plain(plain)
    assert config.instances()[0].nics[0].network == "uuid-net" and verify_all(config) == []


def test_a_cluster_without_a_list_of_templates_keeps_what_it_could_make() -> None:
    plain = old()
    plain["cluster"] |= {"volume_group_name": "xenvg", "drbd_usermode_helper": "/bin/true"}
    plain["instances"]["web"] |= {"disks": [], "disk_template": "diskless"}
    versions.upgrade(plain, numbered())
    assert plain["cluster"]["enabled_disk_templates"] == ["diskless", "drbd", "plain"]
    empty = old() | {"instances": {}}
    versions.upgrade(empty, numbered())
    assert empty["cluster"]["enabled_disk_templates"] == ["diskless"]


def test_disks_of_what_should_run_are_open() -> None:
    plain = old()
    plain["instances"]["off"] = copy.deepcopy(plain["instances"]["web"]) | {"uuid": "uuid-off", "admin_state": "down"}
    plain["instances"]["off"] |= {"name": "off", "disks": [], "nics": []}
    versions.upgrade(plain, numbered())
    config = Configuration.from_plain(plain)
    assert {each.name: each.disks_active for each in config.instances()} == {"web": True, "off": False}


def test_once_more_changes_nothing() -> None:
    plain = old()
    versions.upgrade(plain, numbered())
    assert versions.upgrade(plain, numbered()) == []


def test_what_this_program_writes_needs_nothing() -> None:
    plain = sample_cluster.configuration().to_plain()
    before = Configuration.from_plain(plain)
    versions.upgrade(plain, numbered())
    assert Configuration.from_plain(plain).nodes() == before.nodes()


@pytest.mark.parametrize(("version", "said"), [(2060000, "upgrade it with a later"), (3020000, "use a newer release")])
def test_versions_that_cannot_be_converted(version: int, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        versions.upgrade(old(version), numbered())


@pytest.mark.parametrize("plain", [{}, {"version": True}, {"version": "3"}, {"version": 12}])
def test_no_version(plain: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="names no version"):
        versions.upgrade(plain, numbered())


def test_down_to_3_0() -> None:
    plain = sample_cluster.configuration().to_plain()
    plain["cluster"]["capacity_params"] = {"a": 1}
    plain["cluster"]["hvparams"]["kvm"] = {"disk_aio": "io_uring"}
    said = versions.downgrade(plain, build_catalogue())
    assert plain["version"] == 3000000
    assert "capacity_params" not in plain["cluster"]
    assert plain["cluster"]["hvparams"]["kvm"] == {"disk_aio": "threads"}
    assert len(said) == 3
    with pytest.raises(ConfigurationError, match=r"only 3\.1 can be downgraded"):
        versions.downgrade(plain, build_catalogue())


def test_what_only_3_0_has_of_xen_goes_and_comes_back() -> None:
    plain = with_instance()
    plain["version"] = 3000000
    plain["cluster"]["hvparams"]["xen-pvm"] = {"xen_cmd": "xm", "cpu_cap": 5}
    plain["cluster"]["os_hvp"] = {"debian": {"xen-hvm": {"xen_cmd": "xl"}}}
    versions.upgrade(plain, numbered())
    assert plain["cluster"]["hvparams"]["xen-pvm"] == {"cpu_cap": 5}
    assert plain["cluster"]["os_hvp"] == {"debian": {"xen-hvm": {}}}
    versions.downgrade(plain, build_catalogue())
    assert plain["cluster"]["hvparams"]["xen-pvm"] == {"xen_cmd": "xl", "cpu_cap": 5}


@pytest.mark.parametrize(("template", "nodes"), [("sharedfile", []), ("rbd", []), ("file", ["uuid-node1"])])
def test_shared_disks_are_on_no_node_in_particular_for_3_0(template: str, nodes: list[str]) -> None:
    plain = with_instance()
    (instance,) = plain["instances"].values()
    plain["disks"] = {"uuid-disk": {"uuid": "uuid-disk", "dev_type": template, "nodes": ["uuid-node1"]}}
    instance["disks"] = ["uuid-disk"]
    versions.downgrade(plain, build_catalogue())
    assert plain["disks"]["uuid-disk"]["nodes"] == nodes


def test_parameters_that_3_0_does_not_know_do_not_go_down() -> None:
    plain = with_instance()
    (instance,) = plain["instances"].values()
    instance |= {"hypervisor": "kvm", "hvparams": {"disk_iops": 300, "acpi": True}}
    plain["cluster"]["hvparams"]["kvm"] = {"hotplug_vcpus": 4}
    said = versions.downgrade(plain, build_catalogue())
    assert instance["hvparams"] == {"acpi": True} and plain["cluster"]["hvparams"]["kvm"] == {}
    assert "instance web: disk_iops is not known to 3.0 and was left out" in said


def with_instance() -> dict[str, Any]:
    config = sample_cluster.configuration()
    sample_cluster.add_instance(config, "web")
    plain: dict[str, Any] = config.to_plain()
    return plain


def test_nothing_that_the_classes_of_3_0_refuse_goes_down() -> None:
    plain = with_instance()
    disk = next(iter(plain["disks"].values()))
    before = copy.deepcopy(plain)
    plain |= {"maintenance": {"roundDelay": 100}, "backups": {"keys": {}}}
    disk |= {"snapshots": {"before": 1.0}, "generation": 1}
    said = versions.downgrade(plain, build_catalogue())
    assert plain == before | {"version": 3000000}
    assert "maintenance is not known to 3.0 and was left out" in said
    assert f"disk {disk['uuid']}: snapshots is not known to 3.0 and was left out" in said


def test_an_instance_between_two_states_does_not_go_down() -> None:
    plain = with_instance()
    instance = next(iter(plain["instances"].values()))
    instance["reverting"] = "before"
    with pytest.raises(ConfigurationError, match=f"instance {instance['name']} is being taken back"):
        versions.downgrade(plain, build_catalogue())
    assert instance["reverting"] == "before" and versions.version_of(plain) == (3, 1), "nothing is changed"


def test_unknown_fields_are_named() -> None:
    plain = sample_cluster.configuration().to_plain()
    plain["cluster"]["colour"] = "red"
    assert versions.unknown_fields(plain) == ["cluster: colour"]
