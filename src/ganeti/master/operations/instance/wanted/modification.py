# SPDX-License-Identifier: BSD-2-Clause
"""What a change of an instance comes to: its new parameters, NICs and disks, and what forbids them. Pure."""

import os.path
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from ganeti.base.errors import INSUFFICIENT_RESOURCES, WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.master import nic_networks
from ganeti.master.disk_numbers import enter_disk, forget_disk, numbered
from ganeti.master.instance_spec import instance_size
from ganeti.master.operations.instance.wanted import device_changes
from ganeti.master.operations.instance.wanted.creation_checks import refuse_conflicts
from ganeti.master.operations.instance.wanted.device_changes import DeviceChange, DiskChanges
from ganeti.master.operations.instance.wanted.disk_places import instance_directory
from ganeti.model import inheritance
from ganeti.model.configuration import Draft
from ganeti.model.ipolicy import violations
from ganeti.model.node_calls.hotplug import HotplugObstacles
from ganeti.model.node_calls.instances import FoundInstance
from ganeti.model.objects import Disk, Instance, Nic
from ganeti.model.parameters import accept_all, apply_changes, backend_input
from ganeti.model.traits import Catalogue, TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import EntropyPort

_VALUES = ("hvparams", "beparams", "osparams", "osparams_private", "os", "admin_state", "primary_node")


@dataclass(frozen=True)
class Facts:
    """What the primary node says; null where it was not asked."""

    running: FoundInstance | None = None
    free_mib: int | None = None
    secondary: str | None = None
    """The node that an allocator chose for copies of the disks."""
    obstacles: HotplugObstacles | None = None
    """What of the running guest cannot change; null where nothing of it is to change, or nothing can."""

    @property
    def running_mib(self) -> int:
        """The memory the guest has now; 0 where it does not run."""
        return 0 if self.running is None else self.running.memory_mib


class ModifyInstance(Change, frozen=True, kw_only=True):
    """Give an instance other values, NICs and disks; those not named stay."""

    instance_uuid: str
    values: dict[str, Any] = {}
    nics: list[Nic] | None = None
    disks: list[Disk] | None = None
    removed: list[str] = []
    """Disks whose data are gone."""
    from_pool: list[str] = []
    """NICs whose address is any free one of their network, by UUID."""

    def apply(self, draft: Draft) -> None:
        old = draft.instance(self.instance_uuid)
        new = replace(old, **self.values)
        if self.nics is not None:
            new = replace(new, nics=self._nics(draft, old, self.nics))
        if self.disks is not None:
            new = replace(new, disks=[disk.uuid for disk in self.disks])
            for disk in self.disks:
                if draft.get("disks", disk.uuid) != (complete := numbered(draft, replace(disk, forthcoming=None))):
                    draft.put("disks", complete)
        for uuid in self.removed:
            forget_disk(draft, uuid)
        if new != old:
            draft.put("instances", new)

    def _nics(self, draft: Draft, old: Instance, nics: Sequence[Nic]) -> list[Nic]:
        gone = [nic for nic in old.nics if nic not in nics]
        come = [nic for nic in nics if nic not in old.nics]
        from_pool = [index for index, nic in enumerate(come) if nic.uuid in self.from_pool]
        placed = {nic.uuid: nic for nic in nic_networks.exchange_addresses(draft, gone, come, from_pool)}
        return [placed.get(nic.uuid, nic) for nic in nics]


class ReserveDisks(Change, frozen=True, kw_only=True):
    """Enter disks that are going to be made; no instance has them yet."""

    disks: list[Disk]

    def apply(self, draft: Draft) -> None:
        for disk in self.disks:
            enter_disk(draft, disk)


class ForgetDisks(Change, frozen=True, kw_only=True):
    """Take disks of no instance out of the configuration; unknown ones are no error (it serves as undo)."""

    disk_uuids: list[str]

    def apply(self, draft: Draft) -> None:
        for uuid in self.disk_uuids:
            forget_disk(draft, uuid)


@dataclass(frozen=True)
class NicPlan:
    """An instance's NICs as they will be."""

    nics: list[Nic]
    told: list[device_changes.DeviceReport]
    from_pool: list[str]


@dataclass(frozen=True)
class ModificationReport:
    """What is told of a modification, in the form of 3.1: pairs of name and value."""

    nics: Sequence[device_changes.DeviceReport]
    disks: Sequence[device_changes.DeviceReport]
    parameters: list[tuple[str, Any]]
    nics_plugged: bool = False
    """Whether the running guest has its new NICs already."""
    disks_plugged: bool = False

    def at_next_start(self, taken: Sequence[str]) -> bool:
        """Whether a running guest goes on without something that has changed; it has *taken* some over."""
        now = {*taken, "runtime_memory", "primary_node", "admin_state", "disk_template"}
        now |= {"be/auto_balance", "be/always_failover", "be/minmem", "be/spindle_use"}
        later = [
            told for told in self.disks if ("mode" in told.keys if told.action == "modify" else not self.disks_plugged)
        ]
        return bool((self.nics and not self.nics_plugged) or later) or any(
            name not in now for name, _ in self.parameters
        )

    def lines(self, view: ConfigView, instance_uuid: str) -> list[tuple[str, Any]]:
        """Everything, with the addresses that NICs got by the commit."""
        instance = view.instance(instance_uuid)
        nics = {nic.uuid: nic for nic in instance.nics}
        disks = {disk.uuid: disk for disk in view.instance_disks(instance)}
        found: list[tuple[str, Any]] = []
        for told in self.disks:
            found += _disk_lines(told, disks.get(told.uuid))
        for told in self.nics:
            found += _nic_lines(view, instance, told, nics.get(told.uuid))
        return found + self.parameters


def _disk_lines(told: device_changes.DeviceReport, disk: Disk | None) -> list[tuple[str, Any]]:
    if disk is None or told.action in ("remove", "detach"):
        return [(f"disk/{told.index}", told.action)]
    if told.action == "modify":
        own = [key for key in told.keys if key not in device_changes.CHANGEABLE]
        lines = [(f"disk.{key}/{told.index}", getattr(disk, key)) for key in told.keys if key not in own]
        return lines + [(f"disk.params:{key}/{told.index}", (disk.params or {}).get(key, "default")) for key in own]
    return [(f"disk/{told.index}", f"{told.action}:size={disk.size},mode={disk.mode}")]


def _nic_lines(
    view: ConfigView, instance: Instance, told: device_changes.DeviceReport, nic: Nic | None
) -> list[tuple[str, Any]]:
    if nic is None or told.action == "remove":
        return [(f"nic.{told.index}", "remove")]
    group = view.group(view.node(instance.primary_node).group)
    filled = inheritance.nic_params(view.cluster, nic, group)
    network = None if nic.network is None else view.network(nic.network).name
    if told.action == "add":
        values = f"mac={nic.mac},ip={nic.ip},mode={filled['mode']},link={filled['link']},network={network}"
        return [(f"nic.{told.index}", f"add:{values}")]
    known = {"mac": nic.mac, "ip": nic.ip, "name": nic.name, "network": network}
    changed = {key: value for key, value in known.items() if key in told.keys}
    shown = changed | {key: filled[key] for key in ("link", "mode", "vlan")}
    return [(f"nic.{key}/{told.index}", value) for key, value in shown.items()]


def template_of(
    view: ConfigView, catalogue: Catalogue, instance: Instance, changes: Sequence[DeviceChange]
) -> TemplateTraits:
    """The template of an instance's disks; one without disks gets that of the first disk it is given."""
    if instance.disks:
        return catalogue.template(view.disk_template(instance))
    first = next((change for change in changes if change.action in ("add", "attach")), None)
    if first is None:
        return next(traits for traits in catalogue.templates.values() if not traits.has_disks)
    if first.action == "add":
        name = first.values.get("dev_type")
        enabled = view.cluster.enabled_disk_templates
        known = [each for each in enabled if each in catalogue.templates and catalogue.template(each).has_disks]
        if name not in known:
            raise PrerequisiteError(
                f"Instance {instance.name} has no disks: add dev_type=TEMPLATE to the first one, which is one "
                f"of {', '.join(known)}",
                WRONG_INPUT,
            )
        return catalogue.template(str(name))
    wanted = next(iter(first.values.values()), None)
    disk = next((disk for disk in view.disks() if wanted is not None and wanted in (disk.uuid, disk.name)), None)
    if disk is None:
        raise PrerequisiteError(f"No disk is called '{wanted}': attach one by uuid=UUID or name=NAME", WRONG_INPUT)
    return catalogue.template(disk.dev_type)


def check_disk_changes(view: ConfigView, instance: Instance, changes: Sequence[DeviceChange]) -> None:
    """Raise `PrerequisiteError` where one of the nodes of a disk cannot be asked."""
    for change in changes:
        offline = [view.node(uuid).name for uuid in view.instance_nodes(instance) if view.node(uuid).offline]
        if change.action in ("add", "remove") and offline:
            raise PrerequisiteError(
                f"Node {offline[0]} of {instance.name} is offline: to {change.action} a disk, bring it back first",
                WRONG_STATE,
            )


def moved_disks(view: ConfigView, instance: Instance, primary: str) -> list[Disk]:
    """The disks with the node they are used on."""
    return [
        replace(disk, nodes=[primary]) if disk.nodes == [instance.primary_node] else disk
        for disk in view.instance_disks(instance)
    ]


def directory_of(view: ConfigView, template: TemplateTraits, disks: Sequence[Disk], asked: str | None) -> str:
    """The directory that new disks are placed in: that of the others, unless another one is asked for."""
    if template.directory_based and disks and asked is None:
        return os.path.dirname(os.path.dirname(str(disks[0].logical_id[-1])))
    return instance_directory(view, template, asked)


def check_primary(
    view: ConfigView, catalogue: Catalogue, instance: Instance, primary: str, facts: Facts, *, force: bool
) -> list[str]:
    """Raise `PrerequisiteError` where an instance cannot live on another node without moving; gives warnings."""
    old, new = view.node(instance.primary_node), view.node(primary)
    if not new.usable_for_instances:
        word = "offline" if new.offline else "drained" if new.drained else "not vm_capable"
        raise PrerequisiteError(f"Node {new.name} is {word}: choose another node", WRONG_STATE)
    if facts.running is not None:
        raise PrerequisiteError(
            f"Instance {instance.name} is still running on {old.name}: shut it down, or move it with gnt-instance "
            "migrate",
            WRONG_STATE,
        )
    secondaries = view.secondary_nodes(instance)
    if secondaries and primary not in secondaries:
        raise PrerequisiteError(
            f"Node {new.name} has no copy of the disks of {instance.name}: choose "
            f"{', '.join(view.node(uuid).name for uuid in secondaries)}",
            WRONG_INPUT,
        )
    warnings = []
    for disk in view.instance_disks(instance):
        if not catalogue.template(disk.dev_type).mirrored:
            what = f"The disks of {instance.name} are on {old.name} and are not moved"
            warnings = [f"{what}: copy them to {new.name}"]
    if old.offline:
        warnings.append(f"Node {old.name} is offline: see that {instance.name} does not run there")
    if warnings and not force:
        raise PrerequisiteError(f"{warnings[0]}, then add --force", WRONG_STATE)
    return warnings


def with_parameters(
    view: ConfigView,
    catalogue: Catalogue,
    instance: Instance,
    beparams: Mapping[str, Any],
    hvparams: Mapping[str, Any],
    osparams: Mapping[str, Any],
    osparams_private: Mapping[str, Any],
) -> Instance:
    """Give the instance with changed parameters; ``default`` takes one back. Raises `ParameterError`."""
    known = catalogue.hypervisor(instance.hypervisor).parameters
    return replace(
        instance,
        beparams=_filled_sanely(view, apply_changes(instance.beparams, backend_input(beparams))),
        hvparams=apply_changes(instance.hvparams, accept_all(known, hvparams, "hypervisor", for_instance=True)),
        osparams=apply_changes(instance.osparams, osparams),
        osparams_private=apply_changes(instance.osparams_private, osparams_private),
    )


def _filled_sanely(view: ConfigView, backend: dict[str, Any]) -> dict[str, Any]:
    filled = inheritance.cluster_be(view.cluster) | backend
    if filled["minmem"] > filled["maxmem"]:
        raise PrerequisiteError(
            f"Minimum memory ({filled['minmem']} MiB) is above the maximum ({filled['maxmem']} MiB): change both",
            WRONG_INPUT,
        )
    return backend


def plan_nics(
    view: ConfigView,
    old: Instance,
    new: Instance,
    changes: Sequence[DeviceChange],
    entropy: EntropyPort,
    *,
    conflicts_check: bool,
) -> NicPlan:
    """The NICs as they will be; those in networks follow the node group of the instance's new primary node."""
    group = view.group(view.node(new.primary_node).group)
    moves = group.uuid != view.node(old.primary_node).group
    nics, told = device_changes.change_nics(view, old.nics, changes, entropy)
    come = [nic for nic in nics if nic not in old.nics or (moves and nic.network is not None)]
    stay = [nic.uuid for nic in nics if nic not in come]
    gone = [nic for nic in old.nics if nic.uuid not in stay]
    numbers = [number for number, nic in enumerate(nics) if nic in come]
    if conflicts_check:
        had = [] if moves else [_address_of(nic) for nic in old.nics]
        new_there = [number for number in numbers if _address_of(nics[number]) not in had]
        refuse_conflicts(view, group, [nics[number] for number in new_there], new_there)
    attached = nic_networks.connected(view, group, come, conflicts_check=conflicts_check, before=gone, numbers=numbers)
    by_uuid = {nic.uuid: nic for nic in attached}
    chosen = [attached[index].uuid for index in nic_networks.chosen(come, attached)]
    return NicPlan([by_uuid.get(nic.uuid, nic) for nic in nics], told, chosen)


def _address_of(nic: Nic) -> tuple[str, str | None, str | None]:
    return nic.uuid, nic.network, nic.ip


def check_memory(view: ConfigView, old: Instance, new: Instance, facts: Facts, *, force: bool) -> None:
    """Raise `PrerequisiteError` where more memory is wanted than the node has beside that of the running guest."""
    wanted = inheritance.instance_be(view.cluster, new)["maxmem"]
    if force or facts.free_mib is None or wanted <= inheritance.instance_be(view.cluster, old)["maxmem"]:
        return
    missing = wanted - facts.running_mib - facts.free_mib
    if missing > 0:
        raise PrerequisiteError(
            f"This change will prevent the instance from starting, due to {missing} MB of memory missing on its "
            f"primary node {view.node(new.primary_node).name}: ask for less, or add --force",
            INSUFFICIENT_RESOURCES,
        )


def check_runtime(
    view: ConfigView, instance: Instance, facts: Facts, memory_mib: int, *, can_balloon: bool, force: bool
) -> None:
    """Raise `PrerequisiteError` where the memory of a running guest cannot become *memory_mib*."""
    if facts.running is None:
        raise PrerequisiteError(f"Instance {instance.name} is not running: start it first", WRONG_STATE)
    if not can_balloon:
        raise PrerequisiteError(
            f"Hypervisor {instance.hypervisor} cannot change the memory of a running guest: change maxmem and reboot "
            f"{instance.name}",
            WRONG_INPUT,
        )
    filled = inheritance.instance_be(view.cluster, instance)
    if not force and not filled["minmem"] <= memory_mib <= filled["maxmem"]:
        raise PrerequisiteError(
            f"Instance {instance.name} must have memory between {filled['minmem']} and {filled['maxmem']} MB of memory "
            "unless --force is given",
            WRONG_INPUT,
        )
    more = memory_mib - facts.running_mib
    if facts.free_mib is not None and more > facts.free_mib:
        raise PrerequisiteError(
            f"Not enough memory on the node of {instance.name}: needed {more} MiB more, available {facts.free_mib} MiB",
            INSUFFICIENT_RESOURCES,
        )


def check_policy(
    view: ConfigView, old: Instance, new: Instance, disks: list[Disk], template: TemplateTraits, *, ignore: bool
) -> list[str]:
    """Raise `PrerequisiteError` for sizes that newly violate the policy; gives warnings about those that did before."""
    group = view.group(view.node(new.primary_node).group)
    policy = inheritance.group_ipolicy(view.cluster, group)
    name = view.disk_template(old)
    before = violations(
        policy, instance_size(view, old, view.instance_disks(old), name if old.disks else template.name)
    )
    after = violations(policy, instance_size(view, new, disks, template.name))
    found = after if new.primary_node != old.primary_node else [each for each in after if each not in before]
    if found and not ignore:
        raise PrerequisiteError(
            f"Instance {new.name} would violate the policy of node group {group.name}: {'; '.join(found)}. "
            "Change the sizes, or add --ignore-ipolicy",
            WRONG_INPUT,
        )
    return [f"Instance {new.name} violates the policy of node group {group.name}: {each}" for each in after]


def difference(old: Instance, new: Instance, disks: DiskChanges, from_pool: list[str]) -> ModifyInstance:
    """The change from one to the other."""
    changes_disks = new.disks != old.disks or bool(disks.told) or new.primary_node != old.primary_node
    return ModifyInstance(
        instance_uuid=old.uuid,
        values={name: value for name in _VALUES if (value := getattr(new, name)) != getattr(old, name)},
        nics=new.nics if new.nics != old.nics else None,
        disks=disks.disks if changes_disks else None,
        removed=[disk.uuid for disk in disks.removed],
        from_pool=from_pool,
    )
