# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_POST_INIT: the first job of a cluster: its address is taken, its hooks run."""

from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.cluster.master_ip import take_master_address
from ganeti.master.operations.lock_plans import whole_cluster
from ganeti.model.locks import LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation("OP_CLUSTER_POST_INIT", hooks="cluster-init", examples=(Example("post-init"),))
class FinishClusterInit(Operation[bool], frozen=True, kw_only=True):
    """Complete a cluster that has just been made."""

    def locks(self, view: ConfigView) -> LockPlan:
        return whole_cluster()

    def hooks(self, view: ConfigView, checked: None) -> Hooks:
        cluster = view.cluster
        return Hooks(self.hooks_path, "CLUSTER", cluster.cluster_name, post_nodes=[cluster.master_node])

    async def execute(self, checked: None, ctx: OperationContext) -> bool:
        await take_master_address(ctx)
        return True
