# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_RENEW_DUE: renew certificates before they expire, and those of nodes that missed a renewal."""

from ganeti.master.operation import Operation, SubmitJobs, operation
from ganeti.master.operations.cluster.renew_crypto import RenewCrypto
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.node.certificate_renewal import Due, find_due
from ganeti.model.locks import LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

_LOW = 10
"""It needs the locks of all nodes. While it waits for a long job, all later ones of the usual priority would wait for
it, the failovers of a lost node, too; there are weeks left."""


@operation(
    "OP_CLUSTER_RENEW_DUE",
    not_played="simulated machines have no certificates; tests/system/test_renew_crypto.py plays it",
)
class RenewDue(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Submit a job that renews what expires soon, or comes from a former authority; none where nothing does.

    The watcher asks for it. Nothing is locked: what is found is looked at again by the job that renews it.
    """

    def locks(self, view: ConfigView) -> LockPlan:
        return plan()

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Due:
        return await find_due(ctx)

    def check(self, view: ConfigView, facts: Due, ctx: OperationContext) -> Due:
        return facts

    async def execute(self, checked: Due, ctx: OperationContext) -> SubmitJobs:
        if checked.authority:
            return SubmitJobs([[RenewCrypto(cluster_certificate=True, priority=_LOW)]])
        if checked.nodes:
            return SubmitJobs([[RenewCrypto(node_certificates=True, only_nodes=list(checked.nodes), priority=_LOW)]])
        return SubmitJobs([])
