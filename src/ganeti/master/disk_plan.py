# SPDX-License-Identifier: BSD-2-Clause
"""Which nodes hold which of an instance's disks, and in which order they make, open, close and remove them.

A template's traits say how many nodes keep a copy. The primary node uses all disks; a secondary node keeps a copy of
those that are mirrored there. Copies are made and opened on the secondaries first, so that what the primary writes has
somewhere to go, and closed on the primary first. A secondary that is offline is left out of opening and closing.
"""

from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from ganeti.master.instance_spec import bare
from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_calls.disks import (
    BlockdevAdopt,
    BlockdevCreate,
    BlockdevGrow,
    BlockdevRemove,
    BlockdevRename,
    BlockdevUngrow,
)
from ganeti.model.node_calls.instances import InstanceDisksAssemble, InstanceDisksRemove, InstanceDisksShutdown
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import UndoNodeCall


@dataclass(frozen=True)
class Side:
    """One node, and the instance with the disks that this node holds."""

    node_uuid: str
    node_name: str
    spec: InstanceSpec
    offline: bool = False


@dataclass(frozen=True)
class DiskStep:
    """One node call, with what takes it back."""

    side: Side
    request: NodeRequest[Any]
    undo: UndoNodeCall | None = None


@dataclass(frozen=True)
class DiskPlan:
    """The nodes of one instance's disks."""

    primary: Side
    secondaries: tuple[Side, ...] = ()
    opened_by_role: bool = False
    """Whether the primary is told when another node writes too."""

    @property
    def present(self) -> list[Side]:
        return [side for side in self.secondaries if not side.offline]

    @property
    def absent(self) -> list[Side]:
        """Secondaries that are offline: their copies fall behind."""
        return [side for side in self.secondaries if side.offline]

    def create(self, disk: DiskSpec) -> list[DiskStep]:
        """Make *disk* on each node that holds a copy; the undo removes what is there of it."""
        what = f"remove disk {disk.index} of {self.primary.spec.name} from"
        return [
            DiskStep(
                side,
                BlockdevCreate(disk=disk),
                _undo(f"{what} {side.node_name}", side, BlockdevRemove(disk=disk)),
            )
            for side in (*self.secondaries, self.primary)
            if disk in side.spec.disks
        ]

    def adopt(self, disk: DiskSpec, source: list[Any]) -> list[DiskStep]:
        """Let a volume of the primary node become *disk*; the undo gives it its own name *source* back."""
        undo = _undo(
            f"give disk {disk.index} of {self.primary.spec.name} its own name {source[-1]} back",
            self.primary,
            BlockdevRename(disk=disk, logical_id=source),
        )
        return [DiskStep(self.primary, BlockdevAdopt(disk=disk, source=source), undo)]

    def grow(self, disk: DiskSpec, amount_mib: int, *, in_use: bool) -> list[DiskStep]:
        """Enlarge *disk* on each node that holds a copy; *in_use* says that the guest has it open.

        A secondary's copy can be made smaller again as long as the primary's has not grown.
        """
        return [
            DiskStep(
                side,
                BlockdevGrow(disk=disk, amount_mib=amount_mib, in_use=in_use and side is self.primary),
                _undo(f"give back space on {side.node_name}", side, BlockdevUngrow(disk=disk))
                if side is not self.primary
                else None,
            )
            for side in (*self.secondaries, self.primary)
            if disk in side.spec.disks
        ]

    def open(self) -> list[DiskStep]:
        """Let the instance use its disks on the primary node; the undo closes them."""
        use = _use(self.primary)
        sentence = f"close the disks of {self.primary.spec.name}"
        return [
            *(replace(_follow(side), undo=_close(f"{sentence} on {side.node_name}", side)) for side in self.present),
            replace(use, undo=_close(sentence, self.primary)),
        ]

    def reopen(self) -> list[UndoNodeCall]:
        """The way back from disks that are closed: undo records, of which the last is carried out first."""
        return [
            _as_undo(f"open the disks of {step.side.spec.name} on {step.side.node_name}", step)
            for step in reversed(self.open())
        ]

    def close(self) -> list[DiskStep]:
        return [DiskStep(side, InstanceDisksShutdown(instance=side.spec)) for side in (self.primary, *self.present)]

    def admit(self, node_uuid: str, node_name: str) -> list[DiskStep]:
        """Let another node use the disks beside the primary, for a migration; the undo ends that."""
        spec = self.primary.spec
        target = next((side for side in self.secondaries if side.node_uuid == node_uuid), None)
        if target is None:
            target = Side(node_uuid, node_name, spec)
            undo = _close(f"close the disks of {spec.name} on {node_name}", target)
            admitted = [replace(_use(target, for_migration=True), undo=undo)]
            if self.opened_by_role:
                admitted.insert(0, replace(_use(self.primary, for_migration=True), undo=self._alone()))
            return admitted
        alone = self._alone()
        follow = _as_undo(f"let the disks of {spec.name} on {node_name} follow again", _follow(target))
        return [
            replace(_use(self.primary, for_migration=True), undo=alone),
            replace(_use(target, for_migration=True), undo=follow),
        ]

    def _alone(self) -> UndoNodeCall:
        sentence = f"let {self.primary.node_name} alone write the disks of {self.primary.spec.name}"
        return _as_undo(sentence, _use(self.primary))

    def remove(self) -> list[DiskStep]:
        """Remove all disks. There is no way back: `completion` is recorded before the first step."""
        return [DiskStep(side, InstanceDisksRemove(instance=side.spec)) for side in (*self.secondaries, self.primary)]


def disk_plan(view: ConfigView, catalogue: Catalogue, spec: InstanceSpec) -> DiskPlan:
    """Plan for *spec*, whose primary node may be another than the configuration has by now."""
    copies: dict[str, list[DiskSpec]] = {}
    for disk in spec.disks:
        if catalogue.template(disk.template).node_count > 1:
            for uuid in disk.holders or view.disk(disk.uuid).nodes:
                copies.setdefault(uuid, []).append(disk)
    copies.pop(spec.primary_node_uuid, None)
    nodes = [(view.node(uuid), disks) for uuid, disks in copies.items()]
    return DiskPlan(
        Side(spec.primary_node_uuid, spec.primary_node, spec),
        tuple(
            Side(node.uuid, node.name, structs.replace(bare(spec), disks=disks), node.offline) for node, disks in nodes
        ),
        any(catalogue.template(disk.template).opened_by_role for disk in spec.disks),
    )


def completion(steps: list[DiskStep], sentence: str, change: Change, then: UndoNodeCall | None = None) -> UndoNodeCall:
    """The record that carries out all *steps*, which say when they are complete, makes *change*, and asks *then*."""
    record: UndoNodeCall | None = None
    for step in reversed(steps):
        undo = _as_undo(sentence, step)
        record = replace(undo, settled_change=change if record is None else None, settled_call=record or then)
    assert record is not None
    return record


def _use(side: Side, *, for_migration: bool = False) -> DiskStep:
    return DiskStep(side, InstanceDisksAssemble(instance=side.spec, for_migration=for_migration))


def _follow(side: Side) -> DiskStep:
    return DiskStep(side, InstanceDisksAssemble(instance=side.spec, as_primary=False))


def _close(sentence: str, side: Side) -> UndoNodeCall:
    return _undo(sentence, side, InstanceDisksShutdown(instance=bare(side.spec)))


def _as_undo(sentence: str, step: DiskStep) -> UndoNodeCall:
    return _undo(sentence, step.side, structs.replace(step.request, instance=bare(step.side.spec)))


def _undo(sentence: str, side: Side, request: NodeRequest[Any]) -> UndoNodeCall:
    return UndoNodeCall.of(sentence, side.node_uuid, request)
