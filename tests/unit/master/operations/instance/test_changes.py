# SPDX-License-Identifier: BSD-2-Clause
"""Entering an instance into the configuration: what is refused there, whoever came first, and at which price."""

import pytest
from msgspec.structs import replace
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.base.errors import ConfigVerifyError, PrerequisiteError
from ganeti.master.config.head import Head
from ganeti.master.operations.changes import AddInstance
from ganeti.model.configuration import Configuration
from ganeti.model.objects import Instance


def cluster_with(name: str) -> tuple[Configuration, Instance]:
    config = configuration()
    return config, add_instance(config, name)


def newcomer(old: Instance, mac: str) -> AddInstance:
    nics = [replace(old.nics[0], uuid="uuid-nic-new", mac=mac)]
    return AddInstance(instance=replace(old, uuid="uuid-new", name="new", disks=[], nics=nics), disks=[])


@pytest.mark.parametrize("change", [str.lower, str.upper])
def test_a_mac_address_in_use_is_refused_with_both_names(change):
    config, old = cluster_with("web1")
    head = Head(config)
    with pytest.raises(ConfigVerifyError, match=f"MAC address {old.nics[0].mac.lower()} is used more than once: .*new"):
        head.stage(newcomer(old, change(old.nics[0].mac)), 1.0)
    assert config.get("instances", "uuid-new") is None and config.uuid_by_name("instances", "new") is None


def test_a_mac_address_twice_in_one_instance_is_refused():
    config, old = cluster_with("web1")
    change = newcomer(old, "aa:00:00:ff:ff:01")
    twice = [*change.instance.nics, replace(change.instance.nics[0], uuid="uuid-nic-2")]
    with pytest.raises(ConfigVerifyError, match="MAC address aa:00:00:ff:ff:01 is used more than once"):
        Head(config).stage(replace(change, instance=replace(change.instance, nics=twice)), 1.0)


def test_a_name_in_use_is_refused():
    config, old = cluster_with("web1")
    with pytest.raises(PrerequisiteError, match="'web1' is already in the cluster"):
        Head(config).stage(AddInstance(instance=replace(old, uuid="uuid-new"), disks=[]), 1.0)


def test_entering_an_instance_looks_at_no_other(monkeypatch):
    config, old = cluster_with("web1")
    head = Head(config)
    for walk in ("uuids", "names"):
        monkeypatch.setattr(Configuration, walk, lambda self, kind: pytest.fail(f"all {kind} are walked through"))
    head.stage(newcomer(old, "aa:00:00:ff:ff:01"), 1.0)
    assert config.get("instances", "uuid-new") is not None
