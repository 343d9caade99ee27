# SPDX-License-Identifier: BSD-2-Clause
"""Reading the configuration: one set of questions, whatever holds the objects.

`ConfigView` is what queries, operations and changes read from. A holder (memory, a database transaction,
a draft on top of another view) gives four primitives; everything else is derived here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, cast

from ganeti.base.errors import NOT_UNIQUE, UNKNOWN_ENTITY, PrerequisiteError
from ganeti.base.names import nearest, shown
from ganeti.model.objects import (
    BACKUPS_KEY,
    CLUSTER_KEY,
    KINDS,
    MAINTENANCE_KEY,
    Backups,
    Cluster,
    ConfigObject,
    Disk,
    FilterRule,
    Instance,
    Maintenance,
    Network,
    Node,
    NodeGroup,
)
from ganeti.model.templates import NO_DISKS

Named = TypeVar("Named", Node, NodeGroup, Instance, Network)

_NOUN = {"nodes": "Node", "nodegroups": "Group", "instances": "Instance", "networks": "Network"}


def template_of(disks: Iterable[Disk]) -> str:
    """The template of an instance with these disks: ``mixed`` when they differ."""
    templates = {disk.dev_type for disk in disks}
    if not templates:
        return NO_DISKS
    return templates.pop() if len(templates) == 1 else "mixed"


class ConfigView(ABC):
    """A consistent state of the configuration at one position of the change stream."""

    position: tuple[int, int]
    """(epoch, serial) of the last commit this view holds."""

    @abstractmethod
    def get(self, kind: str, uuid: str) -> ConfigObject | None:
        """Give the object of *kind* with this uuid, or None."""

    @abstractmethod
    def uuids(self, kind: str) -> Iterator[str]:
        """Give the uuids of all objects of *kind*, in a stable order."""

    @abstractmethod
    def uuid_by_name(self, kind: str, name: str) -> str | None:
        """Give the uuid of the object of *kind* with exactly this name, or None."""

    @abstractmethod
    def names(self, kind: str) -> Iterator[str]:
        """Give the names of all objects of *kind*."""

    def all(self, kind: str) -> list[Any]:
        return [self.get(kind, uuid) for uuid in self.uuids(kind)]

    def stream(self, kind: str) -> Iterator[Any]:
        """Give the same one after another; a view of a database does not keep them."""
        return iter(self.all(kind))

    @property
    def cluster(self) -> Cluster:
        return cast(Cluster, self.get("cluster", CLUSTER_KEY))

    @property
    def maintenance(self) -> Maintenance:
        """As it begins, where nothing is stored."""
        return cast(Maintenance, self.get("maintenance", MAINTENANCE_KEY)) or Maintenance()

    @property
    def backups(self) -> Backups:
        """As it begins, where nothing is stored."""
        return cast(Backups, self.get("backups", BACKUPS_KEY)) or Backups()

    def nodes(self) -> list[Node]:
        return self.all("nodes")

    def groups(self) -> list[NodeGroup]:
        return self.all("nodegroups")

    def instances(self) -> list[Instance]:
        return self.all("instances")

    def disks(self) -> list[Disk]:
        return self.all("disks")

    def networks(self) -> list[Network]:
        return self.all("networks")

    def filters(self) -> list[FilterRule]:
        return self.all("filters")

    def node(self, uuid: str) -> Node:
        return cast(Node, self._must("nodes", uuid))

    def group(self, uuid: str) -> NodeGroup:
        return cast(NodeGroup, self._must("nodegroups", uuid))

    def instance(self, uuid: str) -> Instance:
        return cast(Instance, self._must("instances", uuid))

    def disk(self, uuid: str) -> Disk:
        return cast(Disk, self._must("disks", uuid))

    def network(self, uuid: str) -> Network:
        return cast(Network, self._must("networks", uuid))

    def find_node(self, name: str) -> Node:
        """Find by uuid, full name, or a prefix of the name that ends before a dot; raises `PrerequisiteError`."""
        return cast(Node, self.find("nodes", name))

    def find_group(self, name: str) -> NodeGroup:
        return cast(NodeGroup, self.find("nodegroups", name))

    def find_instance(self, name: str) -> Instance:
        return cast(Instance, self.find("instances", name))

    def find_network(self, name: str) -> Network:
        return cast(Network, self.find("networks", name))

    def find(self, kind: str, name: str) -> ConfigObject:
        """Find one object of *kind* by what a person typed; an unknown name says which names there are."""
        uuid = self.uuid_by_name(kind, name)
        found = self.get(kind, uuid if uuid is not None else name)
        if found is not None:
            return found
        if kind in ("nodes", "instances"):
            matches = sorted(full for full in self.names(kind) if full.startswith(name + "."))
            if len(matches) > 1:
                raise PrerequisiteError(
                    f"{_NOUN[kind]} name '{name}' is ambiguous: it may be {', '.join(matches[:5])}", NOT_UNIQUE
                )
            if matches:
                return cast(ConfigObject, self.get(kind, cast(str, self.uuid_by_name(kind, matches[0]))))
        raise PrerequisiteError(
            f"{_NOUN[kind]} '{shown(name)}' not known{nearest(name, self.names(kind))}", UNKNOWN_ENTITY
        )

    def primary_instances(self, *node_uuids: str) -> list[Instance]:
        """Instances whose primary node is one of these: of one in the order of `instances`, of several in none."""
        nodes = frozenset(node_uuids)
        return [instance for instance in self.instances() if instance.primary_node in nodes]

    def instances_on(self, *node_uuids: str) -> list[Instance]:
        """Instances that one of these nodes runs or holds disks of, in the order of `instances`."""
        nodes = frozenset(node_uuids)
        return [instance for instance in self.instances() if not nodes.isdisjoint(self.instance_nodes(instance))]

    def uses_mac(self, mac: str) -> bool:
        """Whether an instance has this MAC address, in small letters."""
        return any(nic.mac.lower() == mac for instance in self.instances() for nic in instance.nics)

    def instance_disks(self, instance: Instance) -> list[Disk]:
        return [self.disk(uuid) for uuid in instance.disks]

    def disk_template(self, instance: Instance) -> str:
        """The template of an instance, told from its disks as 3.1 does: ``mixed`` when they differ."""
        return template_of(self.instance_disks(instance))

    def instance_nodes(self, instance: Instance) -> list[str]:
        """Uuids of the nodes an instance uses, primary first."""
        others: dict[str, None] = {}
        for disk in self.instance_disks(instance):
            for uuid in disk.nodes:
                if uuid != instance.primary_node:
                    others[uuid] = None
        return [instance.primary_node, *others]

    def secondary_nodes(self, instance: Instance) -> list[str]:
        return self.instance_nodes(instance)[1:]

    def group_nodes(self, group_uuid: str) -> list[Node]:
        return [node for node in self.nodes() if node.group == group_uuid]

    def _must(self, kind: str, uuid: str) -> ConfigObject:
        found = self.get(kind, uuid)
        if found is None:
            noun = _NOUN.get(kind, KINDS[kind].__name__)
            raise PrerequisiteError(f"{noun} with UUID {uuid} not known", UNKNOWN_ENTITY)
        return found
