# SPDX-License-Identifier: BSD-2-Clause
"""What verification finds about instances and their disks."""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from ganeti.master import unsuitable_nodes
from ganeti.master.instance_spec import instance_size
from ganeti.master.verify.findings import WARNING, Finding
from ganeti.master.verify.nodes import NodeReport
from ganeti.model import inheritance, ipolicy
from ganeti.model.objects import Disk, Instance, Node, NodeGroup
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.placement.cluster.tags import read_rules

Reports = Mapping[str, NodeReport]
"""By the uuid of the node; offline nodes have none."""

ALIVE = ("running", "paused")


def running_on(reports: Reports) -> dict[str, dict[str, str]]:
    """Uuid of node to name of guest to its state."""
    return {
        uuid: {guest.name: guest.state for guest in report.found.instances or []} for uuid, report in reports.items()
    }


def strange_guests(view: ConfigView, group: NodeGroup, reports: Reports) -> Iterator[Finding]:
    """Guests that no configuration knows, and those of another group's instances, which its nodes cannot see."""
    known = set(view.names("instances"))
    here = {node.uuid for node in view.group_nodes(group.uuid)}
    elsewhere = known - {instance.name for instance in view.primary_instances(*here)}
    for uuid, guests in running_on(reports).items():
        for name in sorted(set(guests) - known):
            yield Finding(
                "ENODEORPHANINSTANCE",
                view.node(uuid).name,
                f"instance {name} runs here, but is not in the configuration",
            )
        for name in sorted(elsewhere & {name for name, state in guests.items() if state in ALIVE}):
            yield Finding("EINSTANCEWRONGNODE", name, f"instance should not run on node {view.node(uuid).name}")


def state(view: ConfigView, instance: Instance, reports: Reports) -> Iterator[Finding]:
    """Does it run where it should, and only there?"""
    guests = running_on(reports)
    primary = view.node(instance.primary_node)
    asked = instance.primary_node in reports and reports[instance.primary_node].answer is not None
    if instance.admin_state == "up" and asked and guests[instance.primary_node].get(instance.name) not in ALIVE:
        yield Finding("EINSTANCEDOWN", instance.name, f"instance not running on its primary node {primary.name}")
    for uuid, found in guests.items():
        if uuid != instance.primary_node and found.get(instance.name) in ALIVE:
            yield Finding(
                "EINSTANCEWRONGNODE", instance.name, f"instance should not run on node {view.node(uuid).name}"
            )
    if instance.admin_state != "up" and guests.get(instance.primary_node, {}).get(instance.name) in ALIVE:
        yield Finding(
            "EINSTANCEDOWN",
            instance.name,
            f"instance runs on {primary.name}, but should be {instance.admin_state}",
            WARNING,
        )


def placement(view: ConfigView, catalogue: Catalogue, instance: Instance) -> Iterator[Finding]:
    """Nodes it is on: online, of one group, fit for instances, as many as the template has.

    Nodes and groups that do not exist are told of the whole configuration; here they are passed over.
    """
    found = [view.get("nodes", uuid) for uuid in view.instance_nodes(instance)]
    nodes = [node for node in found if isinstance(node, Node)]
    offline = [node.name for node in nodes if node.offline]
    if offline and instance.admin_state == "up":
        yield Finding("EINSTANCEBADNODE", instance.name, f"instance lives on offline node(s) {', '.join(offline)}")
    unfit = [node.name for node in nodes if not node.vm_capable]
    if unfit:
        yield Finding(
            "EINSTANCEBADNODE", instance.name, f"instance lives on node(s) not vm_capable: {', '.join(unfit)}"
        )
    found = [view.get("nodegroups", uuid) for uuid in {node.group for node in nodes}]
    groups = {group.name for group in found if isinstance(group, NodeGroup)}
    if len(groups) > 1:
        yield Finding(
            "EINSTANCESPLITGROUPS",
            instance.name,
            f"instance has primary and secondary nodes in different groups: {', '.join(sorted(groups))}",
        )
    if len(nodes) > 2:
        yield Finding(
            "EINSTANCELAYOUT",
            instance.name,
            "instance has multiple secondary nodes: " + ", ".join(node.name for node in nodes[1:]),
            WARNING,
        )
    if instance.hypervisor not in catalogue.hypervisors:
        message = f"its hypervisor {instance.hypervisor} has no driver here"
        yield Finding("EINSTANCEUNSUITABLENODE", instance.name, message)
    elif instance.hypervisor not in view.cluster.enabled_hypervisors:
        yield Finding("EINSTANCEUNSUITABLENODE", instance.name, f"its hypervisor {instance.hypervisor} is not enabled")
    now = unsuitable_nodes.Groups(view)
    for words in unsuitable_nodes.exclusive_storage(now, catalogue, instance):
        yield Finding("EINSTANCEUNSUITABLENODE", instance.name, words)
    for words in unsuitable_nodes.networks(now, instance):
        yield Finding("EINSTANCEUNSUITABLENODE", instance.name, words, WARNING)


def policy(view: ConfigView, group: NodeGroup, instance: Instance) -> Iterator[Finding]:
    disks = view.instance_disks(instance)
    size = instance_size(view, instance, disks, view.disk_template(instance))
    broken = ipolicy.violations(inheritance.group_ipolicy(view.cluster, group), size)
    if broken:
        yield Finding("EINSTANCEPOLICY", instance.name, f"the instance policy is violated: {'; '.join(broken)}")


def disks(view: ConfigView, instance: Instance, reports: Reports) -> Iterator[Finding]:
    """Whether each disk is where it should be, and whole."""
    for index, disk in enumerate(view.instance_disks(instance)):
        for uuid in disk.nodes or [instance.primary_node]:
            faults = (reports[uuid].found.disk_status if uuid in reports else None) or {}
            if disk.uuid not in faults:
                continue
            named = (disk.children[0] if disk.children else disk).logical_id
            name = str(named[-1]) if named else disk.uuid
            node = view.node(uuid).name
            if (fault := faults[disk.uuid]) is None:
                message = f"disk/{index} {name} is missing on node {node}"
                yield Finding("EINSTANCEMISSINGDISK", instance.name, message)
            else:
                yield Finding("EINSTANCEFAULTYDISK", instance.name, f"disk/{index} on node {node}: {fault}")


def _with_children(disks: Sequence[Disk]) -> Iterator[Disk]:
    for disk in disks:
        yield disk
        yield from _with_children([replace(child, nodes=child.nodes or disk.nodes) for child in disk.children])


def orphan_disks(view: ConfigView, catalogue: Catalogue, reports: Reports) -> Iterator[Finding]:
    """Disks that no configuration knows there; those on storage that all nodes share are told once."""
    known, homes = _paths(view)
    reserved = [re.compile(pattern) for pattern in view.cluster.reserved_lvs]
    told: set[str] = set()
    for uuid, report in reports.items():
        for unit, paths in sorted((report.found.disks or {}).items()):
            template, _, setting = unit.partition(" ")
            for path in paths:
                shared = catalogue.template(template).shared
                at_home = shared or uuid in homes.get(path, {uuid})
                if (path in known.get(template, set()) and at_home) or path in told:
                    continue
                if shared:
                    told.add(path)
                name = f"{setting}/{path}" if catalogue.template(template).uses_node_disk else path
                if not any(pattern.fullmatch(name) for pattern in reserved):
                    yield Finding("ENODEORPHANLV", view.node(uuid).name, f"volume {name} is unknown")


def _paths(view: ConfigView) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """What disks are called in their storage, by their types; and the nodes that have them, by these names.

    No disk is kept: each group is verified by a process of its own, and 40,000 disks take 160 MiB of it.
    """
    known: dict[str, set[str]] = {}
    homes: dict[str, set[str]] = {}
    of_primaries: dict[str, list[str]] = {}
    for whole in view.stream("disks"):
        for disk in _with_children([whole]):
            if disk.logical_id:
                path = str(disk.logical_id[-1])
                known.setdefault(disk.dev_type, set()).add(path)
                if disk.nodes:
                    homes.setdefault(path, set()).update(disk.nodes)
                else:
                    of_primaries.setdefault(whole.uuid, []).append(path)
    for instance in view.stream("instances") if of_primaries else ():
        for path in (path for uuid in instance.disks for path in of_primaries.get(uuid, ())):
            homes.setdefault(path, set()).add(instance.primary_node)
    return known, homes


def exclusion_tags(view: ConfigView, instances: Sequence[Instance]) -> Iterator[Finding]:
    """Two instances of a node must not share an exclusion tag."""
    rules = read_rules(view.cluster.tags)
    holders: dict[tuple[str, str], list[str]] = {}
    for instance in instances:
        for tag in rules.exclusion_of(instance.tags):
            holders.setdefault((instance.primary_node, tag), []).append(instance.name)
    for (uuid, tag), names in sorted(holders.items()):
        if len(names) > 1:
            yield Finding(
                "EEXTAGS", view.node(uuid).name, f"instances {', '.join(sorted(names))} share the exclusion tag {tag}"
            )


def memory_redundancy(view: ConfigView, instances: Sequence[Instance], reports: Reports) -> Iterator[Finding]:
    """Each node must have room for the instances of any one other node that would fail over to it."""
    needed: dict[tuple[str, str], int] = {}
    for instance in instances:
        backend = inheritance.instance_be(view.cluster, instance)
        if not backend["auto_balance"] or instance.admin_state != "up":
            continue
        for secondary in view.secondary_nodes(instance):
            key = (secondary, instance.primary_node)
            needed[key] = needed.get(key, 0) + backend["minmem"]
    for (uuid, primary), memory in sorted(needed.items()):
        report = reports.get(uuid)
        free = _free_memory(report) if report is not None else None
        if free is not None and free < memory:
            yield Finding(
                "ENODEN1",
                view.node(uuid).name,
                f"not enough memory to accomodate instance failovers should node {view.node(primary).name} fail "
                f"({memory}MiB needed, {free}MiB available)",
            )


def _free_memory(report: NodeReport) -> int | None:
    free = [capacity.memory_free for capacity in (report.found.hvinfo or {}).values()]
    return min(free) if free else None


def notes(view: ConfigView, catalogue: Catalogue, group: NodeGroup, instances: Sequence[Instance]) -> Iterator[str]:
    """What is worth knowing and wrong only perhaps."""
    single = sum(not _mirrored(view, catalogue, instance) for instance in instances)
    if single:
        yield f"  - NOTICE: {single} non-redundant instance(s) found."
    reserved = sum(bool(instance.forthcoming) for instance in instances)
    if reserved:
        yield f"  - NOTICE: {reserved} forthcoming instance(s) found."
    offline = sum(instance.admin_state == "offline" for instance in instances)
    if offline:
        yield f"  - NOTICE: {offline} offline instance(s) found."
    nodes = view.group_nodes(group.uuid)
    for word in ("offline", "drained"):
        count = sum(bool(getattr(node, word)) for node in nodes)
        if count:
            yield f"  - NOTICE: {count} {word} node(s) found."


def _mirrored(view: ConfigView, catalogue: Catalogue, instance: Instance) -> bool:
    traits = catalogue.templates.get(view.disk_template(instance))
    return traits is not None and traits.mirrored
