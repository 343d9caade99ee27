# SPDX-License-Identifier: BSD-2-Clause
"""Answers questions of placement over a picture of the cluster that is kept between them. Pure (D13).

What was reserved and is not in the picture yet counts as if its instances were there; it is taken back after each
answer, so the state is built once and then follows what changes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master.cache.cluster_picture import NODE_MEMORY_OPTION, ClusterPicture
from ganeti.master.cache.node_reports import NodeReport
from ganeti.model.configuration import Configuration
from ganeti.model.placement_requests import NodeEvacuate, PlacementRequest
from ganeti.model.reservations import Reservation
from ganeti.model.templates import UNSHARED, traits_of
from ganeti.placement.cluster.picture import Cluster, Disk, Instance
from ganeti.placement.dispatch import answer_over, answer_request
from ganeti.placement.kernel.renewal import Renewal
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.capacity import Capacity
from ganeti.placement.request.terms import BalanceStep, ChangeGroup, Options
from ganeti.placement.request.typed import terms_of
from ganeti.placement.service import response_to

_ELSEWHERE = frozenset({"verbose", "quiet", "print-nodes", "ignore-dynu", NODE_MEMORY_OPTION})
"""Options of hail that say nothing about where something goes, or are read with the nodes."""
_MOST_RESERVED = 512
_RENEWALS = 100_000
"""After so many changes a state is read anew, which frees what tags of instances that are gone have left behind."""


class Placer:
    """One picture, and the state that follows it for each disk template asked about."""

    def __init__(self, picture: ClusterPicture) -> None:
        self._picture = picture
        self._states: dict[str, tuple[ClusterState, Renewal]] = {}
        self._reserved: dict[tuple[Any, ...], Instance] = {}
        """What reservations were made of: many are held for several questions."""
        self._guests: dict[str, tuple[NodeReport, frozenset[str]]] = {}
        """Names of guests in the last report that was looked at, by the uuid of a node."""

    def answer(
        self,
        view: Configuration,
        request: PlacementRequest,
        template: str,
        reservations: Iterable[Reservation],
        *,
        why: bool = True,
    ) -> tuple[dict[str, Any], list[str]]:
        """Give the iallocator response and a line for each node that was not chosen; *why*, also if one was.

        *reservations* are those of others. Raises `RequestError`, or `PrerequisiteError` for an option nobody knows.
        """
        wanted = terms_of(request)
        options = replace(options_of(view.cluster.default_iallocator_params), why=why)
        if isinstance(request, NodeEvacuate) and request.ignore_soft_errors:
            options = replace(options, ignore_soft_errors=True)
        if isinstance(wanted, ChangeGroup):
            options = replace(options, existing_errors_fail=False)
        reserved = [*self._picture.coming(), *reservations]

        def add_reserved(state: ClusterState) -> None:
            for reservation in reserved:
                self._add(state, view, reservation)

        if isinstance(wanted, Capacity):
            from ganeti.placement.capacity.request import answer  # only a worker that was started for it is asked this

            return response_to(wanted, answer(self._picture.cluster(template), wanted, options, add_reserved))
        if isinstance(wanted, BalanceStep) and wanted.load is not None:
            return response_to(
                wanted, answer_request(_with_load(self._picture.cluster(template), wanted.load), wanted, options)
            )
        state = self.state(template)
        mark = state.mark()
        try:
            add_reserved(state)
            return response_to(wanted, answer_over(state, wanted, options))
        finally:
            state.rollback(mark)

    def state(self, template: str) -> ClusterState:
        """The cluster as it is now, with the free space nodes have for disks of *template*."""
        changes = self._picture.changes(template)
        kept = self._states.pop(template, None)
        if kept is None or changes is None or len(kept[0].renewed) > _RENEWALS:
            state = ClusterState(self._picture.cluster(template))
            kept = state, Renewal(state)
        else:
            kept[1].follow(changes.gone, changes.come, changes.nodes)
        self._states[template] = kept
        return kept[0]

    def _add(self, state: ClusterState, view: Configuration, reservation: Reservation) -> None:
        """A node that has left the cluster meanwhile holds nothing."""
        nodes = [view.get("nodes", uuid) for uuid in reservation.nodes[:2]]
        names = [str(getattr(node, "name", "")) for node in nodes if node is not None]
        if len(names) != len(nodes):
            return
        numbers = [*(state.node_number[name] for name in names), NOWHERE]
        state.add_instance(self._instance(reservation, names), *numbers[:2])

    def _instance(self, reservation: Reservation, nodes: list[str]) -> Instance:
        arrived = reservation.instance in self._running(reservation.nodes[0])
        needs = reservation.memory_mib, reservation.disk_mib, reservation.vcpus, reservation.spindle_use
        kind = reservation.spindles, reservation.disk_template, tuple(reservation.tags)
        key = reservation.instance, *needs, *kind, arrived, tuple(nodes)
        if key not in self._reserved:
            if len(self._reserved) >= _MOST_RESERVED:
                self._reserved.clear()
            self._reserved[key] = _as_instance(reservation, arrived, nodes)
        return self._reserved[key]

    def _running(self, node: str) -> frozenset[str]:
        report = self._picture.reports.get(node)
        if report is None:
            return frozenset()
        known = self._guests.get(node)
        if known is None or known[0] is not report:
            known = self._guests[node] = report, frozenset(name for name, _, _ in report.guests)
        return known[1]


def _as_instance(reservation: Reservation, arrived: bool, nodes: list[str]) -> Instance:
    """The memory of a guest that runs already is in the report of its node."""
    traits = traits_of(reservation.disk_template)
    return Instance(
        name=f"{reservation.instance} (reserved)",
        memory_mib=0 if arrived else reservation.memory_mib,
        disk_mib=reservation.disk_mib,
        vcpus=reservation.vcpus,
        template=traits.name if traits is not None else UNSHARED,
        primary=nodes[0],
        secondary=nodes[1] if len(nodes) > 1 else "",
        disks=(Disk(reservation.disk_mib, reservation.spindles),) if traits is None or traits.has_disks else (),
        spindle_use=reservation.spindle_use,
        tags=tuple(reservation.tags),
    )


def _with_load(cluster: Cluster, load: Mapping[str, float]) -> Cluster:
    """The cluster with what processors were measured to do for each instance; of one that nobody measured, nothing."""
    instances = [
        replace(instance, load=(load.get(instance.name, 0.0), *instance.load[1:])) for instance in cluster.instances
    ]
    return replace(cluster, instances=instances)


def options_of(parameters: Mapping[str, Any]) -> Options:
    """The cluster's parameters of the default allocator, which are options of hail (protocols, section 7).

    Raises `PrerequisiteError` for those that make sense for a program only.
    """
    known: dict[str, Any] = {}
    for name, value in parameters.items():
        if name == "ignore-soft-errors":
            known["ignore_soft_errors"] = True
        elif name == "no-capacity-checks":
            known["capacity_checks"] = False
        elif name == "restrict-allocation-to":
            known["restrict_to"] = tuple(str(value).split(","))
        elif name not in _ELSEWHERE:
            raise PrerequisiteError(
                f"The built-in allocator has no option --{name}, which the cluster's allocator parameters name: "
                "take it out with gnt-cluster modify --default-iallocator-params",
                WRONG_INPUT,
            )
    return Options(**known)
