# SPDX-License-Identifier: BSD-2-Clause
"""A job that only waits: where, and how long."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master import operations
from ganeti.master.operation import decode

operations.load()


@pytest.mark.parametrize(
    ("parameters", "slept_s", "story"),
    [
        ({}, 2.0, []),
        ({"on_master": False}, 2.0, []),
        ({"on_master": False, "on_nodes": ["node3"]}, 0.0, ["node3 test_delay"]),
        ({"repeat": 3}, 6.0, []),
    ],
)
def test_where_nobody_is_named_the_job_itself_waits(
    parameters: dict[str, Any], slept_s: float, story: list[str]
) -> None:
    ctx = FakeContext(configuration(), catalogue())
    run(decode({"OP_ID": "OP_TEST_DELAY", "duration": 2.0, **parameters}), ctx)
    assert (ctx.time_s - 1000.0, ctx.story) == (slept_s, story)


def test_an_interruptible_one_ends_when_its_socket_is_connected_to() -> None:
    ctx = FakeContext(configuration(), catalogue())
    asked = decode({"OP_ID": "OP_TEST_DELAY", "duration": 2.0, "interruptible": True, "on_nodes": ["node3"]})
    run(asked, ctx)
    assert (ctx.lines, ctx.story, ctx.time_s) == (["delay-test ['/run/bell']"], [], 1002.0)
    ctx.rings = True
    run(asked, ctx)
    assert ctx.lines[-1].startswith("Interrupted, time spent waiting: ")


def test_a_negative_time_is_taken_and_fails_the_job() -> None:
    ctx = FakeContext(configuration(), catalogue())
    operation = decode({"OP_ID": "OP_TEST_DELAY", "duration": -1})
    with pytest.raises(PrerequisiteError, match="A delay cannot last -1 seconds: give 0 or more"):
        run(operation, ctx)
