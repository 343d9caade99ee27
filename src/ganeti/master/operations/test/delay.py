# SPDX-License-Identifier: BSD-2-Clause
"""Do nothing for a while, on the master, on nodes, or both."""

from typing import Annotated, Any

import msgspec

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, ExecutionError, PrerequisiteError
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.parameters import NodeUuids
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan, node_lock
from ganeti.model.node_calls.node import TestDelay as Wait
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask_many


@operation(
    "OP_TEST_DELAY",
    summary_field="duration",
    cli=Command("gnt-debug delay", "run a job that only waits", arguments=("duration",), sends=(("no_locks", False),)),
    examples=(
        Example("delay", {"duration": 1.0, "on_nodes": ["node3.example.com"], "on_master": True}),
        Example("delay-interruptible", {"duration": 1.0, "interruptible": True}),
    ),
)
class TestDelay(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    duration: Annotated[float, Parameter("how long, in seconds", kind="amount", metavar="seconds")]
    on_master: Annotated[
        bool, Parameter("wait on the master, too", "--no-master", option_help="do not wait on the master")
    ] = True
    on_nodes: Annotated[
        list[str],
        Parameter("wait on this node, too", "-n", "--node", subject="node", metavar="NODE", repeatable=True),
    ] = []
    on_node_uuids: NodeUuids = None
    repeat: Annotated[int, msgspec.Meta(ge=0), Parameter("how often", "-r", "--repeat", kind="natural")] = 0
    interruptible: Annotated[
        bool,
        Parameter(
            "wait on the master alone, and end when somebody connects to the socket that the job log names",
            "-i",
            "--interruptible",
        ),
    ] = False
    no_locks: Annotated[bool, Parameter("take no locks", "-l", "--no-locks", value=True)] = True

    def locks(self, view: ConfigView) -> LockPlan:
        if self.no_locks or not (self.on_nodes or self.on_node_uuids):
            return LockPlan()
        return LockPlan.of(exclusive=[node_lock(uuid) for uuid in self._nodes(view)])

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> list[str]:
        if self.duration < 0:
            raise PrerequisiteError(f"A delay cannot last {self.duration:g} seconds: give 0 or more", WRONG_INPUT)
        if not (self.on_nodes or self.on_node_uuids):
            return []
        return self._nodes(view)

    async def execute(self, checked: list[str], ctx: OperationContext) -> None:
        if self.interruptible:
            await self._wait_for_bell(ctx)
        elif self.repeat == 0:
            await self._delay_once(checked, ctx)
        for number in range(0 if self.interruptible else self.repeat):
            ctx.log.info(f"Test delay iteration {number}/{self.repeat - 1}")
            await self._delay_once(checked, ctx)

    async def _delay_once(self, nodes: list[str], ctx: OperationContext) -> None:
        if self.on_master or not nodes:
            await ctx.clock.sleep(self.duration)
        if nodes:
            for answer in await ask_many(ctx.nodes, nodes, Wait(duration=self.duration)):
                if answer.error is not None:
                    raise ExecutionError(f"Failure during test_delay: {answer.error}")

    async def _wait_for_bell(self, ctx: OperationContext) -> None:
        """As 3.1 does, whatever nodes and repetitions were asked for."""
        began_s = ctx.clock.now_s()
        async with ctx.master.bell(ctx.job) as bell:
            ctx.log.add("delay-test", [bell.path])
            rung = await bell.rung(self.duration)
        if rung:
            ctx.log.info(f"Interrupted, time spent waiting: {ctx.clock.now_s() - began_s:.0f}")

    def _nodes(self, view: ConfigView) -> list[str]:
        nodes = [view.find_node(name).uuid for name in self.on_nodes]
        nodes += [view.node(uuid).uuid for uuid in self.on_node_uuids or []]
        if len(set(nodes)) != len(nodes):
            raise PrerequisiteError("A node is named twice: name each once")
        return nodes
