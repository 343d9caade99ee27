# SPDX-License-Identifier: BSD-2-Clause
"""Guests that come and go on a node, from one look at its processes to the next. Pure."""

from collections.abc import Collection, Iterator, Sequence

from ganeti.node.hypervisors.interface import Sighting

_SAME_START_S = 2.0
"""Times of start that are closer are those of one process: they come from clocks that are corrected."""


class GuestChanges:
    """Give it every look; it says what is different from the one before."""

    def __init__(self) -> None:
        self._before: dict[str, Sighting] | None = None
        self._missing: frozenset[str] = frozenset()
        """Should have run at the last look that was told what should, and did not."""
        self._told: set[str] = set()
        """Said to have ended, and not seen since."""
        self.ended: list[str] | None = None
        """Names of guests that ran at the look before the last one, or should run, and do not; None after the first."""
        self.have_begun = False
        """Whether guests run that did not at the look before the last one."""

    def seen(self, guests: Sequence[Sighting], wanted: Collection[str] | None = None) -> Iterator[tuple[str, str]]:
        """Name of the guest, and a sentence; of the first look, which guests run.

        *wanted* are the names of those that should run here, where that is known. One that two such looks miss has
        ended, though it was never seen: it may have begun and died between two looks.
        """
        before, self._before = self._before, {guest.name: guest for guest in guests}
        gone = set() if before is None else before.keys() - self._before.keys()
        never_seen: frozenset[str] = frozenset()
        if wanted is not None:
            missing = frozenset(wanted) - self._before.keys()
            never_seen = (missing & self._missing) - self._told - gone
            self._missing = missing
        self.have_begun = before is not None and not self._before.keys() <= before.keys()
        self._told -= self._before.keys()
        if before is None:
            self.ended, self._told = None, set(self._missing)  # who hears what runs sees what does not
        else:
            self.ended = sorted(gone | never_seen)
            self._told.update(self.ended)
        if wanted is not None:
            self._told &= self._missing
        for name, guest in self._before.items():
            old = before.get(name) if before is not None else None
            if before is None:
                yield name, f"guest {name} runs as the monitoring begins"
            elif old is None:
                yield name, f"guest {name} runs"
            elif abs(guest.started_s - old.started_s) > _SAME_START_S:
                yield name, f"guest {name} was started again: it is another process"
        for name in sorted(gone):
            yield name, f"guest {name} runs no longer"
