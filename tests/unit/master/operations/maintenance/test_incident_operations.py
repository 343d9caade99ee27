# SPDX-License-Identifier: BSD-2-Clause
"""Canceling and forgetting incidents as jobs: what they change, lock and refuse."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master import operations
from ganeti.master.operation import decode
from ganeti.model.locks import node_lock
from ganeti.model.objects import MAINTENANCE_KEY, Incident, Maintenance

operations.load()
UUID = "11111111-1111-4111-8111-111111111111"
TAG = f"maintd:repairready:{UUID}"


def context(status: str, *tags: str) -> FakeContext:
    config = configuration()
    incident = Incident(uuid=UUID, node="uuid-node2", original={"status": "evacuate"}, action="evacuate", tag=TAG)
    kept = Maintenance(incidents=[replace(incident, repair_status=status)])
    config.put("maintenance", MAINTENANCE_KEY, kept)
    config.put("nodes", "uuid-node2", replace(config.node("uuid-node2"), tags=list(tags)))
    return FakeContext(config, catalogue())


def opcode(name: str, word: str = UUID[:8]) -> Any:
    return decode({"OP_ID": f"OP_INCIDENT_{name}", "incident": word})


@pytest.mark.requirement("S4.16")
def test_what_is_under_way_is_canceled_without_waiting_for_anybody() -> None:
    ctx = context("pending")
    assert not opcode("CANCEL").locks(ctx.config.view()).exclusive
    assert run(opcode("CANCEL"), ctx) == UUID
    [incident] = ctx.config.view().maintenance.incidents
    assert incident.repair_status == "canceled"


@pytest.mark.requirement("S4.16")
@pytest.mark.parametrize("name", ["CANCEL", "FORGET"])
def test_jobs_that_have_not_begun_are_canceled_with_it_unless_another_incident_needs_them(name: str) -> None:
    ctx = context("pending")
    config = ctx.config.view()
    [own] = config.maintenance.incidents
    other = replace(own, uuid="2" + UUID[1:], jobs=[8], repair_status="pending")
    ended = replace(own, uuid="3" + UUID[1:], jobs=[7], repair_status="failed")
    config.put("maintenance", MAINTENANCE_KEY, Maintenance(incidents=[replace(own, jobs=[7, 8, 9]), other, ended]))
    run(opcode(name, UUID), ctx)
    assert "cancel [7, 9]" in ctx.story
    assert ctx.lines == ["Jobs that had not begun are canceled, too: 7, 9"]


@pytest.mark.parametrize(("name", "left"), [("CANCEL", ["canceled"]), ("FORGET", [])])
def test_a_tag_goes_with_it_and_its_node_is_locked_for_that(name: str, left: list[str]) -> None:
    ctx = context("completed", TAG, "mine")
    assert opcode(name).locks(ctx.config.view()).exclusive == {node_lock("uuid-node2")}
    run(opcode(name), ctx)
    view = ctx.config.view()
    assert view.node("uuid-node2").tags == ["mine"]
    assert [each.repair_status for each in view.maintenance.incidents] == left


@pytest.mark.parametrize("name", ["CANCEL", "FORGET"])
def test_an_unknown_id_is_refused_with_the_way_to_known_ones(name: str) -> None:
    ctx = context("noted")
    with pytest.raises(PrerequisiteError, match="gnt-cluster incidents list"):
        run(opcode(name, "nonsense"), ctx)
    assert len(ctx.config.view().maintenance.incidents) == 1
