# SPDX-License-Identifier: BSD-2-Clause
"""OP_GROUP_SET_PARAMS, and what it and OP_CLUSTER_SET_PARAMS say of capacity."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operation import decode
from ganeti.master.operations.cluster.set_params import ModifyCluster
from ganeti.master.operations.group.set_params import ModifyGroup
from ganeti.master.query.cluster import cluster_info
from ganeti.master.query.fields import QueryWorld
from ganeti.master.query.groups import GROUPS, GroupRow
from ganeti.model import inheritance
from ganeti.model.locks import group_lock, instance_lock

GROUP = "uuid-group1"


@pytest.fixture
def ctx() -> FakeContext:
    return FakeContext(configuration(), catalogue())


def modify(ctx: FakeContext, **parameters: Any) -> Any:
    return run(decode({"OP_ID": ModifyGroup.op_id, "group_name": "default", **parameters}), ctx)


def test_only_what_is_named_is_changed(ctx: FakeContext) -> None:
    assert modify(ctx, alloc_policy="last_resort") == [("alloc_policy", "last_resort")]
    assert modify(ctx, capacity_params={"max_cpu_ratio": 2, "max_inst_spec": [1, 2, 3]}) == [
        ("capacity_params", {"max_cpu_ratio": 2.0, "max_inst_spec": [1, 2, 3]})
    ]
    group = ctx.config.view().group(GROUP)
    assert group.alloc_policy == "last_resort"
    assert group.to_plain()["capacity_params"] == {"max_cpu_ratio": 2.0, "max_inst_spec": [1, 2, 3]}
    assert modify(ctx, capacity_params={}) == [("capacity_params", None)]
    assert "capacity_params" not in ctx.config.view().group(GROUP).to_plain(), "config.data is that of 3.1 again"


def test_an_empty_dictionary_is_a_modification_that_changes_nothing(ctx: FakeContext) -> None:
    """The `gnt-group modify` of 3.1 sends one where no option is given, and ends well."""
    before = ctx.config.view().group(GROUP).to_plain()
    assert modify(ctx, diskparams={}) == modify(ctx, hv_state={}, disk_state={}) == []
    assert ctx.config.view().group(GROUP).to_plain() == before
    with pytest.raises(PrerequisiteError, match="at least one modification"):
        modify(ctx)


def test_what_is_set_can_be_asked_for(ctx: FakeContext) -> None:
    def shown() -> list[Any]:
        view = ctx.config.view()
        row = GroupRow(view.group(GROUP), QueryWorld(view, catalogue()))
        return [GROUPS.fields[name].get(row) for name in ("custom_capacity_params", "capacity_params")]

    assert shown() == [{}, {}]
    assert "capacity_params" not in cluster_info(ctx.config.view(), catalogue()), "what clients of 3.1 get"
    of_all = {"max_cpu_ratio": 2.0, "default_template": "local"}
    run(decode({"OP_ID": ModifyCluster.op_id, "capacity_params": of_all}), ctx)
    modify(ctx, capacity_params={"max_cpu_ratio": 3})
    assert shown() == [{"max_cpu_ratio": 3.0}, {"max_cpu_ratio": 3.0, "default_template": "local"}]
    assert cluster_info(ctx.config.view(), catalogue())["capacity_params"] == of_all
    run(decode({"OP_ID": ModifyCluster.op_id, "capacity_params": {}}), ctx)
    modify(ctx, capacity_params={})
    assert "capacity_params" not in json.dumps(ctx.config.view().to_plain()), "3.1 reads it again"


@pytest.mark.requirement("S1.19")
def test_what_nodes_and_instances_inherit_is_changed_key_by_key(ctx: FakeContext) -> None:
    assert modify(
        ctx,
        ndparams={"ssh_port": "2222", "spindle_count": 3},
        hv_state={"pretend": {"mem_total": "2G"}},
        disk_state={"plain": {"srv": {"disk_total": 5}}},
        ipolicy={"vcpu-ratio": 2.0, "minmax": [{"min": {"memory-size": "64m"}, "max": {"memory-size": "1G"}}]},
    )[:2] == [
        ("ndparams", {"ssh_port": 2222, "spindle_count": 3}),
        ("hv_state", {"pretend": {"mem_total": 2048}}),
    ]
    assert modify(ctx, ndparams={"ssh_port": "default"}, ipolicy={"vcpu-ratio": "default"})[0] == (
        "ndparams",
        {"spindle_count": 3},
    )
    view = ctx.config.view()
    group = view.group(GROUP)
    assert group.disk_state_static == {"plain": {"srv": {"disk_total": 5}}}
    assert inheritance.node_nd(view, view.node("uuid-node1"))["spindle_count"] == 3
    assert list(group.ipolicy) == ["minmax"]
    modify(ctx, ipolicy={"disk-templates": ["none"]})
    modify(ctx, ipolicy={"disk-templates": ["default"]})
    assert list(ctx.config.view().group(GROUP).ipolicy) == ["minmax"], "as the list of an option comes"
    policy = inheritance.group_ipolicy(view.cluster, group)
    assert (policy["vcpu-ratio"], policy["minmax"][0]["max"]["memory-size"]) == (4.0, 1024)
    assert policy["minmax"][0]["max"]["cpu-count"] == 8, "what a bound leaves out is as in the cluster's bounds"


def test_an_instance_outside_the_new_policy_is_kept_and_named(ctx: FakeContext) -> None:
    add_instance(ctx.config.config, "one.example.com")
    operation = decode({"OP_ID": ModifyGroup.op_id, "group_name": "default", "ipolicy": {"disk-templates": ["none"]}})
    assert instance_lock("one.example.com") in operation.locks(ctx.config.view()).shared
    run(operation, ctx)
    assert ctx.config.view().group(GROUP).ipolicy == {"disk-templates": ["none"]}
    assert [line for line in ctx.lines if "one.example.com is kept, but lies outside the new policy" in line]


def test_states_that_are_empty_are_not_given(ctx: FakeContext) -> None:
    changed = modify(ctx, alloc_policy="last_resort", hv_state={}, disk_state={})
    assert changed == [("alloc_policy", "last_resort")]


def test_the_cluster_has_such_parameters_too(ctx: FakeContext) -> None:
    for given, kept in (({"default_template": "local"}, {"default_template": "local"}), ({}, None)):
        run(decode({"OP_ID": ModifyCluster.op_id, "capacity_params": given}), ctx)
        assert ctx.config.view().cluster.capacity_params == kept
    with pytest.raises(PrerequisiteError, match="not enabled"):
        run(decode({"OP_ID": ModifyCluster.op_id, "capacity_params": {"default_template": "rbd"}}), ctx)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "at least one"),
        ({"group_name": "mars", "alloc_policy": "preferred"}, "mars"),
        ({"alloc_policy": "never"}, "alloc_policy"),
        ({"ipolicy": {"std": {}}}, "std can only be set for the cluster"),
        ({"ipolicy": {"moon": 1}}, "Unknown instance policy key 'moon'"),
        ({"ipolicy": {"vcpu-ratio": 0.5}}, "vcpu-ratio must be a number of at least 1"),
        ({"ipolicy": {"disk-templates": ["moon"]}}, "'moon' is no enabled disk template"),
        ({"ipolicy": {"minmax": [{"min": {"cpu-count": 9}, "max": {}}]}}, "the minimum of cpu-count \\(9\\) is above"),
        ({"ndparams": {"moon": 1}}, "Unknown node parameter 'moon'"),
        ({"diskparams": {"moon": {}}}, "Unknown disk template 'moon'"),
        ({"disk_state": {"plain": {"srv": {"moon": 1}}}}, "Unknown disk state parameter 'moon'"),
        ({"hv_state": {"moon": {}}}, "Unknown hypervisor 'moon': there are pretend"),
        ({"hv_state": {"pretend": {"mem_total": -1}}}, "Parameter 'mem_total' cannot be"),
        ({"capacity_params": {"default_template": "rbd"}}, "not enabled"),
        ({"capacity_params": {"max_disk_usage": 2}}, "max_disk_usage"),
        ({"capacity_params": {"max_inst_spec": [1, 2, 0]}}, "has a vcpus of 0: give memory and disk in MiB"),
        ({"capacity_params": {"max_inst_spec": [1, 2**62, 1]}}, "has a disk of 4611686018427387904: give memory"),
        ({"capacity_params": {"more": 2}}, "more"),
    ],
)
def test_what_cannot_be_is_refused(ctx: FakeContext, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(PrerequisiteError, match=words):
        modify(ctx, **parameters)
    assert not any(line.startswith("commit") for line in ctx.story)


def test_the_group_is_locked_and_named_to_hooks(ctx: FakeContext) -> None:
    operation = decode({"OP_ID": ModifyGroup.op_id, "group_name": "default", "alloc_policy": "preferred"})
    view = ctx.config.view()
    assert operation.locks(view).exclusive == {group_lock(GROUP)}
    hooks = operation.hooks(view, operation.check(view, None, ctx))  # type: ignore[arg-type]
    assert hooks is not None
    assert (hooks.path, hooks.env) == ("group-modify", {"GROUP_NAME": "default", "NEW_ALLOC_POLICY": "preferred"})
