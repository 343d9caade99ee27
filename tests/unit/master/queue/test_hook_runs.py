# SPDX-License-Identifier: BSD-2-Clause
"""Which nodes are called for hooks: all that have scripts, and all that do not say."""

import asyncio
from typing import Any

import pytest
from tests.fakes.context import FakeContext
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import TransportError
from ganeti.master.operation import Hooks
from ganeti.master.operations.instance.change.set_params import ModifyInstanceOperation
from ganeti.master.queue.hook_runs import HookRunner

MASTER, NODE2, NODE3 = "uuid-node1", "uuid-node2", "uuid-node3"
PRE, POST = "pre", "post"


class Bed:
    """One operation with hooks on three nodes; the first is the master."""

    def __init__(self) -> None:
        self.ctx = FakeContext(configuration(), catalogue())
        self.asked = 0
        self.answer = self.ctx.ask
        self.ctx.ask = self._count  # type: ignore[method-assign]
        nodes = [MASTER, NODE2, NODE3]
        hooks = Hooks("instance-modify", "INSTANCE", "web1", {}, nodes, nodes)
        operation = ModifyInstanceOperation(instance_name="web1")
        self.runner = HookRunner(operation, hooks, self.ctx, self.ctx)  # type: ignore[arg-type]

    def master_has(self, *phases: str) -> None:
        self.ctx.hook_phases = lambda path: list(phases)  # type: ignore[method-assign]

    def run(self, phase: str) -> list[str]:
        """Give who was called."""
        before = len(self.ctx.story)
        asyncio.run(self.runner.run_pre() if phase == PRE else self.runner.run_post())
        return [line.split()[0] for line in self.ctx.story[before:]]

    async def _count(self, question: Any, **how: Any) -> Any:
        self.asked += 1
        return await self.answer(question, **how)


@pytest.fixture
def bed() -> Bed:
    return Bed()


def test_nodes_without_scripts_are_not_called(bed: Bed):
    bed.master_has()
    bed.ctx.hooks_present = {NODE2: [], NODE3: [PRE, POST]}
    assert bed.run(PRE) == ["node3"]
    assert bed.run(POST) == ["node3"]
    assert bed.asked == 2, "a script has run, which may have installed others"


def test_the_master_is_looked_at_in_both_phases(bed: Bed):
    bed.ctx.hooks_present = {NODE2: [], NODE3: []}
    bed.master_has(POST)
    assert bed.run(PRE) == []
    assert bed.run(POST) == ["node1"]
    bed.master_has()
    assert bed.run(POST) == []


def test_nodes_are_asked_once_for_both_phases_of_a_short_operation(bed: Bed):
    bed.master_has()
    bed.ctx.hooks_present = {NODE2: [], NODE3: [POST]}
    assert bed.run(PRE) == []
    bed.ctx.time_s += 0.5
    assert bed.run(POST) == ["node3"]
    assert bed.asked == 1


@pytest.mark.parametrize("passed_s", [1.5, -1.5])
def test_a_script_that_is_installed_meanwhile_is_run(bed: Bed, passed_s: float):
    """Also where the clock was set back."""
    bed.master_has()
    bed.ctx.hooks_present = {NODE2: [], NODE3: []}
    assert bed.run(PRE) == []
    bed.ctx.hooks_present = {NODE2: [POST], NODE3: []}
    bed.ctx.time_s += passed_s
    assert bed.run(POST) == ["node2"]


def test_nodes_that_do_not_say_are_called(bed: Bed):
    bed.master_has()
    bed.ctx.hooks_present = {NODE2: []}
    assert bed.run(PRE) == ["node3"]

    async def silent(question: Any, **how: Any) -> Any:
        raise TransportError("LuxiD is away")

    bed.answer = silent
    assert bed.run(POST) == ["node2", "node3"]
