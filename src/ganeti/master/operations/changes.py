# SPDX-License-Identifier: BSD-2-Clause
"""Changes of the configuration that more than one operation makes.

What only one operation needs stands in that operation's file.
"""

from typing import cast

from msgspec.structs import replace

from ganeti.base.errors import ALREADY_EXISTS, WRONG_STATE, PrerequisiteError
from ganeti.master.disk_numbers import enter_disk, forget_disk, return_port, take_port
from ganeti.master.nic_networks import exchange_addresses
from ganeti.model.configuration import Draft
from ganeti.model.objects import Disk, Instance
from ganeti.ports.config import Change


class AddInstance(Change, frozen=True, kw_only=True):
    """Enter a new instance with its disks; with *wants_port*, it gets a network port of the cluster.

    Its nodes must still be fit for it: a creation that the allocator places holds no lock of a node.
    The indexes of the configuration refuse addresses and volumes that another object has.
    """

    instance: Instance
    disks: list[Disk]
    wants_port: bool = False
    from_pool: list[int] = []
    """NICs whose address is any free one of their network, by position."""

    def apply(self, draft: Draft) -> Instance:
        if draft.uuid_by_name("instances", self.instance.name) is not None:
            raise PrerequisiteError(
                f"Instance '{self.instance.name}' is already in the cluster: choose another name", ALREADY_EXISTS
            )
        instance = self.instance
        _check_nodes(draft, instance, self.disks)
        instance = replace(instance, nics=exchange_addresses(draft, [], instance.nics, self.from_pool))
        if self.wants_port:
            instance = replace(instance, network_port=take_port(draft))
        for disk in self.disks:
            enter_disk(draft, disk)
        draft.put("instances", instance)
        return cast(Instance, draft.get("instances", instance.uuid))


class FinishInstance(Change, frozen=True, kw_only=True):
    """A created instance is complete: from now on it is an instance like any other."""

    instance_uuid: str
    admin_state: str

    def apply(self, draft: Draft) -> None:
        instance = draft.instance(self.instance_uuid)
        draft.put(
            "instances",
            replace(instance, forthcoming=None, admin_state=self.admin_state, disks_active=self.admin_state == "up"),
        )
        for disk in draft.instance_disks(instance):
            if disk.forthcoming:
                draft.put("disks", replace(disk, forthcoming=None))


class KeepForthcoming(FinishInstance, frozen=True, kw_only=True):
    """A reservation is kept as it is; the commit only settles the undo records."""

    admin_state: str = "down"

    def apply(self, draft: Draft) -> None:
        draft.instance(self.instance_uuid)


class RemoveInstance(Change, frozen=True, kw_only=True):
    """Take an instance and its disks out of the configuration; an unknown one is no error (it serves as undo)."""

    instance_uuid: str

    def apply(self, draft: Draft) -> None:
        instance = cast("Instance | None", draft.get("instances", self.instance_uuid))
        if instance is None:
            return
        for uuid in instance.disks:
            forget_disk(draft, uuid)
        exchange_addresses(draft, instance.nics, [])
        draft.remove("instances", self.instance_uuid)
        if instance.network_port is not None:
            return_port(draft, instance.network_port)


class SetInstanceState(Change, frozen=True, kw_only=True):
    """Say what state an instance should be in; fields left out stay."""

    instance_uuid: str
    admin_state: str | None = None
    admin_state_source: str | None = None
    disks_active: bool | None = None

    def apply(self, draft: Draft) -> None:
        instance = draft.instance(self.instance_uuid)
        changed = replace(
            instance,
            admin_state=self.admin_state or instance.admin_state,
            admin_state_source=self.admin_state_source or instance.admin_state_source,
            disks_active=instance.disks_active if self.disks_active is None else self.disks_active,
        )
        if changed != instance:
            draft.put("instances", changed)


class SetPrimaryNode(Change, frozen=True, kw_only=True):
    """An instance lives on another node from now on; its disks name the node too.

    With *by_force* the former node may still write: its copies of the disks are older from now on, whatever it writes.
    """

    instance_uuid: str
    node_uuid: str
    by_force: bool = False

    def apply(self, draft: Draft) -> None:
        instance = draft.instance(self.instance_uuid)
        draft.node(self.node_uuid)
        if instance.primary_node == self.node_uuid:
            return
        for disk in draft.instance_disks(instance):
            nodes = [self.node_uuid] if disk.nodes == [instance.primary_node] else disk.nodes
            moved = replace(disk.promoted() if self.by_force else disk, nodes=nodes)
            if moved != disk:
                draft.put("disks", moved)
        draft.put("instances", replace(instance, primary_node=self.node_uuid))


class NoteGenerations(Change, frozen=True, kw_only=True):
    """The newest copies of disks (by UUID) are known to have these generations: an older copy lacks something."""

    generations: dict[str, int]

    def apply(self, draft: Draft) -> None:
        for uuid, generation in self.generations.items():
            disk = draft.disk(uuid)
            if disk.generation is not None and disk.generation < generation:
                draft.put("disks", replace(disk, generation=generation))


class NoteSnapshots(Change, frozen=True, kw_only=True):
    """Disks of an instance may have the snapshot *name* from now on, or have it no more (without *created_s*).

    Disks are named by UUID; one that is gone is no error.
    """

    disks: list[str]
    name: str
    created_s: float | None = None

    def apply(self, draft: Draft) -> None:
        for uuid in self.disks:
            if draft.get("disks", uuid) is None:
                continue
            disk = draft.disk(uuid)
            kept = {name: taken for name, taken in (disk.snapshots or {}).items() if name != self.name}
            if self.created_s is not None:
                kept[self.name] = self.created_s
            draft.put("disks", replace(disk, snapshots=kept or None))


def _check_nodes(draft: Draft, instance: Instance, disks: list[Disk]) -> None:
    uuids = dict.fromkeys([instance.primary_node, *(uuid for disk in disks for uuid in disk.nodes)])
    nodes = [draft.node(uuid) for uuid in uuids]
    for node in nodes:
        if not node.usable_for_instances:
            word = "offline" if node.offline else "drained" if node.drained else "not vm_capable"
            raise PrerequisiteError(
                f"Node {node.name} has become {word}: create {instance.name} again, on another node", WRONG_STATE
            )
    if len({node.group for node in nodes}) > 1:
        raise PrerequisiteError(
            f"The nodes of {instance.name} are in different node groups now: create it again", WRONG_STATE
        )
