# SPDX-License-Identifier: BSD-2-Clause
"""OP_TEST_ALLOCATOR: which requests its modes make, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operation import decode
from ganeti.master.operations.test.allocator import TestAllocator as AskAllocator

NEW: dict[str, Any] = {
    "name": "new",
    "memory": 128,
    "vcpus": 2,
    "disks": [1024, {"size": 5, "mode": "ro"}],
    "disk_template": "drbd",
    "os": "noop",
    "nics": [{"mac": "auto"}],
}


@pytest.fixture
def ctx() -> FakeContext:
    config = configuration()
    add_instance(config, "web1")
    return FakeContext(config, catalogue())


def ask(direction: str, mode: str, **fields: Any) -> AskAllocator:
    asked = decode({"OP_ID": "OP_TEST_ALLOCATOR", "direction": direction, "mode": mode, **fields})
    assert isinstance(asked, AskAllocator)
    return asked


def request_of(ctx: FakeContext, mode: str, **fields: Any) -> dict[str, Any]:
    message = json.loads(run(ask("in", mode, **fields), ctx))
    assert message["version"] == 2
    return dict(message["request"])


def test_a_new_instance(ctx: FakeContext) -> None:
    request = request_of(ctx, "allocate", **NEW, group_name="default", tags=["a"])
    assert request == {
        "type": "allocate",
        "name": "new",
        "memory": 128,
        "vcpus": 2,
        "spindle_use": 1,
        "disks": [{"size": 1024, "mode": "rw", "spindles": None}, {"size": 5, "mode": "ro", "spindles": None}],
        "disk_template": "drbd",
        "os": "noop",
        "tags": ["a"],
        "nics": [{"mac": "auto"}],
        "hypervisor": "pretend",
        "required_nodes": 2,
        "disk_space_total": 1029 + 2 * 128,
        "group_name": "default",
    }


def test_several_new_instances(ctx: FakeContext) -> None:
    request = request_of(ctx, "multi-allocate", **NEW, count=3)
    assert [item["name"] for item in request["instances"]] == ["new0", "new1", "new2"]


def test_instances_that_are_there(ctx: FakeContext) -> None:
    assert request_of(ctx, "relocate", name="web1")["relocate_from"] == ["node1"]
    evacuation = request_of(ctx, "node-evacuate", name="x", instances=["web1"], evac_mode="all")
    assert evacuation == {"type": "node-evacuate", "instances": ["web1"], "evac_mode": "all"}
    change = request_of(ctx, "change-group", name="web1", target_groups=["default"])
    assert change == {"type": "change-group", "instances": ["web1"], "target_groups": ["uuid-group1"]}


def test_answers(ctx: FakeContext) -> None:
    assert json.loads(run(ask("out", "relocate", name="web1"), ctx)) == ctx.allocation
    assert ctx.asked == [("hail", False)], "it is the default, and reserves nothing"
    ctx.nodes.handlers["iallocator_runner"] = lambda _, **told: f"{told['name']}: {sorted(json.loads(told['idata']))}"
    said = run(ask("out", "relocate", name="web1", iallocator="mine"), ctx)
    assert said == "mine: ['request', 'version']"
    assert not ctx.held


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"direction": "up"}, "Wrong test direction 'up'"),
        ({"mode": "dance"}, "Wrong test mode 'dance'"),
        ({"mode": "relocate", "name": "mars"}, "Instance 'mars' not known"),
        ({"name": "web1"}, "Instance 'web1' already in the cluster"),
        ({"memory": None}, "Missing attribute 'memory' on opcode input"),
        ({"os": None}, "Missing attribute 'os' on opcode input"),
        ({"disks": ["big"]}, "A disk must have a size"),
        ({"disk_template": "paper"}, "Disk template 'paper' is not known"),
        ({"mode": "node-evacuate", "instances": ["web1"]}, "Evacuation mode 'None' is not known"),
        ({"group_name": "mars"}, "Group 'mars' not known"),
    ],
)
def test_refusals(ctx: FakeContext, fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PrerequisiteError, match=sentence):
        run(ask(**{"direction": "out", "mode": "allocate", **NEW, **fields}), ctx)


def test_no_allocator(ctx: FakeContext) -> None:
    from msgspec.structs import replace

    config = ctx.config.view()
    config.put("cluster", "cluster", replace(config.cluster, default_iallocator=""))
    with pytest.raises(PrerequisiteError, match="Missing allocator name"):
        run(ask("out", "relocate", name="web1"), ctx)
