# SPDX-License-Identifier: BSD-2-Clause
"""OP_RESTRICTED_COMMAND: run on nodes a command that their administrators allow (protocols, section 11)."""

from typing import Annotated

from ganeti.base.command import Argument, Command, Option
from ganeti.master.operation import Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import NodeUuids, Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan, node_lock
from ganeti.model.node_calls.commands import RestrictedCommand
from ganeti.model.objects import Node
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask_many


@operation(
    "OP_RESTRICTED_COMMAND",
    cli=Command(
        "gnt-node restricted-command",
        "run a command that nodes keep in their directory restricted-commands",
        arguments=("command", Argument("nodes", "node-name", minimum=0, maximum=None, subject="node")),
        options=(
            Option(("-M", "--show-machine-names"), "show_machine_names", "flag", "begin each line with its node"),
            Option(("-g", "--node-group"), "nodegroup", help="only nodes of this node group", metavar="GROUP"),
        ),
        handler="node.commands:run",
    ),
    not_played="what a command of the site does on a node cannot be taken back",
)
class RunRestrictedCommand(Operation[list[tuple[bool, str]]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Run a command without arguments on nodes; gives of each whether it succeeded, and its output or the error."""

    use_locking: Annotated[
        bool, Parameter("let no other job use the nodes meanwhile", "--sync", option_help="alone on the nodes")
    ] = False
    nodes: Annotated[list[Text], Parameter("nodes to run it on", subject="node")]
    node_uuids: NodeUuids = None
    command: Annotated[Text, Parameter("name of the command", metavar="command")]

    def locks(self, view: ConfigView) -> LockPlan:
        wanted = [node_lock(node.uuid) for node in self._asked(view)]
        return plan(exclusive=wanted) if self.use_locking else plan(shared=wanted)

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> list[str]:
        return [node.uuid for node in self._asked(view)]

    async def execute(self, checked: list[str], ctx: OperationContext) -> list[tuple[bool, str]]:
        answers = await ask_many(ctx.nodes, checked, RestrictedCommand(name=self.command))
        return [(False, str(each.error)) if each.error else (True, each.value) for each in answers]

    def _asked(self, view: ConfigView) -> list[Node]:
        return [view.find_node(name) for name in self.node_uuids or self.nodes]
