# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_VERIFY_DISKS: makes the jobs that look at the disks of each group."""

from typing import Annotated

from ganeti.base.command import PRIORITY, Command
from ganeti.master.operation import Example, Operation, SubmitJobs, operation
from ganeti.master.operations.group.verify_disks import Strict, VerifyGroupDisks
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import ALL_GROUPS, LockPlan, group_lock
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

COMMENT = "Submitted by OP_CLUSTER_VERIFY_DISKS"


@operation(
    "OP_CLUSTER_VERIFY_DISKS",
    cli=Command(
        "gnt-cluster verify-disks",
        "look for lost disks and copies that are behind, and open the latter again",
        options=(PRIORITY,),
        handler="cluster.disks:verify",
        is_job=False,
    ),
    examples=(Example("cluster-verify-disks"),),
)
class VerifyClusterDisks(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Look at the disks of all groups, or of one."""

    group_name: Annotated[
        Text | None, Parameter("this group only", "-g", "--node-group", subject="group", metavar="GROUP")
    ] = None
    is_strict: Strict = True

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(shared=[group_lock(view.find_group(self.group_name).uuid) if self.group_name else ALL_GROUPS])

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> list[str]:
        """Give the UUIDs of the groups to look at."""
        if self.group_name is not None:
            return [view.find_group(self.group_name).uuid]
        return [group.uuid for group in sorted(view.groups(), key=lambda group: group.name)]

    async def execute(self, checked: list[str], ctx: OperationContext) -> SubmitJobs:
        return SubmitJobs(
            [
                [VerifyGroupDisks(group_name=uuid, is_strict=self.is_strict, comment=COMMENT, priority=self.priority)]
                for uuid in checked
            ]
        )
