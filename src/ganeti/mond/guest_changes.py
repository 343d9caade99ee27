# SPDX-License-Identifier: BSD-2-Clause
"""Guests that come and go on a node, from one look at its processes to the next. Pure."""

from collections.abc import Iterator, Sequence

from ganeti.node.hypervisors.interface import Sighting

_SAME_START_S = 2.0
"""Times of start that are closer are those of one process: they come from clocks that are corrected."""


class GuestChanges:
    """Give it every look; it says what is different from the one before."""

    def __init__(self) -> None:
        self._before: dict[str, Sighting] | None = None
        self.ended: list[str] | None = None
        """Names of guests that ran at the look before the last one, and at that one no more; None after the first."""

    def seen(self, guests: Sequence[Sighting]) -> Iterator[tuple[str, str]]:
        """Name of the guest, and a sentence; of the first look, which guests run."""
        before, self._before = self._before, {guest.name: guest for guest in guests}
        self.ended = None if before is None else sorted(before.keys() - self._before.keys())
        for name, guest in self._before.items():
            old = before.get(name) if before is not None else None
            if before is None:
                yield name, f"guest {name} runs as the monitoring begins"
            elif old is None:
                yield name, f"guest {name} runs"
            elif abs(guest.started_s - old.started_s) > _SAME_START_S:
                yield name, f"guest {name} was started again: it is another process"
        for name in self.ended or ():
            yield name, f"guest {name} runs no longer"
