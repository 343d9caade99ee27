# SPDX-License-Identifier: BSD-2-Clause
"""OP_REPAIR_COMMAND: run a repair command of a node, as its diagnose command asks (S4.12). No command submits it."""

from typing import Annotated

from ganeti.master.operation import Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import NodeName, NodeUuid, Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan, node_lock
from ganeti.model.node_calls.commands import RepairCommand
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask


@operation(
    "OP_REPAIR_COMMAND",
    summary_field="node_name",
    not_played="what a command of the site does on a node cannot be taken back",
)
class RunRepairCommand(Operation[str], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Run a command of the node's directory node-repair-commands, which reads the input; gives its output."""

    node_name: NodeName
    node_uuid: NodeUuid = None
    command: Annotated[Text, Parameter("name of the command")]
    input: Annotated[Text | None, Parameter("what the command reads", subject="text")] = None

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(exclusive=[node_lock(self.check(view))])

    def check(self, view: ConfigView, facts: None = None, ctx: OperationContext | None = None) -> str:
        return view.find_node(self.node_uuid or self.node_name).uuid

    async def execute(self, checked: str, ctx: OperationContext) -> str:
        return await ask(ctx.nodes, checked, RepairCommand(name=self.command, input=self.input or ""))
