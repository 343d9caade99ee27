# SPDX-License-Identifier: BSD-2-Clause
"""From the present nodes of an instance to its final ones in the fewest hops, and of those the cheapest."""

from collections.abc import Sequence
from dataclasses import dataclass

from ganeti.placement.balance.plan_price import Price, price_of_hop
from ganeti.placement.balance.steps import KINDS, BalanceOptions
from ganeti.placement.kernel import calls as kernel
from ganeti.placement.kernel.state import NOWHERE, ClusterState

Places = tuple[int, int]
"""Primary and secondary of an instance as node numbers."""
_MOST_HOPS = 3


@dataclass(frozen=True, slots=True)
class Hop:
    """One move, *kind* and *target* as in ``balance.Step``, and what it costs."""

    kind: str
    target: int
    before: Places
    after: Places
    price: Price


class Routes:
    """Hops that the options allow within the group *members*. Room on the nodes is not asked for."""

    def __init__(self, state: ClusterState, members: Sequence[int], options: BalanceOptions) -> None:
        self._state, self._options = state, options
        self._targets = {node for node in members if state.online[node]}
        self._known: dict[tuple[int, Places, Places], tuple[Hop, ...] | None] = {}

    def between(self, number: int, before: Places, after: Places) -> tuple[Hop, ...] | None:
        """The hops from *before* to *after*, none if they are the same; None if the options leave no way."""
        key = (number, before, after)
        if key not in self._known:
            self._known[key] = self._search(number, before, after)
        return self._known[key]

    def _search(self, number: int, before: Places, after: Places) -> tuple[Hop, ...] | None:
        ends: dict[Places, tuple[Hop, ...]] = {before: ()}
        nodes = sorted({*before, *after} - {NOWHERE})
        for _ in range(_MOST_HOPS):
            if after in ends:
                break
            reached: dict[Places, tuple[Hop, ...]] = {}
            for here, way in ends.items():
                for hop in self._hops(number, here, nodes):
                    longer = (*way, hop)
                    if hop.after in ends or (hop.after in reached and _price(reached[hop.after]) <= _price(longer)):
                        continue
                    reached[hop.after] = longer
            ends |= reached
        return ends.get(after)

    def _hops(self, number: int, here: Places, nodes: Sequence[int]) -> list[Hop]:
        options, (primary, secondary) = self._options, here
        online = self._state.online
        targets = [node for node in nodes if node in self._targets and node not in here]
        if secondary == NOWHERE:
            return [self._hop(number, "fa", node, here) for node in targets] if options.instance_moves else []
        failover = options.instance_moves and online[secondary]
        found = [self._hop(number, "f", NOWHERE, here)] if failover else []
        if not options.disk_moves:
            return found
        kinds = ["r"]
        if options.instance_moves and not (options.restricted_migration and online[primary]):
            kinds.append("rf")
            if failover:
                kinds += ["fr"] if options.restricted_migration else ["frf", "fr"]
        return found + [self._hop(number, kind, node, here) for node in targets for kind in kinds]

    def _hop(self, number: int, kind: str, target: int, here: Places) -> Hop:
        dead = not self._state.online[here[0]]
        price = price_of_hop(self._state.instances[number], kind, from_dead_primary=dead)
        return Hop(kind, target, here, _places_after(kind, target, here), price)

    def is_legal(self, number: int, hop: Hop) -> bool:
        """Whether the checks let an instance make *hop* from where it is now."""
        check = kernel.library().kernel_step_is_legal
        return bool(check(self._state.handle, number, KINDS.index(hop.kind), hop.target, self._options.flags))


def _price(way: tuple[Hop, ...]) -> int:
    return sum(hop.price.total_mib for hop in way)


def _places_after(kind: str, target: int, here: Places) -> Places:
    primary, secondary = here
    return {
        "f": (secondary, primary),
        "fa": (target, NOWHERE),
        "r": (primary, target),
        "rf": (target, primary),
        "frf": (target, secondary),
        "fr": (secondary, target),
    }[kind]
