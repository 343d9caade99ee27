# SPDX-License-Identifier: BSD-2-Clause
"""What keeps an instance off a node whatever the node has free: its state, its group, what the request says."""

from collections.abc import Iterator

from ganeti.placement.cluster.lack import (
    ALLOC_POLICY,
    AVAILABILITY,
    GROUP,
    NETWORK,
    NODE,
    OTHER_GROUP,
    REQUEST,
    RESTRICTION,
    Change,
    Lack,
)
from ganeti.placement.cluster.picture import AllocPolicy, Node
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.terms import Allocate

Fixed = tuple[Lack, Change | None]
"""A lack with the one change that cures it; None: nothing does."""

_SHARES = {"drained": 2.0, "offline": 3.0}
_SHARE_OF_CAPABILITY, _SHARE_OF_NETWORK, _SHARE_OF_ALLOC_POLICY, _SHARE_OF_REQUEST = 5.0, 2.0, 1.5, 1.0


def is_known(node: Node) -> bool:
    """Whether a node has told what it has; one that is offline may not have."""
    return not node.unavailable or node.total_memory_mib > 0


class Excluding:
    """The same of every node, for one request. *group* is the number of the group asked for, NOWHERE for any."""

    def __init__(self, state: ClusterState, request: Allocate, group: int, restrict: tuple[str, ...] | None) -> None:
        self._state = state
        self._request = request
        self._group = group
        self._restrict = restrict
        self._groups: dict[int, list[Fixed]] = {}

    def of(self, number: int) -> list[Fixed]:
        """All of it, whether the node may be used first."""
        own, group = self.of_node(number), self.of_group(self._state.group_of[number])
        return [*own[:1], *group, *own[1:]] if self._state.nodes[number].unavailable else [*group, *own]

    def of_node(self, number: int) -> list[Fixed]:
        """Whether it may be used, and whether it was asked for."""
        node, found = self._state.nodes[number], list[Fixed]()
        if node.unavailable:
            share = _SHARES.get(node.unavailable, _SHARE_OF_CAPABILITY)
            words = f"is {node.unavailable}"
            if not is_known(node):
                words += ", and what it has free is not known"
            lack = Lack(AVAILABILITY, words, None, "online", node.unavailable, "", node.name)
            found.append((lack, Change(NODE, AVAILABILITY, node.name, 0, node.unavailable, share)))
        if self._restrict is not None and node.name not in self._restrict:
            words = "is not among the nodes the request is restricted to"
            change = Change(REQUEST, RESTRICTION, "", 0, node.name, _SHARE_OF_REQUEST)
            found.append((Lack(RESTRICTION, words, None, node.name, ", ".join(self._restrict), "", node.name), change))
        return found

    def of_group(self, group: int) -> list[Fixed]:
        if group not in self._groups:
            self._groups[group] = list(self._find_of_group(group))
        return self._groups[group]

    def _find_of_group(self, group: int) -> Iterator[Fixed]:
        own = self._state.groups[group]
        if self._group not in (NOWHERE, group):
            asked = self._state.groups[self._group].name
            words = f"is in group {own.name}, asked for was {asked}"
            change = Change(REQUEST, OTHER_GROUP, "", 0, own.name, _SHARE_OF_REQUEST)
            yield Lack(OTHER_GROUP, words, None, asked, own.name), change
        for network in self._request.instance.networks:
            if network not in own.networks:
                words = f"its group {own.name} is not connected to network {network}"
                change = Change(GROUP, NETWORK, own.name, 0, network, _SHARE_OF_NETWORK)
                yield Lack(NETWORK, words, None, network), change
        if own.alloc_policy == AllocPolicy.UNALLOCABLE and not self._request.group:
            words = f"its group {own.name} is unallocable"
            change = Change(GROUP, ALLOC_POLICY, own.name, 0, "preferred", _SHARE_OF_ALLOC_POLICY)
            yield Lack(ALLOC_POLICY, words, None, "preferred", "unallocable"), change
