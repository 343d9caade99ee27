# SPDX-License-Identifier: BSD-2-Clause
"""The memory each node keeps for the failure of others, in the order in which 3.1 shows it (spec: htools, 2 and 7).

Entries are sorted by memory, and of equals the one that changed last comes first; so the order depends on the moves
made, and a node can keep an entry of nothing for an instance that is not balanced.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ganeti.placement.balance.steps import Step
    from ganeti.placement.cluster.picture import Instance
    from ganeti.placement.kernel.state import ClusterState

Entries = list[tuple[int, int]]


class PeerMaps:
    """By node: pairs of a primary node and the MiB kept for it, the largest first."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state
        self._maps: dict[int, Entries] = {}
        for number, instance in enumerate(state.instances):
            self._enter(instance, state.primary_of[number], state.secondary_of[number])

    def of(self, node: int) -> Entries:
        return self._maps.get(node, [])

    def follow(self, step: "Step") -> None:
        """Take a step into account that was made after this was built."""
        instance = self._state.instances[step.instance]
        self._leave(instance, *step.before)
        self._enter(instance, *step.after)

    def _enter(self, instance: "Instance", primary: int, secondary: int) -> None:
        if secondary >= 0 and not instance.forthcoming:
            self._put(secondary, primary, self._take(secondary, primary) + instance.reserved_memory_mib)

    def _leave(self, instance: "Instance", primary: int, secondary: int) -> None:
        if secondary < 0 or instance.forthcoming:
            return
        left = self._take(secondary, primary) - instance.reserved_memory_mib
        if left > 0:
            self._put(secondary, primary, left)

    def _take(self, node: int, primary: int) -> int:
        entries = self._maps.setdefault(node, [])
        for place, (peer, memory) in enumerate(entries):
            if peer == primary:
                del entries[place]
                return memory
        return 0

    def _put(self, node: int, primary: int, memory: int) -> None:
        entries = self._maps.setdefault(node, [])
        place = next((at for at, (_, other) in enumerate(entries) if other <= memory), len(entries))
        entries.insert(place, (primary, memory))
