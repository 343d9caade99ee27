# SPDX-License-Identifier: BSD-2-Clause
"""Asking the nodes for live fields: all nodes concerned at once, and none for long."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol

import msgspec

from ganeti.base.errors import GanetiError, NodeTimeoutError, NodeUnreachableError
from ganeti.master.instance_spec import instance_spec
from ganeti.master.query.fields import Ask, Field, QueryWorld
from ganeti.master.query.instance_rows import InstanceRow, LiveInstance
from ganeti.master.query.node_rows import NodeRow
from ganeti.master.query.running import Collect
from ganeti.model import inheritance
from ganeti.model.copies import Copies
from ganeti.model.node_calls import Answer, NodeRequest
from ganeti.model.node_calls.disks import BlockdevFindEach
from ganeti.model.node_calls.instances import AllInstancesInfo, FoundInstance, InstanceConsoleInfo
from ganeti.model.node_calls.node import NodeInfo
from ganeti.model.node_calls.storage import StorageUnit
from ganeti.model.node_requests import DiskSpec
from ganeti.model.objects import Cluster
from ganeti.ports.nodes import NodeAnswer, NodesPort, ask, ask_many

NODE_ANSWER_S = 5.0
"""A node that has not answered by then is shown as having no data."""
SILENT_ANSWER_S = 1.0
"""What a node gets that did not answer the last time: people wait for a list once, not each time."""


_AT_ONCE = 1000
"""Of so many rows something is noted before others have a turn."""

AskCopies = Callable[[], Awaitable[Copies]]
"""Asks WConfD; raises `GanetiError`."""


class Mark(NamedTuple):
    """What had happened to reports and live answers, and when, as nodes began to be asked."""

    reports: int
    live: int
    at_s: float


class Listener(Protocol):
    """Who wants to know what nodes told queries, and may know it already: the state cache (S1.42, S1.45, S1.50)."""

    async def known(self, request: NodeRequest[Answer], nodes: Sequence[str]) -> Mapping[str, Answer]:
        """What those of the *nodes* would answer that need not be asked again, by uuid."""

    def begin(self) -> Mark:
        """To be called before nodes are asked."""

    def whole(self, answers: Sequence[NodeAnswer], request: NodeInfo, begun: Mark, usable: frozenset[str]) -> None:
        """Answers with guests; instances may be placed on the nodes that are *usable*."""

    def guests(self, answers: Sequence[NodeAnswer], request: AllInstancesInfo, begun: Mark) -> None: ...


class NodeAsker:
    """Asks many nodes at once, and remembers which of them were silent.

    Who begins to ask knows of none; *copies* tells which candidates WConfD has not heard of. So after a fail-over
    nobody waits for the machine whose plug was pulled.
    """

    def __init__(self, nodes: NodesPort, copies: AskCopies | None = None) -> None:
        self.nodes = nodes
        self._copies = copies
        self._doubted: set[str] = set()
        self.silent: set[str] = set()
        self.observers: list[Callable[[str, bool], None]] = []
        """Called with a node's uuid and whether it answers, when that has changed."""

    async def ask(self, uuids: Sequence[str], request: NodeRequest[Any]) -> list[NodeAnswer]:
        """Answers in the order asked."""
        await self._begin()
        ready = [uuid for uuid in uuids if uuid not in self.silent and uuid not in self._doubted]
        silent = [uuid for uuid in uuids if uuid in self.silent or uuid in self._doubted]
        told = await asyncio.gather(
            ask_many(self.nodes, ready, request, deadline_s=NODE_ANSWER_S),
            ask_many(self.nodes, silent, request, deadline_s=SILENT_ANSWER_S),
        )
        answers = {answer.node_uuid: answer for answer in (*told[0], *told[1])}
        for uuid, answer in answers.items():
            self._doubted.discard(uuid)
            answered = not isinstance(answer.error, NodeUnreachableError | NodeTimeoutError)
            if answered == (uuid in self.silent):
                (self.silent.discard if answered else self.silent.add)(uuid)
                for observer in self.observers:
                    observer(uuid, answered)
        return [answers[uuid] for uuid in uuids]

    async def _begin(self) -> None:
        copies, self._copies = self._copies, None
        if copies is not None:
            with contextlib.suppress(GanetiError):
                told = await copies()
                self._doubted = {uuid for uuid, copy in told.nodes.items() if not copy.in_sync}


async def _at_once() -> None:
    return


@dataclass(frozen=True)
class Inquiry:
    """What one query asks for live fields with."""

    world: QueryWorld
    nodes: NodeAsker
    copies: AskCopies
    listener: Listener | None = None
    """Hears the answers."""
    turn: Callable[[], Awaitable[None]] = _at_once
    """Waits while others have their turn, amid the work for very many rows."""


def collector(inquiry: Inquiry) -> Collect:
    """What fills the live part of rows: each thing the fields need is asked once."""

    async def collect(rows: Sequence[Any], fields: Sequence[Field]) -> None:
        asks: dict[Ask, None] = dict.fromkeys(each for field in fields for each in field.live)
        for each in asks:
            await each(rows, inquiry)

    return collect


def hypervisor_queries(cluster: Cluster, world: QueryWorld) -> dict[str, dict[str, Any]]:
    """Name and filled cluster parameters of each enabled hypervisor that is installed."""
    known = world.catalogue.hypervisors
    return {
        name: inheritance.cluster_hv(cluster, name, "", known[name].parameters)
        for name in cluster.enabled_hypervisors
        if name in known
    }


def storage_units(cluster: Cluster, world: QueryWorld) -> list[StorageUnit]:
    """Each enabled template that lies somewhere the cluster has a setting for; the first is the one that is shown."""
    counted = inheritance.some_exclusive_storage(world.view)
    return [
        StorageUnit(template=name, setting=setting, spindles=counted and traits.uses_node_disk)
        for name in cluster.enabled_disk_templates
        if (traits := world.catalogue.templates.get(name)) is not None
        and traits.setting
        and (setting := getattr(cluster, traits.setting))
    ]


async def ask_nodes(rows: Sequence[NodeRow], inquiry: Inquiry) -> None:
    """Ask for all there is to know, which is one call, so that what is learned can be placed by (S1.42)."""
    world, nodes, listener = inquiry.world, inquiry.nodes, inquiry.listener
    cluster = world.view.cluster
    asked = {row.node.uuid: row for row in rows if not row.node.offline}
    request = NodeInfo(
        storage=storage_units(cluster, world),
        hypervisors=hypervisor_queries(cluster, world),
        guests=listener is not None,
    )
    known = await listener.known(request, list(asked)) if listener is not None else {}
    missing = [uuid for uuid in asked if uuid not in known]
    begun = listener.begin() if listener is not None else None
    answers = await nodes.ask(missing, request) if missing else []
    if listener is not None and begun is not None:
        usable = frozenset(uuid for uuid, row in asked.items() if row.node.usable_for_instances)
        listener.whole(answers, request, begun, usable)
    told = {answer.node_uuid: answer.value if answer.error is None else None for answer in answers}
    for uuid, row in asked.items():
        row.live = known[uuid] if uuid in known else told[uuid]


async def ask_copies(rows: Sequence[NodeRow], inquiry: Inquiry) -> None:
    """One question for all rows; where it has no answer, the rows have none."""
    try:
        answer = await inquiry.copies()
    except GanetiError:
        return
    for row in rows:
        row.copies = answer


async def ask_for_guests(rows: Sequence[InstanceRow], inquiry: Inquiry) -> None:
    """The nodes of the instances are asked first. A guest may run where it should not: where one was not found, every
    other node is asked, too.
    """
    world = inquiry.world
    online = [node.uuid for node in world.view.nodes() if not node.offline and node.vm_capable] if rows else []
    request = AllInstancesInfo(hypervisors=hypervisor_queries(world.view.cluster, world))
    own = (
        {uuid for row in rows for uuid in world.view.instance_nodes(row.instance)} if len(rows) < len(online) else None
    )
    likely = online if own is None else [uuid for uuid in online if uuid in own]
    guests = await _guests_by_node(likely, request, inquiry.nodes, inquiry.listener)
    await _set_live(rows, FoundGuests(guests), inquiry)
    if len(likely) < len(online) and any(row.live is None or row.live.info is None for row in rows):
        others = [uuid for uuid in online if uuid not in frozenset(likely)]
        guests |= await _guests_by_node(others, request, inquiry.nodes, inquiry.listener)
        await _set_live(rows, FoundGuests({uuid: guests[uuid] for uuid in online if uuid in guests}), inquiry)


async def _set_live(rows: Sequence[InstanceRow], found: "FoundGuests", inquiry: Inquiry) -> None:
    for number, row in enumerate(rows, 1):
        row.live = found.of(row)
        if number % _AT_ONCE == 0:
            await inquiry.turn()


class FoundGuests:
    """What nodes said of their guests, by the name of these."""

    def __init__(self, guests: Mapping[str, Sequence[FoundInstance]]) -> None:
        """*guests* by the uuid of the nodes that answered."""
        self._answered = guests.keys()
        self._places: dict[str, dict[str, FoundInstance]] = {}
        for uuid, running in guests.items():
            for guest in running:
                self._places.setdefault(guest.name, {})[uuid] = guest

    def of(self, row: InstanceRow) -> LiveInstance:
        places = self._places.get(row.instance.name, {})
        primary = row.instance.primary_node
        where = primary if primary in places else next(iter(places), None)
        info = places[where] if where is not None else None
        return LiveInstance(primary in self._answered, where, info)


async def _guests_by_node(
    online: Sequence[str], request: AllInstancesInfo, nodes: NodeAsker, listener: Listener | None
) -> dict[str, list[FoundInstance]]:
    """The guests of the nodes that answered, in the order of *online*."""
    if listener is None:
        known: Mapping[str, list[FoundInstance]] = {}
    else:
        known, begun = await listener.known(request, online), listener.begin()
    missing = [uuid for uuid in online if uuid not in known]
    answers = await nodes.ask(missing, request) if missing else []
    if listener is not None:
        listener.guests(answers, request, begun)
    told = {answer.node_uuid: answer.value or [] for answer in answers if answer.error is None} | dict(known)
    return {uuid: told[uuid] for uuid in online if uuid in told}


async def ask_for_consoles(rows: Sequence[InstanceRow], inquiry: Inquiry) -> None:
    """Ask for the consoles of the guests that were found running."""
    by_node: dict[str, list[InstanceRow]] = {}
    for row in rows:
        if row.running is True:
            by_node.setdefault(row.instance.primary_node, []).append(row)
    await asyncio.gather(*(_ask_for_consoles_of(each, inquiry) for each in by_node.values()))


async def _ask_for_consoles_of(rows: Sequence[InstanceRow], inquiry: Inquiry) -> None:
    """Of one node, which gets one call after the other."""
    world = inquiry.world
    for row in rows:
        request = InstanceConsoleInfo(instance=instance_spec(world.view, world.catalogue, row.instance))
        try:
            console = await ask(inquiry.nodes.nodes, row.instance.primary_node, request, deadline_s=NODE_ANSWER_S)
        except (NodeUnreachableError, NodeTimeoutError):
            return
        except GanetiError:
            continue
        row.console = msgspec.to_builtins(console)


async def ask_for_mirrors(rows: Sequence[InstanceRow], inquiry: Inquiry) -> None:
    """Ask the primary nodes how far the copies of open disks are that two nodes have: each node once."""
    by_node: dict[str, list[InstanceRow]] = {}
    for row in rows:
        if row.secondaries and row.instance.disks_active and row.primary is not None and not row.primary.offline:
            by_node.setdefault(row.primary.uuid, []).append(row)
    asked = []
    for uuid, each in by_node.items():
        disks = [instance_spec(inquiry.world.view, inquiry.world.catalogue, row.instance).disks for row in each]
        asked.append((uuid, each, disks))
        await inquiry.turn()
    await asyncio.gather(*(_ask_for_mirrors_of(*each, inquiry) for each in asked))


async def _ask_for_mirrors_of(
    uuid: str, rows: Sequence[InstanceRow], disks: Sequence[Sequence[DiskSpec]], inquiry: Inquiry
) -> None:
    request = BlockdevFindEach(disks=[disk for each in disks for disk in each])
    try:
        told = await ask(inquiry.nodes.nodes, uuid, request, deadline_s=NODE_ANSWER_S)
    except GanetiError:
        return
    answer = iter(told)
    for row, each in zip(rows, disks, strict=True):
        found = list(islice(answer, len(each)))
        if len(found) == len(each) and not any(one.fault for one in found):
            row.mirrors = [one.status for one in found]
