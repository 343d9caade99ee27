# SPDX-License-Identifier: BSD-2-Clause
"""OP_QUERY_FIELDS: which fields a query that is answered by a job has."""

from typing import Annotated, Any

from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.parameters import Fields
from ganeti.master.operations.query.query import What, resource_of
from ganeti.master.parameter import Parameter
from ganeti.master.query.fields import Resource
from ganeti.master.query.running import describe_fields
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_QUERY_FIELDS",
    summary_field="what",
    examples=(Example("query-fields", {"what": "cluster", "fields": ["name"]}),),
)
class QueryFields(Operation[dict[str, Any]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    what: What
    fields: Annotated[Fields | None, Parameter("fields to describe; all without it")] = None

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> Resource:
        return resource_of(self.what)

    async def execute(self, checked: Resource, ctx: OperationContext) -> dict[str, Any]:
        return describe_fields(checked, self.fields)
