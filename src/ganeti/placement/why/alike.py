# SPDX-License-Identifier: BSD-2-Clause
"""Nodes that are refused for the same reasons, together: a thousand refusals are told in a few lines."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ganeti.placement.cluster.lack import (
    AVAILABILITY,
    DISK_SPINDLES,
    EXCLUSION_TAG,
    REDUNDANCY,
    REDUNDANCY_NOW,
    RESOURCES,
    TEMPLATE,
    Lack,
)
from ganeti.placement.request.terms import NodeRefusal

_BY_NAME = (*RESOURCES, EXCLUSION_TAG, REDUNDANCY, DISK_SPINDLES, TEMPLATE)

Reason = frozenset[str]
"""What nodes have in common: the kinds of what they lack."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Nodes with the same reasons. *first* is the nearest of them, *names* are all of them, the nearest first.

    *missing* has the least and the most that is missing of what they lack an amount of.
    """

    first: NodeRefusal
    names: Sequence[str]
    missing: dict[str, tuple[int, int]]


def kind_of(lack: Lack) -> str:
    """What is an amount, or is told with names, counts as the same reason; the rest is told apart by its words."""
    if lack.constraint == AVAILABILITY:
        return f"{lack.constraint} {lack.present}"
    return lack.constraint if lack.constraint in _BY_NAME else lack.sentence


def of_partner(kind: str) -> str:
    """What only the other node of a pair lacks."""
    return f"partner {kind}"


def own_lacks(refusal: NodeRefusal) -> list[Lack]:
    """What is wrong with the node itself; with its partner, if that is all; not with the cluster even without it."""
    lacks = [lack for lack in refusal.lacks if lack.constraint != REDUNDANCY_NOW]
    return [lack for lack in lacks if lack.node in ("", refusal.node)] or lacks


def reason_of(refusal: NodeRefusal) -> tuple[Reason, dict[str, int]]:
    """The reason of one node, and how much is missing of each resource."""
    if not refusal.lacks:
        return frozenset((refusal.sentence,)), {}
    lacks = own_lacks(refusal)
    if is_of_partner(refusal, lacks):
        return frozenset(of_partner(kind_of(lack)) for lack in lacks), {}
    missing = {lack.constraint: _missing(lack) for lack in lacks if lack.constraint in RESOURCES}
    return frozenset(kind_of(lack) for lack in lacks), missing


def is_of_partner(refusal: NodeRefusal, lacks: Sequence[Lack]) -> bool:
    """Whether the node itself is all right and only its best partner is not."""
    return bool(refusal.partner and lacks) and all(lack.node == refusal.partner for lack in lacks)


def _missing(lack: Lack) -> int:
    if isinstance(lack.needed, str) or isinstance(lack.present, str):
        return 0
    return int(lack.needed - lack.present)


def ranges_of(members: Iterable[tuple[float, int, dict[str, int]]]) -> dict[str, tuple[int, int]]:
    """The least and the most that is missing; *members* are distance, number and what is missing."""
    found: dict[str, tuple[int, int]] = {}
    for _, _, missing in members:
        for name, amount in missing.items():
            least, most = found.get(name, (amount, amount))
            found[name] = (min(least, amount), max(most, amount))
    return found


class InGroups(Sequence[NodeRefusal]):
    """Refusals that are in groups already."""

    @abstractmethod
    def alike(self) -> list[Alike]:
        """Nodes with the same reasons together, the nearest first."""


def alike(refusals: Sequence[NodeRefusal]) -> list[Alike]:
    """Refusals by their reasons, the nearest first."""
    if isinstance(refusals, InGroups):
        return refusals.alike()
    found: dict[Reason, list[tuple[float, int, dict[str, int]]]] = {}
    for at, refusal in enumerate(refusals):
        reason, missing = reason_of(refusal)
        found.setdefault(reason, []).append((refusal.distance, at, missing))
    groups = sorted(
        (sorted(members, key=lambda one: one[:2]) for members in found.values()), key=lambda one: one[0][:2]
    )
    return [
        Alike(refusals[members[0][1]], [refusals[at].node for _, at, _ in members], ranges_of(members))
        for members in groups
    ]
