# SPDX-License-Identifier: BSD-2-Clause
"""The collectors of MonD: one row each. What they read and how is in `node/collectors`, one file a collector.

A collector that is `paced` works at its interval and tells what it has found last; the others look when asked.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ganeti.base.errors import GanetiError
from ganeti.base.paths import Paths
from ganeti.mond.cluster import ClusterView
from ganeti.mond.guest_changes import GuestChanges
from ganeti.node.collectors import cgroups, cpu_load, diagnose, diskstats, drbd, instances, lv, storage
from ganeti.node.collectors.looks import Looks
from ganeti.node.collectors.report import NEEDS_A_PERSON, OK, PERFORMANCE, STATUS
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
    paths: Paths
    cluster: ClusterView
    hypervisors: Sequence[str]
    """Names of those that this node may have."""
    looks: Looks
    key: Callable[[], bytes]
    """Signs what somebody acts on."""
    ssconf: Callable[[str], Sequence[str]]
    """The words of one of the node's ssconf files; none where it is not there."""
    busy: cpu_load.Window = field(default_factory=cpu_load.Window)
    guests_busy: cpu_load.Window = field(default_factory=cpu_load.Window)
    record: FlightRecord | None = None
    """Where it is written that guests come and go."""
    changes: GuestChanges = field(default_factory=GuestChanges)
    tell: Callable[[Sequence[str] | None, Sequence[str]], None] = lambda ended, running: None
    """Called with guests that have ended, or None as the looking begins, and with all that run."""
    follow: Callable[[Sequence[Sighting]], None] = lambda guests: None
    """Called with the guests of each look: whose end is to be noticed at once."""
    refused_diagnoses: int = 0
    """How often a diagnose command might not run, or said what is not understood, since MonD began."""
    _last_refusal: str = ""
    _seen: dict[str, tuple[float, Sequence[Sighting]]] = field(default_factory=dict)
    _told: dict[str, tuple[float, Mapping[str, str]]] = field(default_factory=dict)

    async def sample(self) -> None:
        """Count once what processors and guests have done; called every `cpu_load.SAMPLE_S`."""
        self._seen.clear()
        now_s = time.monotonic()
        self.busy.add(now_s, cpu_load.busy_s(_text(cpu_load.PLACE)))
        guests = await self.guests()
        self.guests_busy.add(now_s, {guest.name: guest.cpu_time_s for guest in guests})
        self.note_changes(guests, self.cluster.wanted)

    async def look(self) -> None:
        """Look for guests that have come or gone since the last sample."""
        self._seen.clear()
        self.note_changes(await self.guests())

    def note_changes(self, guests: Sequence[Sighting], wanted: Collection[str] | None = None) -> None:
        """Write down which guests have come and gone, and tell of them; *wanted* should
        run here, where that is known."""
        for name, text in self.changes.seen(guests, wanted):
            if self.record is not None:
                self.record.note([name], text)
        if self.changes.ended != [] or self.changes.have_begun:
            self.tell(self.changes.ended, [guest.name for guest in guests])
        self.follow(guests)

    def note_refusal(self, fault: str) -> None:
        """Count what a diagnose command has said and is not told; write down a new reason."""
        self.refused_diagnoses += bool(fault)
        if fault != self._last_refusal:
            _log.warning("the diagnose command: %s", f"it is refused: {fault}" if fault else "is understood again")
            self._last_refusal = fault

    def is_active(self, collector: "Collector") -> bool:
        """Whether the cluster wants it here."""
        if collector.hypervisor is not None and collector.hypervisor not in self.ssconf(_HYPERVISORS):
            return False
        return self.cluster.settings.of(collector.name).active

    async def told_by(self, name: str) -> Mapping[str, str]:
        """What guests say of their states, asked of each at most every `TOLD_S`; nothing where they cannot be asked."""
        until_s, told = self._told.get(name, (0.0, {}))
        if time.monotonic() >= until_s:
            try:
                told = await self.looks.states(name)
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
            found = await self.looks.seen(hypervisor)
            self._seen[hypervisor] = time.monotonic(), found
        return found


@dataclass(frozen=True)
class Collector:
    """What is collected, and by what; *category* None is told as ``default``."""

    name: str
    category: str | None
    kind: int
    collect: Callable[[Node], Awaitable[Any]]
    paced: bool = False
    hypervisor: str | None = None
    """Active only where the cluster has this hypervisor."""
    beside: Callable[[Node, Any], Mapping[str, Any]] = lambda node, data: {}
    """What stands in the report beside the data."""


def collectors(hypervisors: Sequence[str]) -> list[Collector]:
    """All of a node with these hypervisors, in the order in which they are listed."""
    return [
        Collector(cpu_load.NAME, cpu_load.CATEGORY, PERFORMANCE, _cpu_load),
        Collector(diskstats.NAME, diskstats.CATEGORY, PERFORMANCE, _diskstats),
        Collector(drbd.NAME, drbd.CATEGORY, STATUS, _drbd),
        *(_guests_of(hypervisor) for hypervisor in hypervisors),
        Collector(cgroups.NAME, None, PERFORMANCE, _guest_groups),
        Collector("inst-cpu-load", None, PERFORMANCE, _guest_load),
        Collector("kvm-inst-rss", None, PERFORMANCE, _guest_memory),
        Collector(lv.NAME, lv.CATEGORY, PERFORMANCE, _volumes),
        Collector(storage.NAME, storage.CATEGORY, PERFORMANCE, _storage),
        Collector(diagnose.NAME, diagnose.CATEGORY, STATUS, _diagnose, paced=True, beside=_signature),
    ]


async def _cpu_load(node: Node) -> Any:
    return cpu_load.loads(node.busy.growth())


async def _diskstats(node: Node) -> Any:
    return diskstats.read(_text(diskstats.PLACE))


async def _drbd(node: Node) -> Any:
    try:
        text = _text(drbd.PLACE)
    except FileNotFoundError:
        return {"status": {"code": OK, "message": "DRBD is not loaded"}, "versionInfo": {}, "deviceInfos": []}
    return drbd.read(text, (await node.cluster.owners()).minors)


def _guests_of(hypervisor: str) -> Collector:
    async def collect(node: Node) -> Any:
        known = await node.cluster.instances()
        if known is not None and len(node.hypervisors) > 1:
            others = {
                guest.name for other in node.hypervisors if other != hypervisor for guest in await node.seen_by(other)
            }
            known = [each for each in known if each.name not in others]
        return instances.states(await node.seen_by(hypervisor), known, time.time(), await node.told_by(hypervisor))

    return Collector(instances.name_of(hypervisor), instances.CATEGORY, STATUS, collect, hypervisor=hypervisor)


async def _guest_groups(node: Node) -> Any:
    return cgroups.read(await node.guests())


async def _guest_load(node: Node) -> Any:
    return node.guests_busy.growth()


async def _guest_memory(node: Node) -> Any:
    return {guest.name: guest.resident_bytes for guest in await node.guests()}


async def _volumes(node: Node) -> Any:
    text = await node.looks.volumes()
    return lv.read(text, (await node.cluster.owners()).volumes) if text.strip() else []


async def _storage(node: Node) -> Any:
    return await node.looks.storage()


async def _diagnose(node: Node) -> Any:
    name = node.cluster.settings.diagnose_command
    if not name:
        return diagnose.well()
    told = await node.looks.diagnosed(name)
    node.note_refusal(told.fault)
    return told.original


def _signature(node: Node, data: Any) -> Mapping[str, Any]:
    return {"signed": diagnose.signed(data, node.name, node.key())} if isinstance(data, dict) else {}


def failed(kind: int, reason: str) -> dict[str, Any]:
    """The data of a report that could not be made."""
    if kind == STATUS:
        return {"error": reason, "status": {"code": NEEDS_A_PERSON, "message": reason}}
    return {"error": reason}


def _text(place: str) -> str:
    with open(place, encoding="utf-8", errors="replace") as file:
        return file.read()
