# SPDX-License-Identifier: BSD-2-Clause
"""The cluster as placement sees it, kept up to date from the change stream and from what nodes report. Pure.

It is drawn whole once; then only what has changed is told. Invariant: `cluster` is what reading the allocator's input
of this moment would give, but for three things: instances that are being created are not among it (`coming`), nodes
that do not answer say so, and an instance with disks of several templates, which no allocator can name, counts as one
that stays where it is.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ganeti.master.allocator_input import disk_space_of, group_entry, node_entry, reservation_of
from ganeti.master.cache.node_reports import NodeReport
from ganeti.model import inheritance
from ganeti.model.configuration import Configuration
from ganeti.model.objects import Cluster as ClusterObject
from ganeti.model.objects import Instance as ConfiguredInstance
from ganeti.model.objects import Node as ConfiguredNode
from ganeti.model.objects import NodeGroup
from ganeti.model.reservations import Reservation
from ganeti.model.templates import UNSHARED, traits_of
from ganeti.placement.cluster.picture import Cluster, Disk, Instance, Node, Status
from ganeti.placement.request.reading import STATIC_NODE_MEMORY_MIB, read_cluster

NODE_MEMORY_OPTION = "static-kvm-node-memory"
_STATUS = {"up": Status.RUNNING, "down": Status.ADMIN_DOWN, "offline": Status.ADMIN_OFFLINE}


@dataclass(frozen=True, slots=True)
class Changes:
    """What is different since a picture was drawn: names instances had then, and what instances and nodes are now."""

    gone: Sequence[str] = ()
    come: Sequence[Instance] = ()
    nodes: Sequence[Node] = ()


@dataclass(slots=True)
class _Marks:
    """Uuids of what has changed since a picture was drawn: instances with the name they had then, if any, and nodes."""

    instances: dict[str, str | None] = field(default_factory=dict)
    nodes: dict[str, None] = field(default_factory=dict)


class ClusterPicture:
    """*configuration* gives the copy that follows the change stream."""

    def __init__(self, configuration: Callable[[], Configuration]) -> None:
        self._configuration = configuration
        self.reports: dict[str, NodeReport] = {}
        self._instances: dict[str, Instance] = {}
        self._names: list[tuple[str, str]] = []
        """(name, uuid) of those in `_instances`, sorted."""
        self._coming: dict[str, None] = {}
        self._own: dict[str, dict[str, None]] = {}
        """Uuids of instances, also of those being created, by the uuid of their primary node."""
        self._primary: dict[str, str] = {}
        self._instance_of: dict[str, str] = {}
        """Instances by the uuid of a disk."""
        self._marks: dict[str, _Marks] = {}
        """By template, since its changes were told."""
        self._dirty: dict[str, None] = {}
        self._all_dirty = True

    def before(self, event: dict[str, Any]) -> Callable[[], None]:
        """Note what an event of the change stream will change, before the configuration takes it in."""
        if event["event"] != "commit":
            return self._forget_all
        old = self._configuration()
        kinds = {kind for kind, *_ in [*event["put"], *event["remove"]]}
        if "nodegroups" in kinds or any(kind == "nodes" for kind, *_ in event["remove"]):
            return self._forget_all
        known = {uuid: old.get("nodes", uuid) for kind, uuid, *_ in event["put"] if kind == "nodes"}
        cluster = old.cluster
        for kind, uuid, *_ in [*event["put"], *event["remove"]]:
            if kind == "instances":
                self._dirty[uuid] = None
            elif kind == "disks" and uuid in self._instance_of:
                self._dirty[self._instance_of[uuid]] = None
        return lambda: self._after(cluster, known)

    def take_reports(self, reports: dict[str, NodeReport]) -> None:
        for uuid, report in reports.items():
            if self.reports.get(uuid) != report:
                self.reports[uuid] = report
                self._node_changed(uuid)

    def cluster(self, template: str) -> Cluster:
        """Draw the picture with the free space nodes have for disks of *template*."""
        self._refresh()
        view = self._configuration()
        described = sorted(view.nodes(), key=lambda node: node.name)
        groups = sorted(view.groups(), key=lambda group: group.name)
        read = self._read_nodes(described, groups, template)
        return replace(read, instances=[self._instances[uuid] for _, uuid in self._names])

    def changes(self, template: str) -> Changes | None:
        """What is different since the last call; None where that cannot be told, so that it is to be drawn anew."""
        self._refresh()
        marks = self._marks.get(template)
        self._marks[template] = _Marks()
        if marks is None:
            return None
        view = self._configuration()
        come = [self._instances[uuid] for uuid in marks.instances if uuid in self._instances]
        gone = [name for name in marks.instances.values() if name is not None]
        nodes = [view.node(uuid) for uuid in marks.nodes]
        groups = [view.group(uuid) for uuid in dict.fromkeys(node.group for node in nodes)]
        return Changes(gone, come, self._read_nodes(nodes, groups, template).nodes if nodes else ())

    def _read_nodes(self, nodes: list[ConfiguredNode], groups: list[NodeGroup], template: str) -> Cluster:
        """A cluster of these *nodes* in these *groups*, without its instances."""
        view = self._configuration()
        entries = {}
        for node in nodes:
            own = [view.instance(uuid) for uuid in self._own.get(node.uuid, {}) if uuid not in self._coming]
            entries[node.name] = node_entry(view, node, self.reports.get(node.uuid), own, template)
        message = {
            "enabled_hypervisors": list(view.cluster.enabled_hypervisors),
            "cluster_tags": list(view.cluster.tags),
            "nodegroups": {group.uuid: group_entry(view, group) for group in groups},
            "nodes": entries,
        }
        read = read_cluster(
            message,
            static_node_memory_mib=_node_memory_mib(view.cluster),
            hypervisors=view.cluster.enabled_hypervisors,
        )
        found = list(read.nodes)
        for number, node in enumerate(nodes):
            report = self.reports.get(node.uuid)
            if node.usable_for_instances and (report is None or report.silence):
                silence = f"not answering ({report.silence if report else 'not asked yet'})"
                found[number] = replace(found[number], unavailable=silence)
        return replace(read, nodes=found)

    def coming(self) -> list[Reservation]:
        """The room of instances that are being created."""
        self._refresh()
        view = self._configuration()
        found = [view.instance(uuid) for uuid in self._coming]
        return [reservation_of(view, instance, self.reports.get(instance.primary_node)) for instance in found]

    def _forget_all(self) -> None:
        self._all_dirty = True
        self._marks.clear()

    def _after(self, before: ClusterObject, known: dict[str, Any]) -> None:
        """A commit has been taken in; *before* is the cluster object without it, *known* the nodes it changed."""
        view = self._configuration()
        if _common(before) != _common(view.cluster):
            self._forget_all()
        for uuid, node in known.items():
            if node is None or _lasting(node) != _lasting(view.node(uuid)):
                self._forget_all()
            else:
                self._node_changed(uuid)

    def _refresh(self) -> None:
        view = self._configuration()
        if self._all_dirty:
            for store in (self._instances, self._coming, self._own, self._primary, self._instance_of):
                store.clear()
            for uuid in view.uuids("instances"):
                self._read(view, uuid)
            self._names = sorted((instance.name, uuid) for uuid, instance in self._instances.items())
            self._dirty.clear()
            self._all_dirty = False
        dirty, self._dirty = self._dirty, {}
        for uuid in dirty:
            self._renew(view, uuid)

    def _renew(self, view: Configuration, uuid: str) -> None:
        old = self._instances.get(uuid)
        for marks in self._marks.values():
            marks.instances.setdefault(uuid, old.name if old is not None else None)
        self._forget(uuid)
        self._read(view, uuid)
        new = self._instances.get(uuid)
        if old is not None and (new is None or new.name != old.name):
            del self._names[bisect_left(self._names, (old.name, uuid))]
        if new is not None and (old is None or new.name != old.name):
            insort(self._names, (new.name, uuid))

    def _read(self, view: Configuration, uuid: str) -> None:
        found = view.get("instances", uuid)
        if not isinstance(found, ConfiguredInstance):
            return
        self._primary[uuid] = found.primary_node
        self._own.setdefault(found.primary_node, {})[uuid] = None
        for disk in found.disks:
            self._instance_of[disk] = uuid
        if found.forthcoming:
            self._coming[uuid] = None
        else:
            self._instances[uuid] = placed(view, found)
        self._node_changed(found.primary_node)

    def _forget(self, uuid: str) -> None:
        primary = self._primary.pop(uuid, None)
        if primary is None:
            return
        self._own[primary].pop(uuid, None)
        self._instances.pop(uuid, None)
        self._coming.pop(uuid, None)
        self._node_changed(primary)

    def _node_changed(self, uuid: str) -> None:
        for marks in self._marks.values():
            marks.nodes[uuid] = None


def placed(view: Configuration, instance: ConfiguredInstance) -> Instance:
    """An instance of the configuration as placement sees it."""
    backend = inheritance.instance_be(view.cluster, instance)
    disks = view.instance_disks(instance)
    nodes = [view.node(uuid).name for uuid in view.instance_nodes(instance)]
    traits = traits_of(view.disk_template(instance))
    return Instance(
        name=instance.name,
        memory_mib=backend["maxmem"],
        disk_mib=disk_space_of(view, instance),
        vcpus=backend["vcpus"],
        template=traits.name if traits is not None else UNSHARED,
        primary=nodes[0],
        secondary=nodes[1] if len(nodes) > 1 else "",
        disks=tuple(Disk(disk.size, disk.spindles) for disk in disks),
        status=_STATUS.get(instance.admin_state, Status.RUNNING),
        spindle_use=backend["spindle_use"],
        tags=tuple(instance.tags),
    )


def _lasting(node: ConfiguredNode) -> tuple[Any, ...]:
    """What of a node a state cannot follow."""
    return node.name, node.group, node.tags, node.ndparams


def _common(cluster: ClusterObject) -> tuple[Any, ...]:
    """What the cluster's own object says of all nodes and instances."""
    own = cluster.tags, cluster.enabled_hypervisors, cluster.ipolicy, cluster.beparams, cluster.ndparams
    return *own, _node_memory_mib(cluster)


def _node_memory_mib(cluster: ClusterObject) -> int:
    """The option --static-kvm-node-memory of hail, where the cluster's allocator parameters have it."""
    given = cluster.default_iallocator_params.get(NODE_MEMORY_OPTION)
    try:
        return STATIC_NODE_MEMORY_MIB if given is None else int(given)
    except (TypeError, ValueError):
        return STATIC_NODE_MEMORY_MIB
