# SPDX-License-Identifier: BSD-2-Clause
"""Put right what an interrupted migration or failover has left: the guest stays where it runs, and is not moved."""

from collections.abc import Sequence

from ganeti.base.errors import ExecutionError
from ganeti.master.operations.changes import SetPrimaryNode
from ganeti.model.node_calls.instances import InstanceInfo
from ganeti.model.node_calls.migration import InstanceFinalizeMigrationDst, InstanceFinalizeMigrationSrc
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask, ask_many

ANSWER_WITHIN_S = 30.0
_ALIVE = ("running", "paused")
"""A guest stands still before the switchover of a migration: it is on its source, and goes on there."""


async def clean_up(ctx: OperationContext, instance: Instance, spec: InstanceSpec) -> None:
    """Find where the guest runs and make that its primary node; raises `ExecutionError` where that cannot be told."""
    view = ctx.config.view()
    nodes = [node.uuid for node in view.nodes() if node.vm_capable and not node.offline]
    found = []
    for answer in await ask_many(ctx.nodes, nodes, InstanceInfo(instance=spec), deadline_s=ANSWER_WITHIN_S):
        if answer.error is not None:
            name = view.node(answer.node_uuid).name
            raise ExecutionError(f"Cannot tell where {spec.name} runs: node {name} does not answer: {answer.error}")
        if answer.value is not None and answer.value.state in _ALIVE:
            found.append(answer.node_uuid)
    if not found and instance.admin_state != "up":
        ctx.log.info(f"* instance {spec.name} is stopped, as it should be: nothing is left to clean up")
        return
    if not found:
        raise ExecutionError(
            f"Instance {spec.name} runs on no node: start it with gnt-instance startup {spec.name}; if its node "
            f"{spec.primary_node} is down, use gnt-instance failover {spec.name}"
        )
    if len(found) > 1:
        where = ", ".join(view.node(uuid).name for uuid in found)
        raise ExecutionError(
            f"Instance {spec.name} runs on {where}: stop it with gnt-instance shutdown and start it again"
        )
    if ctx.catalogue.hypervisor(spec.hypervisor).can_migrate:
        await _end_migration(ctx, spec, nodes, found[0])
    await ctx.config.commit(SetPrimaryNode(instance_uuid=spec.uuid, node_uuid=found[0]), settles=True)
    ctx.log.info(f"* instance running on {view.node(found[0]).name}")


async def _end_migration(ctx: OperationContext, spec: InstanceSpec, nodes: Sequence[str], where: str) -> None:
    """Remove what a migration has left on the other nodes; on node *where* the guest goes on for good."""
    for uuid in nodes:
        if uuid != where:
            await ask(ctx.nodes, uuid, InstanceFinalizeMigrationDst(instance=spec, success=False))
    if where == spec.primary_node_uuid:
        await ask(ctx.nodes, where, InstanceFinalizeMigrationSrc(instance=spec, success=False))
    else:
        await ask(ctx.nodes, where, InstanceFinalizeMigrationDst(instance=spec, success=True))
