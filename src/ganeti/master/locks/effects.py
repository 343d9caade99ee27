# SPDX-License-Identifier: BSD-2-Clause
"""What calls did to the lock table, in small facts: enough to do it again to another table, and to tell who watches."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ganeti.master.locks.owners import Owner
from ganeti.master.locks.waiting import Pending

Story = tuple[str, Owner, Mapping[str, str], *tuple[int, ...]]
"""("granted" | "waiting" | "withdrawn" | "freed", who, lock to state), as the event API tells it; the priority follows
where somebody waits."""


class Holds(NamedTuple):
    """The owner holds locks it did not hold so before, and no longer those in *freed* (with their former states)."""

    owner: Owner
    now: Mapping[str, str]
    freed: Mapping[str, str]


class Waits(NamedTuple):
    """A request waits from now on, or waits at another place of the queue: one for each owner."""

    pending: Pending


class EndsWaiting(NamedTuple):
    """The owner's request waits no longer; if it is granted, its locks follow as `Holds`."""

    pending: Pending
    granted: bool


class HandsOver(NamedTuple):
    """All that *old* held, *new* holds now."""

    old: Owner
    new: Owner
    locks: Mapping[str, str]


Effect = Holds | Waits | EndsWaiting | HandsOver


def tell(effects: Iterable[Effect]) -> list[Story]:
    """Say the effects as stories. The one of a waiting request that is granted names all locks it waited for."""
    stories: list[Story] = []
    waited: dict[Owner, Mapping[str, str]] = {}
    for effect in effects:
        match effect:
            case Waits(pending):
                stories.append(("waiting", pending.owner, pending.wants, pending.priority))
            case EndsWaiting(pending, granted=True):
                waited[pending.owner] = pending.wants
            case EndsWaiting(pending):
                stories.append(("withdrawn", pending.owner, pending.wants))
            case HandsOver(old, new, locks):
                stories += [("freed", old, locks), ("granted", new, locks)]
            case Holds(owner, now, freed):
                if freed:
                    stories.append(("freed", owner, freed))
                if got := {**waited.pop(owner, {}), **now}:
                    stories.append(("granted", owner, got))
    return stories
