# SPDX-License-Identifier: BSD-2-Clause
"""Reserving an instance and making it real: as it was reserved, with the reservation as the way back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import node_facts
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import HypervisorError, PrerequisiteError
from ganeti.master.operations.instance.creation.create import CreateInstance

RESERVED = {
    "instance_name": "web1",
    "disks": [{"size": "64m"}],
    "nics": [{}],
    "mode": "create",
    "os_type": "noop+default",
    "disk_template": "common",
    "pnode": "node2",
    "beparams": {"memory": "256m"},
}
BARE = {"instance_name": "web1", "disks": [], "nics": [{}], "mode": "create", "commit": True}


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    context.nodes.handlers.update(
        node_info=lambda name, **_: node_facts(storage_free_mib=100000),
        all_instances_info=lambda name, **_: [],
    )
    run(msgspec.convert(RESERVED | {"forthcoming": True}, CreateInstance), context)
    context.story.clear()
    context.records.clear()
    return context


def commit(ctx: FakeContext, **changes: Any) -> Any:
    return run(msgspec.convert(BARE | changes, CreateInstance), ctx)


@pytest.mark.parametrize("changes", [{}, RESERVED])
def test_a_reserved_instance_is_made_where_it_was_reserved(ctx: FakeContext, changes: dict[str, Any]) -> None:
    before = ctx.config.view().find_instance("web1")
    assert before.forthcoming
    assert commit(ctx, **changes) == ["node2"]
    steps = [line for line in ctx.story if not line.endswith(("node_info", "all_instances_info"))]
    assert steps[:5] == [
        "node2 bridges_exist",
        "node2 hypervisor_validate_params",
        "node2 os_validate",
        "undo: remove disk 0 of web1 from node2",
        "node2 blockdev_create",
    ]
    assert steps[-1] == "commit FinishInstance settles"
    after = ctx.config.view().find_instance("web1")
    assert (after.uuid, after.disks, after.nics) == (before.uuid, before.disks, before.nics)
    assert (after.forthcoming, after.admin_state) == (None, "up")


def test_a_failure_leaves_the_reservation(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_start"] = HypervisorError("no such emulator")
    with pytest.raises(HypervisorError):
        commit(ctx)
    assert ctx.config.view().find_instance("web1").forthcoming
    assert not [record for record in ctx.records if hasattr(record, "change")]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"pnode": "node3"}, "node"),
        ({"disk_template": "local"}, "disk template"),
        ({"os_type": "debian"}, "OS"),
        ({"disks": [{"size": "1g"}]}, "size of disks"),
        ({"nics": [{}, {}]}, "number of NICs"),
        ({"beparams": {"vcpus": 2}}, "backend parameter vcpus"),
        ({"hvparams": {"kernel": "/boot/other"}}, "hypervisor parameter kernel"),
    ],
)
def test_what_differs_from_the_reservation_is_refused(ctx: FakeContext, changes: dict[str, Any], what: str) -> None:
    with pytest.raises(PrerequisiteError, match=f"The {what} of web1 cannot be another than it was reserved with"):
        commit(ctx, **changes)
    assert not ctx.records


def test_only_what_is_reserved_can_be_made_real(ctx: FakeContext) -> None:
    add_instance(ctx.config.view(), "real")
    with pytest.raises(PrerequisiteError, match="real is not reserved but real: leave --commit out"):
        commit(ctx, instance_name="real")
    with pytest.raises(PrerequisiteError, match="reserved or made real: leave one out"):
        commit(ctx, forthcoming=True)


def test_what_is_about_volumes_is_refused_with_its_reason(ctx: FakeContext) -> None:
    with pytest.raises(PrerequisiteError, match="'adopt' is about a volume that is there already"):
        run(
            msgspec.convert(
                RESERVED | {"instance_name": "web2", "disks": [{"size": 1, "adopt": "lv"}]}, CreateInstance
            ),
            ctx,
        )
