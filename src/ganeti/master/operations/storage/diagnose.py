# SPDX-License-Identifier: BSD-2-Clause
"""OP_EXT_STORAGE_DIAGNOSE: which providers of external storage the nodes have, and whether all agree."""

from typing import Annotated, Any

from ganeti.base.command import PRIORITY, Argument, Command
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.base.names import shown
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.parameters import Fields, Text
from ganeti.master.parameter import Parameter
from ganeti.master.query.external_storage import EXTERNAL_STORAGE, provider_rows
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_EXT_STORAGE_DIAGNOSE",
    cli=(
        Command(
            "gnt-storage diagnose",
            "show what each node says of each provider of external storage",
            options=(PRIORITY,),
            handler="storage_info:diagnose",
            is_job=False,
            parameters=(),
        ),
        Command(
            "gnt-storage info",
            "show the parameters that providers of external storage take",
            arguments=(Argument("providers", "provider", 0, None),),
            options=(PRIORITY,),
            handler="storage_info:info",
            is_job=False,
            parameters=(),
        ),
    ),
    examples=(Example("storage-diagnose", {"output_fields": ["name"]}),),
)
class DiagnoseStorage(Operation[list[list[Any]]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Compare the providers of all nodes; rows of the fields asked for, in natural order of names."""

    output_fields: Fields
    names: Annotated[list[Text], Parameter("providers to tell about; all without it")] = []

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> None:
        for field in self.output_fields:
            if field not in EXTERNAL_STORAGE.fields:
                known = ", ".join(EXTERNAL_STORAGE.fields)
                raise PrerequisiteError(f"Unknown field '{shown(field)}': there are {known}", WRONG_INPUT)

    async def execute(self, checked: None, ctx: OperationContext) -> list[list[Any]]:
        fields = [EXTERNAL_STORAGE.fields[name] for name in self.output_fields]
        rows = await provider_rows(ctx)
        return [[field.get(row) for field in fields] for row in rows if not self.names or row.name in self.names]
