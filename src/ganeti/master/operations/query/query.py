# SPDX-License-Identifier: BSD-2-Clause
"""OP_QUERY: queries that are answered by a job: the cluster, and what the nodes have to look up."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Fields, UseLocking
from ganeti.master.parameter import Parameter
from ganeti.master.query.fields import Field, Resource
from ganeti.master.query.resources import by_job
from ganeti.master.query.running import run_query
from ganeti.model.locks import ALL_NODES, LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

What = Annotated[
    Literal["cluster", "os", "extstorage", "group", "export", "instance", "job", "lock", "network", "node", "filter"],
    Parameter("kind of the objects"),
]


def resource_of(what: str) -> Resource:
    """Raises `PrerequisiteError` for what the master daemon answers by itself."""
    found = by_job().get(what)
    if found is None:
        raise PrerequisiteError(f"Query '{what}' is not answered by a job: ask the master daemon itself", WRONG_INPUT)
    return found


@operation(
    "OP_QUERY",
    summary_field="what",
    examples=(Example("query", {"what": "cluster", "fields": ["name"], "use_locking": True}),),
)
class Query(Operation[dict[str, Any]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Run a query; the answer has the shape of the LUXI call."""

    what: What
    fields: Fields
    use_locking: UseLocking = False
    qfilter: Annotated[list[Any] | None, Parameter("which objects, in the filter language", subject="text")] = None

    def locks(self, view: ConfigView) -> LockPlan:
        """With *use_locking*, no job changes a node while the nodes are asked."""
        resource = by_job().get(self.what)
        asks_nodes = resource is not None and resource.asks_nodes
        return plan(shared=[ALL_NODES]) if self.use_locking and asks_nodes else LockPlan()

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> Resource:
        return resource_of(self.what)

    async def execute(self, checked: Resource, ctx: OperationContext) -> dict[str, Any]:
        rows = await checked.rows_by_job(ctx) if checked.rows_by_job is not None else []
        fields, data = await run_query(checked, rows, self.fields, self.qfilter, _nothing_to_collect)
        return {"fields": [field.describe() for field in fields], "data": data}


async def _nothing_to_collect(rows: Sequence[Any], fields: Sequence[Field]) -> None:
    """What the nodes know is in the rows already."""
