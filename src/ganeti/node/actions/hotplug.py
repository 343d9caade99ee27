# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about devices of a running guest."""

from ganeti.model.node_calls.hotplug import InstanceChangeNics
from ganeti.node.actions.registry import NORMAL_S, answers
from ganeti.node.state import NodeState


@answers(InstanceChangeNics, timeout_s=NORMAL_S)
async def instance_change_nics(node: NodeState, asked: InstanceChangeNics) -> None:
    """Plug and unplug NICs of a guest while it runs."""
    await node.hypervisor_of(asked.instance).change_nics(asked.instance)
    node.world.log(f"instance {asked.instance.name} given the NICs of its configuration")
