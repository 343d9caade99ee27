# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_DEACTIVATE_MASTER_IP: the master gives the cluster's address up."""

from ganeti.base.command import Command, Option
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.cluster.master_ip import change_master_address
from ganeti.master.operations.lock_plans import whole_cluster
from ganeti.model.locks import LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_CLUSTER_DEACTIVATE_MASTER_IP",
    cli=Command(
        "gnt-cluster deactivate-master-ip",
        "take the master IP down",
        options=(Option(("--yes",), "assume_yes", "flag", "do not ask"),),
        confirm="The master IP is where the remote API and other clients look for the cluster. Take it down?",
        is_job=False,
    ),
    examples=(Example("master-ip-off"),),
)
class DeactivateMasterIp(Operation[None], frozen=True, kw_only=True):
    """Take the master IP down."""

    def locks(self, view: ConfigView) -> LockPlan:
        return whole_cluster()

    async def execute(self, checked: None, ctx: OperationContext) -> None:
        await change_master_address(ctx, up=False)
