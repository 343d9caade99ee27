# SPDX-License-Identifier: BSD-2-Clause
"""Do nothing for a while, on the master, on nodes, or both."""

from typing import Annotated, Any, ClassVar

import msgspec

from ganeti.base.command import Argument, Command, Option
from ganeti.base.errors import ExecutionError, PrerequisiteError
from ganeti.master.operation import Operation, operation
from ganeti.model.locks import LockPlan, node_lock
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

_LOG_EVERY_S = 1.0


@operation(
    "OP_TEST_DELAY",
    summary_field="duration",
    cli=Command(
        line="gnt-debug delay",
        summary="Executes a TestDelay OpCode",
        arguments=(Argument("duration", "<duration>"),),
        options=(
            Option(("--no-master",), "on_master", "flag", "Do not sleep in the master code", value=False),
            Option(("-n",), "on_nodes", "string", "Select nodes to sleep on", repeatable=True, metavar="<node>"),
            Option(("-r", "--repeat"), "repeat", "int", "Number of times to repeat the sleep"),
            Option(("-i", "--interruptible"), "interruptible", "flag", "Allow the opcode to be interrupted"),
            Option(("-l", "--no-locks"), "no_locks", "flag", "Don't take locks while performing the delay"),
        ),
    ),
)
class TestDelay(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    refusals: ClassVar[dict[str, str]] = {
        "interruptible": "interruptible is not possible yet: a delay ends by itself only; leave it out"
    }

    duration: Annotated[float, msgspec.Meta(ge=0)]
    on_master: bool = True
    on_nodes: list[str] = []
    on_node_uuids: list[str] | None = None
    repeat: Annotated[int, msgspec.Meta(ge=0)] = 0
    interruptible: bool = False
    no_locks: bool = True

    def locks(self, view: ConfigView) -> LockPlan:
        if self.no_locks or not (self.on_nodes or self.on_node_uuids):
            return LockPlan()
        return LockPlan.of(exclusive=[node_lock(uuid) for uuid in self._nodes(view)])

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> list[str]:
        if not (self.on_nodes or self.on_node_uuids):
            return []
        return self._nodes(view)

    async def execute(self, checked: list[str], ctx: OperationContext) -> None:
        if self.repeat == 0:
            await self._delay_once(checked, ctx)
        for number in range(self.repeat):
            ctx.log.info(f"Test delay iteration {number}/{self.repeat - 1}")
            await self._delay_once(checked, ctx)

    async def _delay_once(self, nodes: list[str], ctx: OperationContext) -> None:
        if self.on_master:
            await ctx.clock.sleep(self.duration)
        if nodes:
            for answer in await ctx.nodes.call_many(nodes, "test_delay", duration=self.duration):
                if answer.error is not None:
                    raise ExecutionError(f"Failure during test_delay: {answer.error}")

    def _nodes(self, view: ConfigView) -> list[str]:
        nodes = [view.find_node(name).uuid for name in self.on_nodes]
        nodes += [view.node(uuid).uuid for uuid in self.on_node_uuids or []]
        if len(set(nodes)) != len(nodes):
            raise PrerequisiteError("A node is named twice: name each once")
        return nodes
