# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_DESTROY: the last job of a cluster; the command then takes the node apart."""

from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.master.operation import Hooks, Operation, operation
from ganeti.master.operations.cluster.master_ip import give_up_master_address
from ganeti.master.operations.lock_plans import whole_cluster
from ganeti.model.locks import LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_CLUSTER_DESTROY",
    hooks="cluster-destroy",
    not_played="nothing is left afterwards that could be checked; bootstrap does the rest",
)
class DestroyCluster(Operation[str], frozen=True, kw_only=True):
    """End a cluster of which only the master is left; gives the master's UUID."""

    def locks(self, view: ConfigView) -> LockPlan:
        return whole_cluster()

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> str:
        others = [node.name for node in view.nodes() if node.uuid != view.cluster.master_node]
        if others:
            raise PrerequisiteError(
                f"There are still {len(others)} node(s) in this cluster besides the master, {others[0]} among them: "
                "remove them first with gnt-node remove",
                WRONG_STATE,
            )
        instances = [instance.name for instance in view.instances()]
        if instances:
            raise PrerequisiteError(
                f"There are still {len(instances)} instance(s) in this cluster, {instances[0]} among them: remove them "
                "first with gnt-instance remove",
                WRONG_STATE,
            )
        return view.cluster.master_node

    def hooks(self, view: ConfigView, checked: str) -> Hooks:
        return Hooks(self.hooks_path, "CLUSTER", view.cluster.cluster_name, post_nodes=[checked])

    async def execute(self, checked: str, ctx: OperationContext) -> str:
        await give_up_master_address(ctx)
        return checked
