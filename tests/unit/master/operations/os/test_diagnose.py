# SPDX-License-Identifier: BSD-2-Clause
"""Operating systems are compared over the nodes: what counts is what all of them have."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operations.os.diagnose import DiagnoseOs
from ganeti.master.query.operating_systems import OPERATING_SYSTEMS
from ganeti.model.objects import CLUSTER_KEY, NodeGroup


def found(name: str, **values: Any) -> dict[str, Any]:
    usual = {
        "name": name,
        "path": f"/srv/ganeti/os/{name}",
        "valid": True,
        "message": "",
        "variants": ["default", "small"],
        "parameters": [["rate", "beats per second"]],
        "api_versions": [20],
        "trusted": True,
    }
    return usual | values


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    by_node = {
        "node1": [found("noop"), found("extra"), found("beat")],
        "node2": [found("noop"), found("beat", variants=["default"])],
        "node3": [found("noop", valid=False, message="no create script"), found("beat", path="/usr/share/beat")],
    }
    context.nodes.handlers["os_diagnose"] = lambda name: by_node[name]
    return context


def rows(ctx: FakeContext, *fields: str, names: tuple[str, ...] = ()) -> list[list[Any]]:
    answer: list[list[Any]] = run(DiagnoseOs(output_fields=list(fields), names=list(names)), ctx)
    return answer


def test_valid_means_valid_everywhere(ctx: FakeContext) -> None:
    assert rows(ctx, "name", "valid", "variants") == [
        ["beat", True, ["default"]],
        ["extra", False, []],
        ["noop", False, []],
    ]


def test_offline_and_unfit_nodes_do_not_count(ctx: FakeContext) -> None:
    config = ctx.config.config
    config.put("nodes", "uuid-node3", replace(config.node("uuid-node3"), vm_capable=False))
    config.put("nodes", "uuid-node2", replace(config.node("uuid-node2"), offline=True, master_candidate=False))
    assert rows(ctx, "name", "valid") == [["beat", True], ["extra", True], ["noop", True]]


@pytest.mark.requirement("S1.35")
def test_one_group_may_be_asked_alone(ctx: FakeContext) -> None:
    config = ctx.config.config
    config.put("nodegroups", "uuid-green", NodeGroup(uuid="uuid-green", name="green"))
    config.put("nodes", "uuid-node3", replace(config.node("uuid-node3"), group="uuid-green"))
    asked = DiagnoseOs(output_fields=["name", "valid"], group_name="green")
    assert run(asked, ctx) == [["beat", True], ["noop", False]]
    assert run(replace(asked, group_name="default"), ctx) == [["beat", True], ["extra", False], ["noop", True]]
    with pytest.raises(PrerequisiteError, match="blue"):
        run(replace(asked, group_name="blue"), ctx)


def test_a_node_without_an_answer_is_told_and_does_not_count(ctx: FakeContext) -> None:
    ctx.nodes.dead.add("node3")
    assert rows(ctx, "valid", names=("noop",)) == [[True]]
    assert "node3" in ctx.lines[0]


def test_an_os_whose_variants_are_all_hidden_is_hidden(ctx: FakeContext) -> None:
    """Lists gave its bare name, by which it cannot be installed."""
    config = ctx.config.config
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, hidden_os=["beat+default"]))
    assert rows(ctx, "name", "hidden", "variants", names=("beat", "noop")) == [
        ["beat", True, []],
        ["noop", False, []],
    ]


def test_hidden_and_blacklisted_come_from_the_cluster(ctx: FakeContext) -> None:
    config = ctx.config.config
    config.put(
        "cluster", CLUSTER_KEY, replace(config.cluster, hidden_os=["beat"], blacklisted_os=["noop", "beat+default"])
    )
    assert rows(ctx, "name", "hidden", "blacklisted", "variants", names=("beat", "noop")) == [
        ["beat", True, False, []],
        ["noop", False, True, []],
    ]


def test_every_field_and_no_other(ctx: FakeContext) -> None:
    [row] = rows(ctx, *OPERATING_SYSTEMS.fields, names=("beat",))
    told = dict(zip(OPERATING_SYSTEMS.fields, row, strict=True))
    assert told["node_status"]["uuid-node3"][0][0] == "/usr/share/beat"
    assert (told["parameters"], told["api_versions"], told["trusted"]) == ([["rate", "beats per second"]], [20], True)
    with pytest.raises(PrerequisiteError, match="Unknown output field 'colour'"):
        rows(ctx, "name", "colour")
