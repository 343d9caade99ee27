# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_CONFIG_QUERY: single values of the cluster, by a job."""

from typing import Any

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.parameters import Fields
from ganeti.master.query.cluster import CLUSTER, CONFIG_VALUES, config_values, row_by_job
from ganeti.master.query.running import cell
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_CLUSTER_CONFIG_QUERY",
    examples=(Example("config-query", {"output_fields": ["cluster_name", "drain_flag"]}),),
)
class QueryConfigValues(Operation[list[Any]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Give the values of *output_fields* in their order: fields of the cluster, and what QueryConfigValues gives."""

    output_fields: Fields

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> None:
        known = dict.fromkeys([*CLUSTER.fields, *CONFIG_VALUES])
        if unknown := [name for name in self.output_fields if name not in known]:
            raise PrerequisiteError(
                f"There is no value '{unknown[0]}' of the cluster: there are {', '.join(known)}", WRONG_INPUT
            )

    async def execute(self, checked: None, ctx: OperationContext) -> list[Any]:
        [row] = await row_by_job(ctx)
        others = config_values(row, self.output_fields)
        return [
            cell(CLUSTER.fields[name], row)[1] if name in CLUSTER.fields else other
            for name, other in zip(self.output_fields, others, strict=True)
        ]
