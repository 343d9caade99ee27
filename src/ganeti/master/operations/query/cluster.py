# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_QUERY: what QueryClusterInfo answers, by a job."""

from typing import Any

from ganeti.master.operation import Example, Operation, operation
from ganeti.master.query.cluster import cluster_info
from ganeti.ports.context import OperationContext


@operation("OP_CLUSTER_QUERY", examples=(Example("cluster-query"),))
class QueryCluster(Operation[dict[str, Any]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    async def execute(self, checked: Any, ctx: OperationContext) -> dict[str, Any]:
        return cluster_info(ctx.config.view(), ctx.catalogue)
