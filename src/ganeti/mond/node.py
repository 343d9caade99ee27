# SPDX-License-Identifier: BSD-2-Clause
"""This node as its collectors see it: its guests, looked for at intervals, and what the cluster says of it."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ganeti.base.errors import GanetiError
from ganeti.mond.guest_changes import GuestChanges
from ganeti.node.collectors import cpu_load
from ganeti.node.collectors.growth import Window
from ganeti.node.collectors.interface import ClusterView, Collector
from ganeti.node.collectors.probes import Probes
from ganeti.node.collectors.report import text_of
from ganeti.node.hypervisors.interface import Sighting
from ganeti.system.flight_record import FlightRecord

SEEN_S = 0.5
"""Collectors that are asked together look at the guests' processes once."""
TOLD_S = 15.0
"""A guest's state is asked over the socket that jobs need as well."""
_HYPERVISORS = "hypervisor_list"
_log = logging.getLogger(__name__)


@dataclass
class Node:
    """What collectors read of this node."""

    name: str
    cluster: ClusterView
    hypervisors: Sequence[str]
    """Names of those that this node may have."""
    probes: Probes
    key: Callable[[], bytes]
    """The cluster's key, which signs reports that MaintD acts on."""
    ssconf: Callable[[str], Sequence[str]]
    """The words of one of the node's ssconf files; none where it is not there."""
    busy: Window = field(default_factory=Window)
    guests_busy: Window = field(default_factory=Window)
    record: FlightRecord | None = None
    """Notes when guests start and end."""
    changes: GuestChanges = field(default_factory=GuestChanges)
    tell: Callable[[Sequence[str] | None, Sequence[str]], None] = lambda ended, running: None
    """Called with the guests that have ended (None at the first look), and with all that run."""
    follow: Callable[[Sequence[Sighting]], None] = lambda guests: None
    """Called with the guests of each look: their end is to be noticed at once."""
    refused_diagnoses: int = 0
    """How often a diagnose command was refused, or printed what cannot be read, since MonD began."""
    _last_refusal: str = ""
    _seen: dict[str, tuple[float, Sequence[Sighting]]] = field(default_factory=dict)
    _told: dict[str, tuple[float, Mapping[str, str]]] = field(default_factory=dict)

    async def sample(self) -> None:
        """Count once what processors and guests have done; called every `cpu_load.SAMPLE_S`."""
        self._seen.clear()
        now_s = time.monotonic()
        self.busy.add(now_s, cpu_load.busy_s(text_of(cpu_load.PLACE)))
        guests = await self.guests()
        self.guests_busy.add(now_s, {guest.name: guest.cpu_time_s for guest in guests})
        self.note_changes(guests, self.cluster.wanted)

    async def look(self) -> None:
        """Look for guests that have come or gone since the last sample."""
        self._seen.clear()
        self.note_changes(await self.guests())

    def note_changes(self, guests: Sequence[Sighting], wanted: Collection[str] | None = None) -> None:
        """Record and report which guests have started and ended; *wanted* should run here, where that is known."""
        for name, text in self.changes.seen(guests, wanted):
            if self.record is not None:
                self.record.note([name], text)
        if self.changes.ended != [] or self.changes.have_begun:
            self.tell(self.changes.ended, [guest.name for guest in guests])
        self.follow(guests)

    def note_refusal(self, fault: str) -> None:
        """Count a diagnose command that was refused, or printed what cannot be read; log a new reason."""
        self.refused_diagnoses += bool(fault)
        if fault != self._last_refusal:
            _log.warning("the diagnose command: %s", f"it is refused: {fault}" if fault else "is understood again")
            self._last_refusal = fault

    def is_active(self, collector: Collector) -> bool:
        """Whether the cluster wants it here."""
        if collector.hypervisor is not None and collector.hypervisor not in self.ssconf(_HYPERVISORS):
            return False
        return self.cluster.settings.of(collector.name).active

    async def told_by(self, name: str) -> Mapping[str, str]:
        """What guests say of their states, asked of each at most every `TOLD_S`; nothing where they cannot be asked."""
        until_s, told = self._told.get(name, (0.0, {}))
        if time.monotonic() >= until_s:
            try:
                told = await self.probes.states(name)
            except GanetiError as err:
                told = {}
                _log.warning("guests of %s cannot be asked how they are: %s", name, err)
            self._told[name] = (time.monotonic() + TOLD_S, told)
        return told

    async def guests(self) -> list[Sighting]:
        return [guest for hypervisor in self.hypervisors for guest in await self.seen_by(hypervisor)]

    async def seen_by(self, hypervisor: str) -> Sequence[Sighting]:
        """Its guests, looked for at most every `SEEN_S`; none of one that the cluster does not have."""
        if hypervisor not in self.ssconf(_HYPERVISORS):
            return ()
        at_s, found = self._seen.get(hypervisor, (-SEEN_S, ()))
        if time.monotonic() - at_s >= SEEN_S:
            found = await self.probes.seen(hypervisor)
            self._seen[hypervisor] = time.monotonic(), found
        return found
