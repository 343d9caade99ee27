# SPDX-License-Identifier: BSD-2-Clause
"""OP_NODE_REMOVE: let a node without instances leave the cluster."""

from ganeti.base.command import DRY_RUN, PRIORITY, Command
from ganeti.base.errors import WRONG_STATE, GanetiError, PrerequisiteError
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.instance.wanted.modification import ForgetDisks
from ganeti.master.operations.lock_plans import whole_cluster
from ganeti.master.operations.node.candidate_keys import end_membership
from ganeti.master.operations.node.candidates import fill_pool, hosted_instances
from ganeti.master.operations.node.changes import RemoveNode
from ganeti.master.operations.node.hosts import remove_host
from ganeti.master.operations.parameters import NodeName, NodeUuid
from ganeti.master.queue.hook_runs import HookRunner
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.daemons import NodeLeaveCluster
from ganeti.model.objects import Disk, Node
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask


@operation(
    "OP_NODE_REMOVE",
    summary_field="node_name",
    hooks="node-remove",
    cli=Command(
        "gnt-node remove",
        "remove a node from the cluster",
        arguments=("node_name",),
        is_job=False,
        options=(DRY_RUN, PRIORITY),
        needs_root=True,
    ),
    examples=(Example("node-remove", {"node_name": "node3.example.com"}),),
)
class RemoveNodeFromCluster(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Remove a node; other nodes become candidates in its place."""

    node_name: NodeName
    node_uuid: NodeUuid = None

    def locks(self, view: ConfigView) -> LockPlan:
        return whole_cluster()

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> Node:
        node = view.find_node(self.node_uuid or self.node_name)
        if node.uuid == view.cluster.master_node:
            raise PrerequisiteError(
                f"Node {node.name} is the master node: another one must take over first (gnt-cluster master-failover)",
                WRONG_STATE,
            )
        for schedule in view.backups.schedules:
            if schedule.node == node.uuid:
                raise PrerequisiteError(
                    f"The backups of schedule {schedule.name} are kept on node {node.name}: without it none is made. "
                    f"Remove the schedule (gnt-backup schedule remove {schedule.name}), or add it anew with another "
                    "node (-n NODE)",
                    WRONG_STATE,
                )
        for instance in hosted_instances(view, node.uuid):
            raise PrerequisiteError(
                f"Instance {instance.name} still uses node {node.name}: move or remove it first", WRONG_STATE
            )
        for disk in _disks_on(view, node):
            if not node.offline or disk.nodes != [node.uuid] or ctx.catalogue.template(disk.dev_type).shared:
                raise PrerequisiteError(
                    f"Disk {disk.name or disk.uuid}, which no instance has, is on node {node.name}: attach it (gnt-"
                    f"instance modify --disk attach,uuid={disk.uuid} INSTANCE), then move or remove it with that",
                    WRONG_STATE,
                )
        return node

    def hooks(self, view: ConfigView, checked: Node) -> Hooks:
        others = [node.uuid for node in view.nodes() if node.uuid != checked.uuid]
        env = {"NODE_NAME": checked.name}
        return Hooks(self.hooks_path, "NODE", checked.name, env, pre_nodes=others, post_nodes=others)

    async def _run_hooks_there(self, node: Node, ctx: OperationContext) -> None:
        """The node has its post hooks while it still is one: afterwards nobody may ask it."""
        hooks = self.hooks(ctx.config.view(), node)
        await HookRunner(self, hooks, ctx, ctx.log).run_post_on([node.uuid])

    async def execute(self, checked: Node, ctx: OperationContext) -> None:
        if checked.master_candidate:
            await fill_pool(ctx, [checked.uuid])
        await self._run_hooks_there(checked, ctx)
        await self._leave(checked, ctx)
        if lost := _disks_on(ctx.config.view(), checked):
            names = ", ".join(disk.name or disk.uuid for disk in lost)
            ctx.log.warning(f"Disks that no instance has are forgotten with node {checked.name}: {names}")
            await ctx.config.commit(ForgetDisks(disk_uuids=[disk.uuid for disk in lost]))
        await end_membership(ctx, checked, RemoveNode(node_uuid=checked.uuid))
        await remove_host(ctx, checked)

    async def _leave(self, node: Node, ctx: OperationContext) -> None:
        """Tell the node; one that cannot be told forgets the cluster by node-cleanup."""
        modify_ssh_setup = ctx.config.view().cluster.modify_ssh_setup
        if not node.offline:
            try:
                await ask(ctx.nodes, node.uuid, NodeLeaveCluster(modify_ssh_setup=modify_ssh_setup))
                return
            except GanetiError as err:
                ctx.log.warning(f"Errors encountered on the remote node while leaving the cluster: {err}")
        ctx.log.warning(f"Run node-cleanup on {node.name} before it is used again")


def _disks_on(view: ConfigView, node: Node) -> list[Disk]:
    """The configuration keeps a node as long as a disk is on it: one that has left already could not be removed."""
    return [disk for disk in view.disks() if node.uuid in disk.nodes]
