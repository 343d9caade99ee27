# SPDX-License-Identifier: BSD-2-Clause
"""Parameters of the cluster: what is taken, what is refused, what is told."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import ParameterError, PrerequisiteError
from ganeti.master.operation import decode
from ganeti.master.operations.cluster.inherited_parameters import newly_outside
from ganeti.master.operations.cluster.set_params import ChangeCluster, Facts, ModifyCluster
from ganeti.model.configuration import Draft
from ganeti.model.ipolicy import SPEC_KEYS
from ganeti.model.locks import ALL_GROUPS, ALL_INSTANCES, ALL_NODES, BGL, LockPlan, node_lock
from ganeti.model.objects import CLUSTER_KEY, Nic
from ganeti.model.parameters import Parameter
from ganeti.model.traits import VOLUME_GROUP, Catalogue, HypervisorTraits, TemplateTraits

HAIL = "/usr/lib/ganeti/iallocators/hail"


def make() -> FakeContext:
    ctx = FakeContext(configuration(), catalogue())
    cluster = ctx.config.config.cluster
    ctx.config.config.put("cluster", CLUSTER_KEY, replace(cluster, default_iallocator=""))
    ctx.nodes.handlers["os_diagnose"] = lambda name: []
    ctx.nodes.handlers["node_verify"] = lambda name, checks: {
        "filelist": {path: "digest" if path == HAIL else None for path in checks.get("filelist", [])}
    }
    return ctx


def modify(ctx: FakeContext, **values: Any) -> None:
    """Take the opcode as it comes from a client."""
    assert run(decode({"OP_ID": "OP_CLUSTER_SET_PARAMS", **values}), ctx) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_running_jobs", 1),
        ("max_tracked_jobs", 3000),
        ("prealloc_wipe_disks", True),
        ("default_iallocator_params", {"a": "b"}),
        ("mac_prefix", "02:aa:bb"),
        ("use_external_mip_script", True),
        ("modify_etc_hosts", True),
        ("enabled_user_shutdown", True),
        ("maintain_node_health", True),
        ("default_iallocator", "hail"),
        ("reserved_lvs", ["xenvg/(root|swap)"]),
        ("compression_tools", ["gzip", "lzop"]),
        ("zeroing_image", "https://images.example.com/zero.raw"),
    ],
)
def test_a_value_is_taken_and_no_other_is_touched(name: str, value: Any) -> None:
    ctx = make()
    before = ctx.config.view().cluster
    modify(ctx, **{name: value})
    after = ctx.config.view().cluster
    stamps = {"serial_no": after.serial_no, "mtime": after.mtime}
    assert getattr(before, name) != value
    assert after == replace(before, **{name: value}, **stamps)
    assert ctx.config.settled == [True]


def test_empty_is_a_value_and_null_is_none() -> None:
    ctx = make()
    imported = {"reserved_lvs": ["a/b"], "install_image": "/srv/base.img", "maintain_node_health": True}
    ctx.config.config.put("cluster", CLUSTER_KEY, replace(ctx.config.view().cluster, **imported))
    modify(ctx, default_iallocator="hail", maintain_node_health=False)
    modify(ctx, reserved_lvs=[], install_image="", default_iallocator="", max_running_jobs=None, vg_name=None)
    cluster = ctx.config.view().cluster
    assert (cluster.reserved_lvs, cluster.install_image, cluster.default_iallocator) == ([], "", "")
    assert not cluster.maintain_node_health
    assert cluster.max_running_jobs == 20


def test_candidates_without_the_script_that_moves_the_address_are_named() -> None:
    ctx = make()
    ctx.nodes.handlers["node_verify"] = lambda name, checks: {
        "user-scripts": checks["user-scripts"] if name == "node2" else []
    }
    modify(ctx, use_external_mip_script=True)
    assert ctx.config.view().cluster.use_external_mip_script
    said = "There is no program /etc/ganeti/scripts/master-ip-setup on node2: put it there, or the cluster's address"
    assert any(said in line for line in ctx.lines)
    before = len(ctx.lines)
    modify(ctx, use_external_mip_script=True)
    assert len(ctx.lines) == before


def test_force_takes_an_allocator_that_is_not_there_yet() -> None:
    ctx = make()
    modify(ctx, default_iallocator="later", force=True)
    assert ctx.config.view().cluster.default_iallocator == "later"
    assert ctx.lines[0].startswith("The allocator 'later' was not found in")


def test_a_volume_group_is_looked_for_on_nodes_and_stays_while_a_template_needs_it() -> None:
    ctx = make()
    volumes = TemplateTraits("volumes", VOLUME_GROUP)
    ctx.catalogue = Catalogue({**ctx.catalogue.templates, "volumes": volumes}, ctx.catalogue.hypervisors)
    modify(ctx, vg_name="fast")
    enabled = [*ctx.config.view().cluster.enabled_disk_templates, "volumes"]
    asked: list[Any] = []

    def look(name: str, *, checks: Any) -> Any:
        asked.extend(checks["storage"])
        return {"storage": {"volumes fast": ["there is no volume group fast"] if name == "node2" else []}}

    ctx.nodes.handlers["node_verify"] = look
    with pytest.raises(PrerequisiteError, match="Node node2, volumes: there is no volume group fast"):
        modify(ctx, enabled_disk_templates=enabled)
    assert asked[0] == {"template": "volumes", "setting": "fast"}
    modify(ctx, enabled_disk_templates=enabled, force=True)
    with pytest.raises(PrerequisiteError, match="The disk template volumes is enabled and needs volume_group_name"):
        modify(ctx, vg_name="")
    assert ctx.config.view().cluster.volume_group_name == "fast"
    modify(ctx, enabled_disk_templates=enabled[:-1], vg_name="")
    assert ctx.config.view().cluster.volume_group_name is None


def test_nothing_given_commits_nothing() -> None:
    ctx = make()
    modify(ctx)
    assert ctx.story == []


def test_names_are_added_and_removed_and_needless_changes_told() -> None:
    ctx = make()
    modify(ctx, hidden_os=[["add", "a"], ["add", "b"]], blacklisted_os=[["remove", "c"]])
    modify(ctx, hidden_os=[["remove", "a"], ["add", "b"], ["add", "d"], ["remove", "d"]])
    assert ctx.config.view().cluster.hidden_os == ["b"]
    assert ctx.lines == [
        "OS c not found in blacklisted_os, ignoring",
        "OS b already in hidden_os, ignoring",
    ]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"max_running_jobs": 0}, "parameter 'max_running_jobs': it must be 1 or more"),
        ({"max_running_jobs": -3}, "1 or more"),
        ({"max_running_jobs": "7"}, "must be a whole number or null, not text"),
        ({"max_running_jobs": 7.5}, "must be a whole number or null, not one with a fraction"),
        ({"max_running_jobs": 2.5}, "a whole number"),
        ({"max_running_jobs": True}, "a whole number"),
        ({"max_running_jobs": 10**30}, "2147483647 or less"),
        ({"max_running_jobs": 2**31}, "2147483647 or less"),
        ({"max_tracked_jobs": 0}, "parameter 'max_tracked_jobs': it must be 1 or more"),
        ({"mac_prefix": "aa:bb"}, "three bytes"),
        ({"mac_prefix": "01:00:00"}, "first byte must be even"),
        ({"mac_prefix": ""}, "it must not be empty"),
        ({"install_image": "base.img"}, "cannot be the install image: give an absolute path, or a URL of http"),
        ({"zeroing_image": "zero.img"}, "cannot be the zeroing image: give an absolute path, or a URL of http"),
        ({"compression_tools": ["zstd"]}, "The compression tool gzip cannot be left out: add it to the list"),
        ({"compression_tools": ["gzip", "rm -rf"]}, "'rm -rf' cannot be a compression tool"),
        ({"compression_tools": ["gzip", "none"]}, "'none' cannot be a compression tool"),
        ({"reserved_lvs": ["vg/(root"]}, "is no regular expression"),
        (
            {"osparams_private_cluster": {"noop": {"a": 1}}},
            "The value of the OS parameter 'a' is no text: put it in quotation marks",
        ),
        ({"enabled_hypervisors": ["moon"]}, "Unknown hypervisor 'moon': there are pretend"),
        ({"enabled_hypervisors": []}, "At least one hypervisor must be enabled"),
        ({"enabled_disk_templates": ["local", "local"]}, "The disk template 'local' is given twice"),
        ({"enabled_disk_templates": ["local"]}, "policy of the cluster allows common, none, which would be disabled"),
        ({"file_storage_dir": "disks"}, "'disks' for file_storage_dir is not an absolute path"),
        ({"file_storage_dir": ""}, "The disk template local is enabled and needs file_storage_dir"),
        ({"master_netmask": 33}, "The master netmask 33 is not a prefix length: it is from 1 to 32"),
        ({"master_netdev": "../eth0"}, "'../eth0' cannot be the name of a network interface"),
        ({"hv_state": {"moon": {}}}, "Unknown hypervisor 'moon': there are pretend"),
        ({"hv_state": {"pretend": {"mem_moon": 1}}}, "Unknown pretend state parameter 'mem_moon'"),
        ({"disk_state": {"local": {"a": {}}}}, "Disk state 'local' is of no disk template"),
        ({"disk_state": {"file": {"a": {}}}}, "it can be recorded for plain alone"),
        ({"default_iallocator": "nosuch"}, "The allocator 'nosuch' was not found in"),
        ({"default_iallocator": "../bin/sh"}, "was not found in"),
        ({"hidden_os": [["put", "a"]]}, "hidden_os"),
        ({"vg_name": "a/b", "max_running_jobs": 5}, "'a/b'"),
        ({"beparams": {"vcpus": 0}}, "Parameter 'vcpus' cannot be 0: the least is 1"),
        ({"beparams": {"minmem": 4096}}, "minmem of the cluster would be 4096, above maxmem (128)"),
        ({"hvparams": {"moon": {"a": "b"}}}, "Unknown hypervisor 'moon': there are pretend"),
        ({"hvparams": {"pretend": {"moon": 1}}}, "Unknown pretend parameter 'moon'"),
        ({"os_hvp": {"noop": {"moon": {}}}}, "Unknown hypervisor 'moon'"),
        ({"osparams": {"noop": {"a": 1}}}, "The value of the OS parameter 'a' is no text: put it in quotation marks"),
        ({"diskparams": {"moon": {}}}, "Unknown disk template 'moon'"),
        ({"ipolicy": {"moon": 1}}, "Unknown instance policy key 'moon'"),
        ({"ipolicy": {"std": {"moon": 1}}}, "unknown key 'moon'"),
        ({"ipolicy": {"std": {"cpu-count": "many"}}}, "cpu-count cannot be 'many'"),
        ({"ipolicy": {"std": {"cpu-count": 99}}}, "outside every pair of bounds"),
        ({"ipolicy": {"minmax": 3}}, "minmax must be a list that is not empty"),
        ({"ipolicy": {"minmax": [{"min": {}}]}}, "each pair of bounds has min and max"),
        ({"ipolicy": {"minmax": [{"min": {"cpu-count": 1}, "max": {}}]}}, "min leaves out memory-size, disk-count"),
        ({"ipolicy": {"disk-templates": ["moon"]}}, "'moon' is no enabled disk template"),
        ({"ipolicy": {"vcpu-ratio": 0.5}}, "vcpu-ratio must be a number of at least 1"),
        ({"nicparams": {"link": ""}}, "link must not be empty"),
        ({"ndparams": {"ssh_port": 0}}, "Parameter 'ssh_port' cannot be 0"),
        ({"no_such": 1}, "there is no parameter 'no_such'"),
    ],
)
def test_what_is_wrong_is_refused_in_a_sentence_and_changes_nothing(values: dict[str, Any], sentence: str) -> None:
    ctx = make()
    before = ctx.config.view().cluster
    with pytest.raises(PrerequisiteError) as caught:
        modify(ctx, **values)
    assert sentence in str(caught.value)
    assert ctx.config.view().cluster == before


@pytest.mark.requirement("S2.57")
def test_a_change_that_waits_for_no_instance_runs_its_hooks_on_the_master() -> None:
    ctx = make()
    operation = ModifyCluster(max_running_jobs=5)
    view = ctx.config.view()
    assert operation.locks(view) == LockPlan(shared=frozenset({BGL}))
    hooks = operation.hooks(view, operation.check(view, Facts(), ctx))  # type: ignore[arg-type]
    assert (hooks.path, hooks.object_type, hooks.target) == ("cluster-modify", "CLUSTER", "cluster")
    assert hooks.env == {"NEW_VG_NAME": "None"}
    assert hooks.pre_nodes == hooks.post_nodes == ["uuid-node1"]


def test_a_dictionary_changes_only_the_keys_it_names_and_default_takes_one_back() -> None:
    ctx = make()
    modify(ctx, beparams={"memory": "1g", "vcpus": 2}, hvparams={"pretend": {"kernel": "/boot/l", "port": 81}})
    modify(ctx, beparams={"vcpus": 3, "minmem": 512}, hvparams={"pretend": {"port": "default"}})
    modify(ctx, os_hvp={"noop": {"pretend": {"kernel": "/boot/m"}}}, osparams={"noop": {"a": "b", "c": "d"}})
    modify(ctx, osparams={"noop": {"a": "default"}}, nicparams={"link": "br1"}, ndparams={"ssh_port": 2222})
    cluster = ctx.config.view().cluster
    assert cluster.beparams == {"default": {"maxmem": 1024, "minmem": 512, "vcpus": 3}}
    assert cluster.hvparams == {"pretend": {"kernel": "/boot/l"}}
    assert cluster.os_hvp == {"noop": {"pretend": {"kernel": "/boot/m"}}}
    assert cluster.osparams == {"noop": {"c": "d"}}
    assert (cluster.nicparams, cluster.ndparams) == ({"default": {"link": "br1"}}, {"ssh_port": 2222})
    taken_back = {"os_hvp": {"noop": {"pretend": {"kernel": "default"}}}, "osparams": {"noop": {"c": "default"}}}
    modify(ctx, **taken_back, osparams_private_cluster={"noop": {"a": "default"}})
    cluster = ctx.config.view().cluster
    assert (cluster.os_hvp, cluster.osparams, cluster.osparams_private_cluster) == ({}, {}, {})


def test_an_os_parameter_that_its_definition_does_not_know_is_refused() -> None:
    ctx = make()
    known = {"name": "noop", "path": "/srv/os/noop", "valid": True, "parameters": [("Rate", "how fast")]}
    ctx.nodes.handlers["os_diagnose"] = lambda name: [known, known | {"path": "/usr/os/noop", "parameters": []}]
    for what in ("osparams", "osparams_private_cluster"):
        with pytest.raises(PrerequisiteError, match="Unknown parameter of OS 'noop': colour; there are rate"):
            modify(ctx, **{what: {"noop": {"rate": "1", "colour": "red"}}})
    modify(ctx, osparams={"noop+small": {"rate": "1", "colour": "default", "os-image": "x"}, "elsewhere": {"a": "b"}})
    assert ctx.config.view().cluster.osparams["noop+small"] == {"rate": "1", "os-image": "x"}
    assert "OS 'elsewhere' is not on node1: its parameters cannot be checked" in str(ctx.log.lines)


def test_what_an_instance_inherits_must_fit_what_it_has_itself() -> None:
    ctx = make()
    add_instance(ctx.config.config, "one")
    instance = ctx.config.view().find_instance("one")
    bare = replace(instance, beparams={"maxmem": 256}, nics=[Nic(uuid="nic", mac="aa:00:00:00:00:01")])
    ctx.config.config.put("instances", bare.uuid, bare)
    with pytest.raises(PrerequisiteError, match="minmem of instance one would be 512, above maxmem"):
        modify(ctx, beparams={"memory": 512})
    with pytest.raises(PrerequisiteError, match="NIC 0 of instance one would be routed without an address"):
        modify(ctx, nicparams={"mode": "routed"})


def test_what_nics_inherit_brings_no_two_addresses_together() -> None:
    ctx = make()
    for number, nicparams in enumerate(({"link": "br1"}, {})):
        add_instance(ctx.config.config, f"web{number}")
        instance = ctx.config.view().find_instance(f"web{number}")
        nic = Nic(uuid=f"nic{number}", mac=f"aa:00:00:00:00:0{number}", ip="192.0.2.9", nicparams=nicparams)
        ctx.config.config.put("instances", instance.uuid, replace(instance, nics=[nic]))
    same = "NIC 0 of web0 and NIC 0 of web1 would have the IP address 192.0.2.9 on the same link"
    with pytest.raises(PrerequisiteError, match=same):
        modify(ctx, nicparams={"link": "br1"})
    modify(ctx, nicparams={"link": "br2"})


def test_of_the_policy_only_what_is_given_changes() -> None:
    ctx = make()
    before = ctx.config.view().cluster.ipolicy
    modify(ctx, ipolicy={"std": {"memory-size": "1g"}, "vcpu-ratio": 2.5, "disk-templates": ["local"]})
    after = ctx.config.view().cluster.ipolicy
    standard = before["std"] | {"memory-size": 1024}
    assert after == before | {"std": standard, "vcpu-ratio": 2.5, "disk-templates": ["local"]}
    bounds = {"min": dict.fromkeys(SPEC_KEYS, 1), "max": dict.fromkeys(SPEC_KEYS, 2048) | {"cpu-count": 4}}
    modify(ctx, ipolicy={"vcpu-ratio": "default", "minmax": [bounds]})
    after = ctx.config.view().cluster.ipolicy
    assert after["vcpu-ratio"] == before["vcpu-ratio"]
    assert [pair["max"]["cpu-count"] for pair in after["minmax"]] == [4]


def test_an_instance_that_a_new_policy_leaves_outside_is_told() -> None:
    ctx = make()
    add_instance(ctx.config.config, "one")
    for _ in range(2):
        modify(ctx, ipolicy={"disk-templates": ["local"]})
    assert ctx.lines == [
        "Instance one is kept, but lies outside the new policy: disk template common is not allowed, only local"
    ]


def test_no_instance_is_read_for_a_policy_that_admits_the_same_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 that takes a second."""
    view = make().config.view()
    monkeypatch.setattr(type(view), "instances", lambda self: pytest.fail("the instances were read"))
    wanted = replace(view.cluster, ipolicy=view.cluster.ipolicy | {"vcpu-ratio": 2.5}, mac_prefix="aa:bb:cc")
    assert newly_outside(view, wanted) == []


def test_every_node_looks_for_what_hypervisor_parameters_name() -> None:
    ctx = make()
    asked = []

    def look(node: str, hypervisor: str, hvparams: dict[str, Any]) -> None:
        asked.append((node, hypervisor, hvparams["kernel"]))
        if node == "node3":
            raise ParameterError("/boot/l is not there")

    ctx.nodes.handlers["hypervisor_validate_params"] = look
    with pytest.raises(PrerequisiteError, match="/boot/l is not there"):
        modify(ctx, hvparams={"pretend": {"kernel": "/boot/l"}})
    assert asked == [(f"node{index}", "pretend", "/boot/l") for index in (1, 2, 3)]
    assert ctx.config.view().cluster.hvparams == {}


def test_nodes_look_at_parameters_with_the_pool_of_user_ids_that_comes_with_them() -> None:
    ctx = make()
    pools = []
    ctx.nodes.handlers["hypervisor_validate_params"] = lambda node, **asked: pools.append(asked.get("user_ids"))
    modify(ctx, hvparams={"pretend": {"kernel": "/boot/l"}}, uid_pool=[(3000, 3999)])
    assert pools == [[[3000, 3999]]] * 3


def test_what_others_inherit_is_changed_under_their_locks() -> None:
    locks = ModifyCluster(beparams={"vcpus": 2}).locks(make().config.view())
    assert locks == LockPlan(shared=frozenset({BGL, ALL_NODES, ALL_INSTANCES, ALL_GROUPS}))


def test_two_changes_of_different_values_do_not_undo_each_other() -> None:
    config = configuration()
    draft = Draft(config, 1.0)
    ChangeCluster(values={"max_running_jobs": 3}, names={"hidden_os": [("add", "a")]}).apply(draft)
    ChangeCluster(values={"max_tracked_jobs": 7}, names={"hidden_os": [("add", "b")]}).apply(draft)
    cluster = draft.cluster
    assert (cluster.max_running_jobs, cluster.max_tracked_jobs, cluster.hidden_os) == (3, 7, ["a", "b"])


def test_collectors_are_switched_one_by_one() -> None:
    ctx = make()
    modify(ctx, enabled_data_collectors={"lv": False}, data_collector_interval={"diagnose": 60_000_000})
    assert ctx.config.view().cluster.data_collectors["lv"] == {"active": False, "interval": 5_000_000}
    modify(ctx, enabled_data_collectors={"lv": True})
    settings = ctx.config.view().cluster.data_collectors
    assert settings["lv"] == {"active": True, "interval": 5_000_000}
    assert settings["diagnose"] == {"active": True, "interval": 60_000_000}


@pytest.mark.requirement("S4.10")
def test_the_diagnose_command_has_a_plain_name_or_none() -> None:
    ctx = make()
    ctx.nodes.handlers["node_verify"] = has_command("node1", "node2", "node3")
    for name in ("check-disks", ""):
        modify(ctx, diagnose_data_collector_filename=name)
        assert ctx.config.view().cluster.diagnose_data_collector_filename == (name or None)


def has_command(*names: str) -> Callable[..., Any]:
    """These nodes have every file that is asked for."""
    return lambda name, checks: {"filelist": {path: "digest" if name in names else None for path in checks["filelist"]}}


def test_a_diagnose_command_that_no_node_has_is_refused() -> None:
    ctx = make()
    with pytest.raises(PrerequisiteError, match="No node has the diagnose command 'missing': put it into /etc/ganeti/"):
        modify(ctx, diagnose_data_collector_filename="missing")
    assert ctx.config.view().cluster.diagnose_data_collector_filename is None
    modify(ctx, diagnose_data_collector_filename="missing", force=True)
    assert ctx.config.view().cluster.diagnose_data_collector_filename == "missing" and "No node has" in ctx.lines[0]


def test_nodes_without_the_diagnose_command_are_named() -> None:
    ctx = make()
    ctx.nodes.handlers["node_verify"] = has_command("node1")
    modify(ctx, diagnose_data_collector_filename="check")
    assert "node2" in ctx.lines[0] and "node1" not in ctx.lines[0] and "node-diagnose-commands/check" in ctx.lines[0]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"enabled_data_collectors": {"lvs": True}}, "no data collector 'lvs'"),
        ({"data_collector_interval": {"moon": 5_000_000}}, "no data collector 'moon'"),
        ({"data_collector_interval": {"lv": 0}}, "choose 0.1 to 86400"),
        ({"data_collector_interval": {"lv": 10**15}}, "choose 0.1 to 86400"),
        ({"diagnose_data_collector_filename": "../../bin/sh"}, "cannot be the name of a diagnose command"),
    ],
)
def test_a_collector_setting_that_makes_no_sense(values: dict[str, Any], words: str) -> None:
    ctx = make()
    before = ctx.config.view().cluster
    with pytest.raises(PrerequisiteError, match=words):
        modify(ctx, **values)
    assert ctx.config.view().cluster == before


def test_a_larger_pool_makes_candidates_under_their_locks() -> None:
    ctx = make()
    for uuid in ("uuid-node2", "uuid-node3"):
        node = ctx.config.view().node(uuid)
        ctx.config.config.put("nodes", uuid, replace(node, master_candidate=False))
    ctx.config.config.put("cluster", CLUSTER_KEY, replace(ctx.config.view().cluster, candidate_pool_size=1))
    ctx.nodes.handlers["node_verify"] = lambda name, checks: {"client-cert": f"digest of {name}"}
    locks = ModifyCluster(candidate_pool_size=2).locks(ctx.config.view())
    assert locks.exclusive == {node_lock("uuid-node2")}
    modify(ctx, candidate_pool_size=2)
    assert [node.name for node in ctx.config.view().nodes() if node.master_candidate] == ["node1", "node2"]
    modify(ctx, candidate_pool_size=1)
    assert "There are 2 master candidates, more than the 1 that are wanted" in ctx.lines[-1]


def test_what_instances_use_stays_enabled() -> None:
    ctx = make()
    for number in range(7):
        add_instance(ctx.config.config, f"web{number}", template="local")
    with pytest.raises(PrerequisiteError, match="local is used by web0, web1, web2, web3, web4 and 2 more: it stays"):
        modify(ctx, enabled_disk_templates=["common"], ipolicy={"disk-templates": ["common"]})
    modify(ctx, enabled_disk_templates=["local"], ipolicy={"disk-templates": ["local"]})
    cluster = ctx.config.view().cluster
    assert (cluster.enabled_disk_templates, cluster.ipolicy["disk-templates"]) == (["local"], ["local"])
    ctx.catalogue.hypervisors["other"] = HypervisorTraits("other")
    with pytest.raises(PrerequisiteError, match="The hypervisor pretend is used by web0"):
        modify(ctx, enabled_hypervisors=["other"])
    modify(ctx, enabled_hypervisors=["other", "pretend"])
    cluster = ctx.config.view().cluster
    assert (cluster.enabled_hypervisors, cluster.hvparams["other"]) == (["other", "pretend"], {})


def test_a_hypervisor_is_enabled_with_the_parameters_it_is_given() -> None:
    """In one command: what nodes check are these, not those of before."""
    ctx = make()
    ctx.catalogue.hypervisors["other"] = HypervisorTraits("other", (Parameter("depth", "int", 0),))
    asked = []

    def node_verify(name: str, checks: dict[str, Any]) -> dict[str, Any]:
        asked.append(checks["hypervisor"])
        return {"hypervisor": {}}

    ctx.nodes.handlers["node_verify"] = node_verify
    modify(ctx, enabled_hypervisors=["pretend", "other"], hvparams={"other": {"depth": 3}})
    assert asked[0]["other"]["depth"] == 3
    cluster = ctx.config.view().cluster
    assert (cluster.enabled_hypervisors, cluster.hvparams["other"]) == (["pretend", "other"], {"depth": 3})


def test_nodes_are_asked_whether_disks_can_lie_in_a_new_directory() -> None:
    ctx = make()
    asked = []

    def look(node: str, checks: dict[str, Any]) -> dict[str, Any]:
        asked.append(checks)
        missing = ["/disks is not a directory: make it, or mount it"] if node == "node3" else []
        return {"storage": {"local /disks": missing}, "hypervisor": {}}

    ctx.nodes.handlers["node_verify"] = look
    with pytest.raises(PrerequisiteError, match="Node node3, local: /disks is not a directory: make it"):
        modify(ctx, file_storage_dir="/disks/")
    modify(ctx, file_storage_dir="/disks/", force=True)
    assert ctx.config.view().cluster.file_storage_dir == "/disks"
    assert asked[0] == {"storage": [{"template": "local", "setting": "/disks"}], "hypervisor": {}}
    assert ctx.lines == ["Node node3, local: /disks is not a directory: make it, or mount it"]
    ctx.nodes.handlers["node_verify"] = lambda node, checks: {"failures": {"storage": "the disk does not answer"}}
    with pytest.raises(PrerequisiteError, match="Node node1: the check 'storage' failed: the disk does not answer"):
        modify(ctx, file_storage_dir="/other")


def test_the_address_moves_and_comes_back_where_it_cannot() -> None:
    ctx = make()
    modify(ctx, master_netdev="br1", master_netmask=32, max_running_jobs=4)
    cluster = ctx.config.view().cluster
    assert (cluster.master_netdev, cluster.master_netmask, cluster.max_running_jobs) == ("br1", 32, 4)
    assert [line for line in ctx.story if not line.startswith("undo") and "verify" not in line] == [
        "node1 node_deactivate_master_ip",
        "commit ChangeCluster",
        "node1 node_activate_master_ip",
        "commit ChangeCluster settles",
    ]
    sentences = [record.sentence for record in ctx.records]
    assert sentences == [
        "take 10.77.0.100 on node1 again",
        "give the cluster its old address again",
        "give up 10.77.0.100 on node1",
    ]
    ctx.story.clear()
    modify(ctx, master_netdev="br1")
    assert ctx.story == []


@pytest.mark.parametrize("values", [{"master_netdev": "lo"}, {"master_netmask": 24}])
def test_every_candidate_must_be_able_to_carry_the_address(values: dict[str, Any]) -> None:
    ctx = make()
    asked = []

    def look(node: str, checks: dict[str, Any]) -> dict[str, Any]:
        asked.append((node, checks))
        return {"master-address": "lo is for itself alone" if node == "node2" else ""}

    ctx.nodes.handlers["node_verify"] = look
    with pytest.raises(
        PrerequisiteError, match=r"^Node node2 cannot carry the cluster's address 10\.77\.0\.100/.*: lo is"
    ):
        modify(ctx, **values)
    candidates = [node.name for node in ctx.config.view().nodes() if node.master_candidate and not node.offline]
    assert [node for node, _ in asked] == candidates
    assert {"netdev": "eth0", "netmask": 32} | {
        key.removeprefix("master_"): value for key, value in values.items()
    } == {key: asked[0][1]["master-address"][key] for key in ("netdev", "netmask")}
    assert "node_deactivate_master_ip" not in " ".join(ctx.story), "nothing was changed"
    modify(ctx, **values, force=True)
    assert getattr(ctx.config.view().cluster, next(iter(values))) == next(iter(values.values()))


def test_who_has_a_script_for_the_address_knows_by_itself_where_it_goes() -> None:
    ctx = make()
    ctx.nodes.handlers["node_verify"] = lambda node, checks: {"user-scripts": []}
    modify(ctx, use_external_mip_script=True)
    ctx.nodes.handlers["node_verify"] = lambda node, checks: {"master-address": "lo is for itself alone"}
    modify(ctx, master_netdev="lo")
    assert ctx.config.view().cluster.master_netdev == "lo"


def test_recorded_states_and_secret_parameters_are_merged() -> None:
    ctx = make()
    modify(
        ctx, hv_state={"pretend": {"mem_node": "1g", "cpu_node": 2}}, disk_state={"plain": {"vg": {"disk_total": 9}}}
    )
    modify(ctx, hv_state={"pretend": {"cpu_node": "default"}}, osparams_private_cluster={"noop": {"a": "secret"}})
    cluster = ctx.config.view().cluster
    assert cluster.hv_state_static == {"pretend": {"mem_node": 1024}}
    assert cluster.disk_state_static == {"plain": {"vg": {"disk_total": 9}}}
    assert cluster.osparams_private_cluster == {"noop": {"a": "secret"}}


def test_the_pool_of_user_ids_is_set_and_changed_in_parts() -> None:
    ctx = make()
    modify(ctx, uid_pool=[(100, 109), (200, 200)])
    assert ctx.config.view().cluster.uid_pool == [[100, 109], [200, 200]]
    modify(ctx, add_uids=[(110, 120)], remove_uids=[(200, 200), (105, 105)])
    assert ctx.config.view().cluster.uid_pool == [[100, 104], [106, 120]]
    with pytest.raises(PrerequisiteError, match="are not in the pool"):
        modify(ctx, remove_uids=[(300, 301)])
    modify(ctx, uid_pool=[])
    assert ctx.config.view().cluster.uid_pool == []


def test_the_helper_of_mirrored_volumes_is_a_program() -> None:
    ctx = make()
    modify(ctx, drbd_helper="/bin/false")
    assert ctx.config.view().cluster.drbd_usermode_helper == "/bin/false"
    modify(ctx, drbd_helper="")
    assert ctx.config.view().cluster.drbd_usermode_helper is None
    with pytest.raises(PrerequisiteError, match="The helper 'true' cannot be one"):
        modify(ctx, drbd_helper="true")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"add_uids": [(100, 109)]}, {"add_uids": [(200, 209)]}),
        ({"uid_pool": [(100, 109), (200, 209)]}, {"hidden_os": [("add", "b")]}),
        ({"hidden_os": [("add", "a")]}, {"hidden_os": [("add", "b")]}),
        ({"ipolicy": {"vcpu-ratio": 2.0}}, {"ipolicy": {"spindle-ratio": 3.0}}),
        ({"hvparams": {"pretend": {"port": 81}}}, {"enabled_hypervisors": ["pretend", "other"]}),
    ],
)
def test_what_another_job_changes_at_the_same_time_stays(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Both look at the cluster before either has changed it."""

    def told(*together: dict[str, Any], side_by_side: bool) -> Any:
        ctx = make()
        other = HypervisorTraits("other")
        ctx.catalogue = dataclasses.replace(ctx.catalogue, hypervisors=ctx.catalogue.hypervisors | {"other": other})
        ctx.nodes.handlers["hypervisor_validate_params"] = lambda name, **_: None
        view, facts = ctx.config.view(), Facts()
        opcodes = [decode({"OP_ID": "OP_CLUSTER_SET_PARAMS", **each}) for each in together]
        looked = [opcode.check(view, facts, ctx) for opcode in opcodes] if side_by_side else []
        for number, opcode in enumerate(opcodes):
            checked = looked[number] if side_by_side else opcode.check(ctx.config.view(), facts, ctx)
            asyncio.run(opcode.execute(checked, ctx))
        return ctx.config.view().cluster

    assert told(first, second, side_by_side=True) == told(first, second, side_by_side=False)
    assert told(first, second, side_by_side=False) != told(second, side_by_side=False)


def test_user_ids_that_another_job_took_from_the_pool_are_not_there() -> None:
    ctx = make()
    modify(ctx, uid_pool=[(100, 109)])
    opcode = decode({"OP_ID": "OP_CLUSTER_SET_PARAMS", "remove_uids": [(100, 104)]})
    checked = opcode.check(ctx.config.view(), Facts(), ctx)
    modify(ctx, remove_uids=[(100, 102)])
    with pytest.raises(ParameterError, match="are not in the pool, which is 103-109"):
        asyncio.run(opcode.execute(checked, ctx))
