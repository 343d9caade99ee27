# SPDX-License-Identifier: BSD-2-Clause
"""What verification finds about the kernel modules that keep copies of disks equal (protocols, section 12)."""

from collections.abc import Iterator, Sequence
from functools import cached_property

from ganeti.master.disk_numbers import minors_by_node
from ganeti.master.verify.findings import Finding
from ganeti.master.verify.nodes import NodeReport
from ganeti.model.objects import Disk, Instance
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView


def templates(view: ConfigView, catalogue: Catalogue) -> list[str]:
    """The enabled templates that the kernel may replicate."""
    enabled = [catalogue.templates.get(name) for name in view.cluster.enabled_disk_templates]
    return [traits.name for traits in enabled if traits is not None and traits.has_secondary and traits.uses_node_disk]


class Minors:
    """What disks have which minors, and whose the disks are: gone through once, however many nodes are looked at."""

    def __init__(self, view: ConfigView) -> None:
        self.view = view

    @cached_property
    def by_node(self) -> dict[str, dict[int, Disk]]:
        return minors_by_node(self.view)

    @cached_property
    def owners(self) -> dict[str, Instance]:
        disks = {disk.uuid for minors in self.by_node.values() for disk in minors.values()}
        return {
            uuid: instance for instance in self.view.stream("instances") for uuid in instance.disks if uuid in disks
        }


def of_node(known: Minors, report: NodeReport) -> Iterator[Finding]:
    """Its helper is the cluster's; the minors in use are those of disks that are in use here."""
    name, wanted = report.node.name, known.view.cluster.drbd_usermode_helper
    for part in (report.found.replication or {}).values():
        if (found := part.found) is None:
            yield Finding("ENODEDRBD", name, f"can't check the mirrors of volumes: {part.error}")
            continue
        if found.helper is None:
            yield Finding("ENODEDRBDHELPER", name, "no drbd usermode helper set")
        elif wanted and found.helper != wanted:
            yield Finding("ENODEDRBDHELPER", name, f"wrong drbd usermode helper: {found.helper}")
        yield from _minors(name, known.by_node.get(report.node.uuid, {}), known.owners, found.minors)


def _minors(node: str, known: dict[int, Disk], owners: dict[str, Instance], used: Sequence[int]) -> Iterator[Finding]:
    for minor in sorted(set(used) - set(known)):
        yield Finding("ENODEDRBD", node, f"unallocated drbd minor {minor} is in use")
    for minor, disk in sorted(known.items()):
        instance = owners.get(disk.uuid)
        if instance is not None and instance.disks_active and minor not in used:
            what = f"drbd minor {minor} of {disk.iv_name} of instance {instance.name} is not active"
            yield Finding("ENODEDRBD", node, what)


def versions(reports: Sequence[NodeReport]) -> Iterator[Finding]:
    """Nodes of a group need the same version: a device of one does not speak to that of another."""
    found: dict[str, list[str]] = {}
    for report in reports:
        for part in (report.found.replication or {}).values():
            if part.found is not None:
                found.setdefault(part.found.version, []).append(report.node.name)
    if len(found) > 1:
        for version, names in sorted(found.items()):
            for name in sorted(names):
                yield Finding("ENODEDRBDVERSION", name, f"DRBD version mismatch: {version}")
