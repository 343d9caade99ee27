# SPDX-License-Identifier: BSD-2-Clause
"""OP_OS_DIAGNOSE: which operating systems the nodes can install, and whether all agree."""

from typing import Annotated, Any

from ganeti.base.command import PRIORITY, Command, Option
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.parameters import Fields, Text
from ganeti.master.parameter import Parameter
from ganeti.master.query.operating_systems import OPERATING_SYSTEMS, ask_nodes, os_rows
from ganeti.model.objects import Node
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_OS_DIAGNOSE",
    cli=Command(
        "gnt-os list",
        "list the operating systems that can be installed, with their variants",
        options=(Option(("--no-headers",), "no_headers", "flag", "no line of titles"), PRIORITY),
        handler="os.list:list_valid",
        is_job=False,
    ),
    examples=(Example("os-diagnose", {"output_fields": ["name"], "names": []}),),
)
class DiagnoseOs(Operation[list[list[Any]]], frozen=True, kw_only=True):
    """Compare the OS definitions of all nodes; rows of the fields asked for."""

    output_fields: Fields
    names: Annotated[list[str], Parameter("OSes to tell about; all without it", subject="os")] = []
    group_name: Annotated[
        Text | None, Parameter("nodes of this group only", "-g", "--node-group", subject="group", metavar="GROUP")
    ] = None

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> list[Node]:
        for name in self.output_fields:
            if name not in OPERATING_SYSTEMS.fields:
                raise PrerequisiteError(
                    f"Unknown output field '{name}': there are {', '.join(sorted(OPERATING_SYSTEMS.fields))}",
                    WRONG_INPUT,
                )
        return view.nodes() if self.group_name is None else view.group_nodes(view.find_group(self.group_name).uuid)

    async def execute(self, checked: list[Node], ctx: OperationContext) -> list[list[Any]]:
        answers = await ask_nodes(ctx, checked)
        for answer in answers:
            if answer.error is not None:
                ctx.log.warning(f"No word about operating systems: {answer.error}")
        fields = [OPERATING_SYSTEMS.fields[name] for name in self.output_fields]
        rows = os_rows(answers, ctx.config.view().cluster)
        return [[field.get(row) for field in fields] for row in rows if not self.names or row.os.name in self.names]
