# SPDX-License-Identifier: BSD-2-Clause
"""OP_NODE_MIGRATE: one migration job for each primary instance of a node."""

from typing import Any

from ganeti.base.command import ASSUME_YES, PRINT_JOBID, PRIORITY, SUBMIT, Command
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master.operation import Example, Hooks, Operation, SubmitJobs, operation
from ganeti.master.operations.instance.moving.migrate import MigrateInstance
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import (
    MODE_OR_FLAG,
    NODE_OR_ALLOCATOR,
    Allocator,
    IgnorePolicy,
    Live,
    MigrationMode,
    NodeName,
    NodeUuid,
    RuntimeChanges,
    TargetNode,
    TargetNodeUuid,
)
from ganeti.model.locks import LockPlan, node_lock
from ganeti.model.objects import Node
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_NODE_MIGRATE",
    summary_field="node_name",
    hooks="node-migrate",
    cli=Command(
        "gnt-node migrate",
        "migrate all primary instances of a node",
        arguments=("node_name",),
        options=(ASSUME_YES, SUBMIT, PRINT_JOBID, PRIORITY),
        excludes=(NODE_OR_ALLOCATOR, MODE_OR_FLAG),
        handler="node.jobs:migrate",
        is_job=False,
    ),
    rapi="POST /2/nodes/[node_name]/migrate",
    examples=(
        Example(
            "node-migrate",
            {"node_name": "node2.example.com", "target_node": "node3.example.com"},
            before=("create",),
        ),
    ),
)
class MigrateNode(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Migrate all primary instances of a node."""

    node_name: NodeName
    node_uuid: NodeUuid = None
    mode: MigrationMode = None
    live: Live = None
    target_node: TargetNode = None
    target_node_uuid: TargetNodeUuid = None
    iallocator: Allocator | None = None
    ignore_ipolicy: IgnorePolicy = False
    allow_runtime_changes: RuntimeChanges = True

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(shared=[node_lock(view.find_node(self.node_uuid or self.node_name).uuid)])

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> Node:
        node = view.find_node(self.node_uuid or self.node_name)
        target = self.target_node_uuid or self.target_node
        if target is not None:
            if self.iallocator is not None:
                raise PrerequisiteError("Give either a target node or an allocator, not both", WRONG_INPUT)
            if view.find_node(target).uuid == node.uuid:
                raise PrerequisiteError(f"Node {node.name} cannot be the target of its own instances", WRONG_INPUT)
        return node

    def hooks(self, view: ConfigView, checked: Node) -> Hooks:
        master = [view.cluster.master_node]
        env: dict[str, Any] = {
            "NODE_NAME": checked.name,
            "ALLOW_RUNTIME_CHANGES": str(self.allow_runtime_changes),
        }
        return Hooks(self.hooks_path, "NODE", checked.name, env, pre_nodes=master, post_nodes=master)

    async def execute(self, checked: Node, ctx: OperationContext) -> SubmitJobs:
        instances = ctx.config.view().primary_instances(checked.uuid)
        return SubmitJobs(
            [
                [
                    MigrateInstance(
                        instance_name=instance.name,
                        mode=self.mode,
                        live=self.live,
                        target_node=self.target_node_uuid or self.target_node,
                        iallocator=self.iallocator,
                        allow_runtime_changes=self.allow_runtime_changes,
                        ignore_ipolicy=self.ignore_ipolicy,
                        comment=f"Migrating instances off {checked.name}",
                        priority=self.priority,
                    )
                ]
                for instance in instances
                if not instance.forthcoming
            ]
        )
