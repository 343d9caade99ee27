# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_DEACTIVATE_MASTER_IP: the master gives the cluster's address up."""

from ganeti.master.operation import Operation, operation
from ganeti.master.operations.cluster.master_ip import change_master_address
from ganeti.master.operations.lock_plans import whole_cluster
from ganeti.model.locks import LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation("OP_CLUSTER_DEACTIVATE_MASTER_IP")
class DeactivateMasterIp(Operation[None], frozen=True, kw_only=True):
    """Take the master IP down."""

    def locks(self, view: ConfigView) -> LockPlan:
        return whole_cluster()

    async def execute(self, checked: None, ctx: OperationContext) -> None:
        await change_master_address(ctx, up=False)
