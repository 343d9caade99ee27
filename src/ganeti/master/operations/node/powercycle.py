# SPDX-License-Identifier: BSD-2-Clause
"""OP_NODE_POWERCYCLE: restart a node's machine at once, from the node itself."""

from typing import Annotated

from ganeti.base.command import Command, Option
from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.master.operation import Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import NodeName, NodeUuid
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.commands import NodePowercycle
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask


@operation(
    "OP_NODE_POWERCYCLE",
    summary_field="node_name",
    cli=Command(
        "gnt-node powercycle",
        "restart a node's machine at once, without stopping what runs there",
        arguments=("node_name",),
        options=(Option(("--yes",), "assume_yes", "flag", "do not ask"),),
        handler="node.power:powercycle",
        confirm="Are you sure you want to hard powercycle node {node_name}?",
    ),
    rapi="POST /2/nodes/[node_name]/powercycle",
    not_played="the machine restarts after the job",
)
class PowercycleNode(Operation[str | None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Let a node restart itself. No lock is taken: the jobs that hold the node's may hang because of it."""

    node_name: NodeName
    node_uuid: NodeUuid = None
    force: Annotated[bool, Parameter("also where it is the master; do not ask", "-f", "--force")] = False

    def locks(self, view: ConfigView) -> LockPlan:
        return plan()

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> str:
        node = view.find_node(self.node_uuid or self.node_name)
        if node.uuid == view.cluster.master_node and not self.force:
            raise PrerequisiteError(
                f"Node {node.name} is the master: add --force if it is to restart nevertheless", WRONG_INPUT
            )
        if node.offline:
            raise PrerequisiteError(
                f"Node {node.name} is offline, so it cannot be asked: use gnt-node power cycle", WRONG_STATE
            )
        return node.uuid

    async def execute(self, checked: str, ctx: OperationContext) -> str | None:
        return await ask(ctx.nodes, checked, NodePowercycle())
