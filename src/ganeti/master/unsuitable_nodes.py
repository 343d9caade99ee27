# SPDX-License-Identifier: BSD-2-Clause
"""Instances on nodes that do not suit them any more, as verification and changes of node groups tell it. Pure.

Nothing is refused for it: the guests go on, and what is wrong is put right by changing the instance or the group.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ganeti.model import inheritance
from ganeti.model.objects import Cluster, Instance, Network, Node, NodeGroup
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView


@dataclass(frozen=True)
class Groups:
    """The configuration as *view* has it, but for what is about to change."""

    view: ConfigView
    cluster: Cluster | None = None
    changed: Mapping[str, NodeGroup] = field(default_factory=dict)
    """By their uuids."""
    moved: Mapping[str, str] = field(default_factory=dict)
    """Uuids of nodes and of the groups that they go to."""

    def of(self, node: Node) -> NodeGroup | None:
        """The node's group; None where there is none, as verification may find it."""
        uuid = self.moved.get(node.uuid, node.group)
        found = self.changed.get(uuid) or self.view.get("nodegroups", uuid)
        return found if isinstance(found, NodeGroup) else None

    def is_exclusive(self, node: Node) -> bool:
        group = self.of(node)
        if group is None:
            return False
        values = inheritance.group_nd(self.cluster or self.view.cluster, group) | node.ndparams
        return bool(values["exclusive_storage"])


def exclusive_storage(groups: Groups, catalogue: Catalogue, instance: Instance) -> Iterator[str]:
    """Mirrored volumes take two physical volumes each there, one of them for their metadata alone."""
    view = groups.view
    template = catalogue.templates.get(view.disk_template(instance))
    if template is None or not (template.uses_node_disk and template.has_secondary):
        return
    nodes = [view.get("nodes", uuid) for uuid in view.instance_nodes(instance)]
    names = [node.name for node in nodes if isinstance(node, Node) and groups.is_exclusive(node)]
    if names:
        yield (
            f"instance has template {template.name}, which is not supported on nodes that have exclusive storage set: "
            f"{', '.join(names)}"
        )


def networks(groups: Groups, instance: Instance) -> Iterator[str]:
    """A NIC that is added or changed there is refused; those that there are keep mode and link of the cluster."""
    view = groups.view
    node = view.get("nodes", instance.primary_node)
    group = groups.of(node) if isinstance(node, Node) else None
    for index, nic in enumerate(instance.nics if group is not None else ()):
        network = view.get("networks", nic.network) if nic.network is not None else None
        if group is not None and isinstance(network, Network) and network.uuid not in group.networks:
            name = network.name
            yield (
                f"NIC {index} is in network {name}, which is not connected to node group {group.name}: connect it with "
                f"gnt-network connect {name} {group.name}"
            )


def newly_unsuitable(catalogue: Catalogue, then: Groups) -> list[str]:
    """What is wrong with instances *then*, and is not so now."""
    now = Groups(then.view)
    found = []
    for instance in then.view.instances():
        before = {*exclusive_storage(now, catalogue, instance), *networks(now, instance)}
        after = [*exclusive_storage(then, catalogue, instance), *networks(then, instance)]
        found += [f"Instance {instance.name}: {words}" for words in after if words not in before]
    return found
