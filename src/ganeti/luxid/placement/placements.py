# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's side of placement: nodes asked for their room, the worker for a place, WConfD for the reservation (D13).

Why nothing is overbooked, with neither node locks nor an order among jobs:

1. One question at a time is answered: reservations are read, the worker chooses, the choice is reserved. Where somebody
   else reserved room on a chosen node meanwhile (a job that names its nodes, an allocator that is a program),
   WConfD refuses, and the question is asked anew.
2. Reservations are read together with a position, and the worker answers over that position or a later one. A
   reservation ends with the commit that shows its instance, so room is counted by one of the two at every moment.
3. A report of a node counts only if it was asked for after the last commit that changed what is on the node's disks.

Reports are fed by queries, too, and made void besides by what jobs gave up that they had locked for themselves.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ganeti.base.errors import TEMPORARILY_INSUFFICIENT, GanetiError, PrerequisiteError
from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.reservation_calls import list_reservations, reserve_room
from ganeti.calls.serving import serves
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.luxid.placement.worker import INPUT, Answer, PlacementWorker, Question
from ganeti.luxid.queries.state_cache import StateCache
from ganeti.master.allocator_input import reservations_of
from ganeti.master.cache.node_reports import FRESH_S, report_of, silent
from ganeti.master.locks.owners import Owner
from ganeti.master.query.collecting import NodeAsker, hypervisor_queries, storage_units
from ganeti.master.query.fields import QueryWorld
from ganeti.model.configuration import Configuration
from ganeti.model.node_calls.instances import AllInstancesInfo
from ganeti.model.node_calls.node import NodeInfo
from ganeti.model.objects import Node
from ganeti.model.placement_requests import (
    Allocate,
    AllocateSecondary,
    BalanceStep,
    CountCapacity,
    EmptyNodes,
    MultiAllocate,
    PlacementRequest,
    Relocate,
    names_of,
)
from ganeti.model.reservations import Reservation, Reservations
from ganeti.model.templates import traits_of
from ganeti.model.traits import Catalogue
from ganeti.ports.luxid import AllocatorInput, AnswerPlacement, DescribeForAllocator, Placement
from ganeti.system.event_loop import Background

RECENT_S = 2.0
"""Before it is said that nothing fits, the nodes are asked again unless their reports are as young as this."""
_ROUNDS = 4
"""How often nodes are asked again because commits changed them meanwhile, before others have to wait for it."""
_TRIES = 20
"""How often somebody may be quicker; each time one of those who ask gets what it wants."""


class Placements:
    """Answers allocation requests over the cluster as it is, one after the other."""

    def __init__(
        self,
        follower: ConfigFollower,
        wconfd: WConfdClient,
        asker: NodeAsker,
        catalogue: Catalogue,
        wconfd_socket: str,
        now_s: Callable[[], float] = time.monotonic,
        cache: StateCache | None = None,
    ) -> None:
        """*cache* is the one that queries feed, too; it is followed and closed from here, and *now_s* is then its."""
        self._follower = follower
        self._wconfd = wconfd
        self._asker = asker
        self._catalogue = catalogue
        self.cache = StateCache(now_s) if cache is None else cache
        self._now_s = self.cache.now_s
        self._reports = self.cache.reports
        self._wconfd_socket = wconfd_socket
        self._worker = PlacementWorker(wconfd_socket, self._reports)
        self._turn = asyncio.Lock()
        self._counting = asyncio.Lock()
        self._background = Background()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self.cache.follow(follower, wconfd, wconfd_socket)

    async def close(self) -> None:
        await self._background.cancel()
        await self.cache.close()
        self._worker.close()

    @serves(AnswerPlacement)
    async def answer(self, asked: AnswerPlacement) -> Placement:
        owner = None if asked.client is None else Owner.from_wire(asked.client)
        return msgspec.convert(await self.place(asked.request, owner, why=asked.why), Placement)

    async def place(self, request: PlacementRequest, owner: Owner | None, *, why: bool = False) -> dict[str, Any]:
        """Give the iallocator response, and in ``reasons`` a line for each node where nothing fits, or with *why*.

        What is chosen is reserved for *owner*, if there is one. Raises `GanetiError`.
        """
        if isinstance(request, CountCapacity):
            return await self._count(request)
        if isinstance(request, BalanceStep):
            request = msgspec.structs.replace(request, stay=[*request.stay, *self._never_live()])
        answer = await self._place(request, owner, FRESH_S, why)
        if not answer["success"] and self._stale(request, RECENT_S):
            answer = await self._place(request, owner, RECENT_S, why)
        return answer

    def _never_live(self) -> list[str]:
        """Instances whose guests would be stopped to be moved, which nobody does to make a cluster more even."""
        bound = {name for name, traits in self._catalogue.hypervisors.items() if not traits.can_migrate}
        return [each.name for each in self._view.instances() if each.hypervisor in bound and each.admin_state == "up"]

    @serves(DescribeForAllocator)
    async def describe(self, asked: DescribeForAllocator) -> AllocatorInput:
        async with self._settled(asked.request, FRESH_S) as state:
            answer = await self._ask(asked.request, state.reservations, state.reservations.held, want=INPUT)
            return AllocatorInput(state.reservations.serial, answer.input)

    async def renew_reports(self, groups: Sequence[str], fresh_s: float | None) -> None:
        """Have the nodes of these groups report, unless their reports are as young; with None, whatever they said."""
        request = CountCapacity(node_groups=list(groups), default_template="")
        await self._refresh(
            [node.uuid for node in self._concerned(request)] if fresh_s is None else self._stale(request, fresh_s)
        )

    async def _place(self, request: PlacementRequest, owner: Owner | None, fresh_s: float, why: bool) -> dict[str, Any]:
        for _ in range(_TRIES):
            async with self._settled(request, fresh_s) as state:
                held = state.reservations.held
                if owner is not None:
                    held = [(name, each) for name, each in held if not _is_own(name, each, owner, request)]
                answer = await self._ask(request, state.reservations, held, why=why)
                response = {**(answer.response or {}), "reasons": answer.reasons}
                if owner is None or not response.get("success"):
                    return response
                chosen = reservations_of(self._view, self._catalogue, request, response["result"])
                if not chosen or await reserve_room(self._wconfd, owner, chosen, state.reservations.serial) is None:
                    return response
        raise PrerequisiteError(
            "Others reserved room on the chosen nodes again and again: try again later", TEMPORARILY_INSUFFICIENT
        )

    async def _count(self, request: PlacementRequest) -> dict[str, Any]:
        """Capacity is counted by a worker of its own that ends with it: that takes long, and no placement must wait."""
        async with self._counting:
            async with self._settled(request, FRESH_S) as state:
                reservations = state.reservations
            worker = PlacementWorker(self._wconfd_socket, self._reports)
            try:
                answer = await self._ask(request, reservations, reservations.held, worker)
            finally:
                worker.close()
        return {**(answer.response or {}), "reasons": answer.reasons}

    @property
    def _view(self) -> Configuration:
        return self._follower.configuration

    async def _ask(
        self,
        request: PlacementRequest,
        reservations: Reservations,
        held: Sequence[tuple[int | str, Reservation]],
        worker: PlacementWorker | None = None,
        **how: Any,
    ) -> Answer:
        return await (worker or self._worker).ask(
            Question(
                request=request,
                template=self._template(request),
                position=reservations.position,
                reservations=[reservation for _, reservation in held],
                **how,
            )
        )

    # What nodes report

    def _settled(self, request: PlacementRequest, fresh_s: float) -> "_Settled":
        return _Settled(self, request, fresh_s)

    async def begin(self, request: PlacementRequest, fresh_s: float) -> Reservations:
        """Take the turn, with reports that count and reservations our copy of the configuration goes with."""
        for rounds_left in range(_ROUNDS, -1, -1):
            await self._refresh(self._stale(request, fresh_s))
            await self._turn.acquire()
            try:
                reservations = await self._reservations()
                stale = self._stale(request, fresh_s)
                if stale and not rounds_left:
                    await self._refresh(stale)
                    reservations = await self._reservations()
                if not stale or not rounds_left:
                    return reservations
            except BaseException:
                self._turn.release()
                raise
            self._turn.release()
        raise AssertionError

    def end(self) -> None:
        self._turn.release()

    async def _reservations(self) -> Reservations:
        reservations = await list_reservations(self._wconfd)
        await self._follower.follow(reservations.position)
        return reservations

    def _stale(self, request: PlacementRequest, fresh_s: float) -> list[str]:
        """Nodes to ask before something may be put on them, and those of whom nothing was heard for an hour."""
        concerned, now_s = dict.fromkeys(node.uuid for node in self._concerned(request)), self._now_s()
        others = [node.uuid for node in self._view.nodes() if node.usable_for_instances and node.uuid not in concerned]
        expired = self._reports.expired(others, now_s)
        return [*self._reports.stale(concerned, now_s, fresh_s), *expired]

    def _concerned(self, request: PlacementRequest) -> list[Node]:
        """The nodes something may be put on."""
        view = self._view
        usable = [node for node in view.nodes() if node.usable_for_instances]
        if isinstance(request, CountCapacity):
            counted = request.node_groups
            return [node for node in usable if not counted or node.group in counted]
        group = _group_of(view, request)
        if group is None:
            return usable
        return [node for node in usable if node.group == group]

    async def _refresh(self, uuids: Sequence[str]) -> None:
        """Ask nodes, all at once; those that are being asked already are waited for."""
        missing = [uuid for uuid in uuids if uuid not in self._asking]
        if missing:
            task = self._background.start(self._ask_nodes(missing), "asking nodes for their room")
            for uuid in missing:
                self._asking[uuid] = task
        waited = dict.fromkeys(self._asking[uuid] for uuid in uuids)
        for task in waited:
            await asyncio.shield(task)

    async def _ask_nodes(self, uuids: Sequence[str]) -> None:
        """Guests first: one that starts between the two is then counted twice, and not left out of both."""
        try:
            cluster, world = self._view.cluster, QueryWorld(self._view, self._catalogue)
            hypervisors = hypervisor_queries(cluster, world)
            units = storage_units(cluster, world)
            begun, asked_at_s = self._reports.begin(), self._now_s()
            guests = await self._asker.ask(uuids, AllInstancesInfo(hypervisors=hypervisors))
            answered = [answer.node_uuid for answer in guests if answer.error is None]
            first = dict(list(hypervisors.items())[:1])
            infos = await self._asker.ask(answered, NodeInfo(storage=units, hypervisors=first))
            by_uuid = {answer.node_uuid: answer for answer in infos}
            templates = [unit.template for unit in units]
            for answer in guests:
                info = by_uuid.get(answer.node_uuid, answer)
                if info.error is not None:
                    report = silent(info.error)
                else:
                    report = report_of(info.value, answer.value, templates)
                self._reports.take(answer.node_uuid, report, begun, asked_at_s)
        finally:
            for uuid in uuids:
                self._asking.pop(uuid, None)

    def _template(self, request: PlacementRequest) -> str:
        """The disk template whose free space counts for the request."""
        return _with_space(self._view, self._asked_template(request))

    def _asked_template(self, request: PlacementRequest) -> str:
        view = self._view
        if isinstance(request, CountCapacity):
            return request.default_template
        if isinstance(request, EmptyNodes | BalanceStep):
            return _usual_template(view)
        if isinstance(request, AllocateSecondary):
            return request.disk_template
        wanted = request.instances if isinstance(request, MultiAllocate) else [request]
        if wanted and isinstance(wanted[0], Allocate):
            return wanted[0].disk_template
        uuids = [view.uuid_by_name("instances", name) for name in names_of(request)[:1]]
        if uuids and uuids[0] is not None:
            return view.disk_template(view.instance(uuids[0]))
        return next(iter(view.cluster.enabled_disk_templates), "")


class _Settled:
    """The turn of one question; `reservations` are those that count for it."""

    def __init__(self, placements: Placements, request: PlacementRequest, fresh_s: float) -> None:
        self._placements = placements
        self._request = request
        self._fresh_s = fresh_s
        self.reservations: Reservations

    async def __aenter__(self) -> "_Settled":
        self.reservations = await self._placements.begin(self._request, self._fresh_s)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._placements.end()


def _is_own(name: int | str, reservation: Reservation, owner: Owner, request: PlacementRequest) -> bool:
    """What is reserved already for the client and the same instances: it asks again, so that does not count."""
    if name != owner.name:
        return False
    return reservation.instance in names_of(request)


def _with_space(view: Configuration, asked: str) -> str:
    """The template asked about; for one that keeps nothing on nodes, that of the instances which do.

    Their nodes' failures are to be absorbed whatever is placed, and by the free space of no template nothing could be.
    """
    traits = traits_of(asked)
    return asked if traits is None or traits.setting else _usual_template(view)


def _usual_template(view: Configuration) -> str:
    """The template that most instances with disks on their nodes have: they alone need room on the disks of others."""
    used = Counter(view.disk_template(instance) for instance in view.instances())
    known = [(name, traits_of(name)) for name, _ in used.most_common()]
    local = [name for name, own in known if own is not None and (own.uses_node_disk or own.has_secondary)]
    local += [name for name, own in known if own is not None and own.has_disks]
    return next(iter([*local, *used]), next(iter(view.cluster.enabled_disk_templates), ""))


def _group_of(view: Configuration, request: PlacementRequest) -> str | None:
    """The uuid of the one node group a request is about, None for all."""
    try:
        if isinstance(request, Allocate | MultiAllocate) and request.group_name:
            return view.find_group(request.group_name).uuid
        if isinstance(request, Relocate):
            return view.node(view.find_instance(request.name).primary_node).group
    except GanetiError:
        return None  # the allocator has its own words for an unknown name
    return None
