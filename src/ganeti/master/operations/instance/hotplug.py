# SPDX-License-Identifier: BSD-2-Clause
"""Changing NICs of a running guest: before the configuration says so, with the way back."""

from typing import Any

from msgspec.structs import replace

from ganeti.base.errors import ExecutionError, HypervisorError
from ganeti.master.instance_spec import bare, instance_spec
from ganeti.master.operations.instance.modification import Facts, NicPlan
from ganeti.model.node_calls.hotplug import InstanceChangeNics
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask


def can_plug(ctx: OperationContext, instance: Instance, nics: NicPlan, facts: Facts) -> bool:
    """Whether NICs change while the guest runs; an address of a pool is known after the commit only."""
    able = ctx.catalogue.hypervisor(instance.hypervisor).can_hotplug
    return able and not nics.from_pool and facts.running is not None


async def plug_nics(ctx: OperationContext, old: Instance, wanted: InstanceSpec) -> None:
    """Give the guest the NICs *wanted*; raises `ExecutionError` when it keeps those it has."""
    before = bare(instance_spec(ctx.config.view(), ctx.catalogue, old))
    sentence = f"give the guest of {old.name} the NICs that it had"
    undo: dict[str, Any] = {"instance": before}
    await ctx.undo.push(UndoNodeCall(sentence, old.primary_node, InstanceChangeNics.call, undo))
    # The parameters of the machine that runs: new ones hold from the next start on.
    asked = replace(before, nics=wanted.nics)
    try:
        await ask(ctx.nodes, old.primary_node, InstanceChangeNics(instance=asked))
    except HypervisorError as err:
        raise ExecutionError(f"{err}; --no-hotplug changes the NICs at the next start instead") from err
