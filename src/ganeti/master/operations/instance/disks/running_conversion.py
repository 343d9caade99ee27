# SPDX-License-Identifier: BSD-2-Clause
"""Another disk template for an instance that runs on: its disks are copied and exchanged for the copies.

All of them are exchanged in one step: an instance has disks of one template, whatever dies.
"""

from msgspec.structs import replace

from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.master.disk_plan import completion
from ganeti.master.instance_spec import bare, instance_spec
from ganeti.master.operations.instance.disks.disk_steps import SYNC_POLL_S, open_disks, plan_of, push_undo, take
from ganeti.master.operations.instance.wanted.modification import Facts, ModifyInstance
from ganeti.model.node_calls.hotplug import InstanceExchangeDisks, InstanceMirrorDisks
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance
from ganeti.model.traits import Catalogue, TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask


def is_wanted(
    view: ConfigView, catalogue: Catalogue, instance: Instance, template: TemplateTraits, facts: Facts
) -> bool:
    """Whether the disks are converted under a running guest; raises `PrerequisiteError` where that cannot be."""
    traits = catalogue.hypervisor(instance.hypervisor)
    if facts.running is None or not traits.can_exchange_disks or not template.has_disks:
        return False
    stop = f"shut the instance down first (gnt-instance shutdown {instance.name})"
    if facts.running.state not in ("running", "paused"):
        raise PrerequisiteError(f"The guest of {instance.name} is {facts.running.state}: {stop}", WRONG_STATE)
    for uuid in view.instance_nodes(instance):
        if view.node(uuid).offline:
            raise PrerequisiteError(
                f"Node {view.node(uuid).name} of {instance.name} is offline: to convert the disks, bring it back first",
                WRONG_STATE,
            )
    return True


async def exchange_disks(ctx: OperationContext, old: Instance, spec: InstanceSpec, change: ModifyInstance) -> None:
    """Copy the disks of a guest to those of *spec*, have it use them, and remove the former ones.

    From the exchange on there is no way back: it is completed, and *change* made, whatever dies. That the guest has
    its new disks is written down before the former ones are removed, which a node that does not answer can prevent: a
    later start on these would lose what was written since.
    """
    before = bare(instance_spec(ctx.config.view(), ctx.catalogue, old))
    node_uuid, disks = before.primary_node_uuid, spec.disks
    coming = plan_of(ctx, replace(before, disks=disks))
    await push_undo(ctx, coming.open())
    await open_disks(ctx, coming)
    sentence = f"end the copying of disks of {old.name}"
    await ctx.undo.push(
        UndoNodeCall.of(sentence, node_uuid, InstanceExchangeDisks(instance=before, disks=disks, give_up=True))
    )
    ctx.log.info(f"* Copying the disks of {old.name} while it runs")
    while copies := await ask(ctx.nodes, node_uuid, InstanceMirrorDisks(instance=before, disks=disks)):
        done, total = sum(copy.done_bytes for copy in copies), max(1, sum(copy.total_bytes for copy in copies))
        if all(copy.is_equal for copy in copies):
            ctx.log.progress("disks are copied", total, total)
            break
        ctx.log.progress("disks are copied", min(done, total - 1), total)
        await ctx.clock.sleep(SYNC_POLL_S)
    removal = plan_of(ctx, before).remove()
    sentence = f"complete the conversion of disks of {old.name}"
    exchanged = replace(change, removed=[])
    finish = InstanceExchangeDisks(instance=before, disks=disks, finish=True)
    rest = completion(removal, sentence, change)
    await ctx.undo.push(
        UndoNodeCall.of(sentence, node_uuid, finish, settled_change=exchanged, settled_call=rest),
    )
    await ask(ctx.nodes, node_uuid, InstanceExchangeDisks(instance=before, disks=disks))
    await ctx.config.commit(exchanged)
    for step in removal:
        await take(ctx, step)
