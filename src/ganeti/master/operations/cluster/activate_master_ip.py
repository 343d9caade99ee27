# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_ACTIVATE_MASTER_IP: the master takes the cluster's address."""

from ganeti.base.command import Command
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.cluster.master_ip import change_master_address
from ganeti.master.operations.lock_plans import whole_cluster
from ganeti.model.locks import LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_CLUSTER_ACTIVATE_MASTER_IP",
    cli=Command("gnt-cluster activate-master-ip", "bring the master IP up", is_job=False),
    examples=(Example("master-ip-on"),),
)
class ActivateMasterIp(Operation[None], frozen=True, kw_only=True):
    """Bring the master IP up."""

    def locks(self, view: ConfigView) -> LockPlan:
        return whole_cluster()

    async def execute(self, checked: None, ctx: OperationContext) -> None:
        await change_master_address(ctx, up=True)
