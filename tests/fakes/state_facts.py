# SPDX-License-Identifier: BSD-2-Clause
"""All that a state of the cluster tells, to compare two of them."""

from ganeti.placement.kernel.lost_policies import NO_SHAPE, lost_policies
from ganeti.placement.kernel.state import ClusterState


def state_facts(state: ClusterState) -> list[object]:
    """Everything but the numbers of instances."""
    views = [state.view(number) for number in range(len(state.nodes))]
    places = {
        instance.name: (instance, state.primary_of[number], state.secondary_of[number])
        for number, instance in enumerate(state.instances)
    }
    lost = lost_policies(state)
    shapes = {name for name, shape in zip(places, lost.shape_of, strict=True) if shape != NO_SHAPE} if lost else set()
    everyone = state.everyone()
    return [views, state.score(everyone), state.components(everyone), places, state.extra_memory, shapes]
