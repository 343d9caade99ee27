# SPDX-License-Identifier: BSD-2-Clause
"""Changes of an instance's NICs and disks, each one named by its index, its name or its UUID. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from ganeti.base import names
from ganeti.base.errors import UNKNOWN_ENTITY, WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.master.operations.instance.wanted.creation_input import (
    DISK_KEYS,
    KEYS_OF_TEMPLATES,
    MAX_DISKS,
    NAMELESS,
    check_own_keys,
    read_disk,
)
from ganeti.master.operations.instance.wanted.disk_places import place_disks
from ganeti.master.operations.instance.wanted.nics import MAX_NICS, TakenMacs, changed_nic, check_device_names, new_nic
from ganeti.master.operations.parameters import NicInput, Values
from ganeti.model.new_disk import adopts
from ganeti.model.objects import Disk, Nic
from ganeti.model.traits import TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.context import EntropyPort

RequestedChange = list[int | str | Values]
"""One change: action, index (or name, or UUID) and values. In the old form the action stands for the last device, or an
index for a change of values."""
NIC_ACTIONS = ("add", "modify", "remove")
DISK_ACTIONS = ("add", "attach", "detach", "modify", "remove")
CHANGEABLE = ("name", "mode")
_WITHOUT = "default"
"""What is given in place of a provider's parameter that the disk is to have no more."""


class Device(Protocol):
    """What has a place among others of its kind, and perhaps a name."""

    @property
    def uuid(self) -> str: ...

    @property
    def name(self) -> str | None: ...


SomeDevice = TypeVar("SomeDevice", bound=Device)


@dataclass(frozen=True)
class DeviceChange:
    """One change: what is done, where, and the values given with it."""

    action: str
    where: int | str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class DeviceReport:
    """What is told of a change: of which device, and which of its values are new."""

    action: str
    index: int
    uuid: str
    keys: tuple[str, ...] = ()


def read_changes(kind: str, asked: Sequence[RequestedChange], actions: Collection[str]) -> list[DeviceChange]:
    """Read the changes of devices of a *kind*; raises `PrerequisiteError` for what has not their form."""
    return [_read_change(kind, entry, actions) for entry in asked]


def _read_change(kind: str, entry: RequestedChange, actions: Collection[str]) -> DeviceChange:
    match entry:
        case [str() as action, int() | str() as where, dict() as values]:
            pass
        case [str() as action, dict() as values] if action in actions:
            where = -1
        case [int() | str() as where, dict() as values]:
            action = "modify"
        case _:
            raise PrerequisiteError(
                f"A change of a {kind} must be a list of an action, an index and a dictionary of values", WRONG_INPUT
            )
    if action not in actions:
        raise PrerequisiteError(
            f"'{names.shown(action)}' cannot be done to a {kind}: use {', '.join(actions)}", WRONG_INPUT
        )
    if action in ("remove", "detach") and values:
        raise PrerequisiteError(f"To {action} a {kind} takes no values: leave '{next(iter(values))}' out", WRONG_INPUT)
    if action == "modify" and not values:
        raise PrerequisiteError(f"{kind.capitalize()} {where}: say what to change: KEY=VALUE", WRONG_INPUT)
    return DeviceChange(action, int(where) if str(where).removeprefix("-").isdecimal() else where, values)


def position(kind: str, devices: Sequence[Device], where: int | str) -> int:
    """Give the index of a device; -1 is the last one."""
    if isinstance(where, str):
        found = [index for index, device in enumerate(devices) if where in (device.uuid, device.name)]
        if not found:
            raise PrerequisiteError(
                f"No {kind} of the instance has the name '{where}': see gnt-instance info", WRONG_INPUT
            )
        return found[0]
    if not devices:
        raise PrerequisiteError(f"{kind} {where}: the instance has none", WRONG_INPUT)
    if not -1 <= where < len(devices):
        raise PrerequisiteError(f"{kind} {where}: the last one has the index {len(devices) - 1}", WRONG_INPUT)
    return where % len(devices)


def inserted(kind: str, devices: Sequence[SomeDevice], where: int | str, most: int) -> int:
    """Give the index that a new device gets; -1 is behind all others."""
    if len(devices) >= most:
        raise PrerequisiteError(f"There are {most} {kind}s already, which is the most: remove one first", WRONG_INPUT)
    if isinstance(where, str):
        raise PrerequisiteError(f"A new {kind} is put at an index, not at '{where}': use -1 for the end", WRONG_INPUT)
    if not -1 <= where <= len(devices):
        raise PrerequisiteError(f"{kind} {where}: the next free index is {len(devices)}", WRONG_INPUT)
    return len(devices) if where == -1 else where


def change_nics(
    view: ConfigView, nics: Sequence[Nic], changes: Sequence[DeviceChange], entropy: EntropyPort
) -> tuple[list[Nic], list[DeviceReport]]:
    """Carry the changes out one after another."""
    now, told = list(nics), []
    for change in changes:
        taken = TakenMacs(view, (nic.mac for nic in now))
        if change.action == "add":
            index = inserted("NIC", now, change.where, MAX_NICS)
            now.insert(index, new_nic(index, _nic_input(index, change.values), view, entropy, taken))
        else:
            index = position("NIC", now, change.where)
        uuid = now[index].uuid
        if change.action == "modify":
            asked = _nic_input(index, change.values)
            now[index] = changed_nic(index, now[index], asked, view, entropy, taken)
        elif change.action == "remove":
            del now[index]
        told.append(DeviceReport(change.action, index, uuid, tuple(change.values)))
    check_device_names("NIC", [nic.name for nic in now])
    return now, told


def _nic_input(index: int, values: Mapping[str, Any]) -> NicInput:
    known = NicInput.__struct_fields__
    for key, value in values.items():
        if key not in known:
            raise PrerequisiteError(
                f"NIC {index}: unknown parameter '{key}': there are {', '.join(known)}", WRONG_INPUT
            )
        if isinstance(value, float) or value is True:
            raise PrerequisiteError(f"NIC {index}: {key} must be text, not {value}: write {key}=TEXT", WRONG_INPUT)
    empty = {
        key: "none" if key in ("ip", "network") else ""
        for key, value in values.items()
        if value is None or value is False
    }
    texts = {key: str(value) for key, value in values.items()}
    return msgspec.convert(texts | empty, NicInput)


@dataclass(frozen=True)
class DiskChanges:
    """An instance's disks as they will be, and what has to be done for it."""

    disks: list[Disk]
    told: list[DeviceReport]
    created: tuple[Disk, ...] = ()
    removed: tuple[Disk, ...] = ()
    told_otherwise: tuple[Disk, ...] = ()
    """Those whose provider gets other parameters."""


def change_disks(
    view: ConfigView,
    before: Sequence[Disk],
    changes: Sequence[DeviceChange],
    traits: TemplateTraits,
    entropy: EntropyPort,
    *,
    node_uuids: list[str],
    directory: str,
    instance_name: str,
) -> DiskChanges:
    """Carry the changes out one after another; new disks are placed below *directory*."""
    known = {disk.uuid: disk.params for disk in before}
    attached: set[str] = set()
    now, told, removed = list(before), [], []
    for change in changes:
        if change.action in ("add", "attach"):
            index = inserted("disk", now, change.where, MAX_DISKS)
            if change.action == "add":
                _refuse_adoption(index, change.values)
                disk = read_disk(index, change.values, traits, entropy)
                now[index:index] = place_disks(
                    view, [disk], [change.values], traits, node_uuids, directory, instance_name, entropy, first=index
                )
            else:
                now.insert(index, _detached(view, now, change.values, traits, node_uuids))
                attached.add(now[index].uuid)
        else:
            index = position("disk", now, change.where)
        uuid = now[index].uuid
        if change.action == "modify":
            now[index] = _changed_disk(index, now[index], change.values, traits)
        elif change.action in ("remove", "detach"):
            gone = now.pop(index)
            if change.action == "remove" and gone.uuid in attached:
                raise PrerequisiteError(
                    f"Disk {index} is attached by the same change: attach it first, remove it then", WRONG_INPUT
                )
            if change.action == "remove" and gone.uuid in known:
                removed.append(gone)
        told.append(DeviceReport(change.action, index, uuid, tuple(change.values)))
    check_device_names("disk", [disk.name for disk in now])
    return DiskChanges(
        [replace(disk, iv_name=f"disk/{index}") for index, disk in enumerate(now)],
        told,
        tuple(disk for disk in now if disk.uuid not in known and disk.uuid not in attached),
        tuple(removed),
        tuple(disk for disk in now if disk.uuid in known and disk.params != known[disk.uuid]),
    )


def _refuse_adoption(index: int, values: Mapping[str, Any]) -> None:
    if adopts(values):
        raise PrerequisiteError(
            f"Disk {index}: a volume that is there already is adopted when an instance is made: leave adopt out",
            WRONG_INPUT,
        )


def _changed_disk(index: int, disk: Disk, values: Mapping[str, Any], traits: TemplateTraits) -> Disk:
    own = {key: value for key, value in values.items() if key not in DISK_KEYS and key not in KEYS_OF_TEMPLATES}
    for key in values:
        if key == "size":
            raise PrerequisiteError(
                f"Disk {index}: its size is not changed here: grow it with gnt-instance grow-disk", WRONG_INPUT
            )
        if key == "access":
            raise PrerequisiteError(
                f"Disk {index}: access cannot be changed: it is chosen when a disk is made; leave access out",
                WRONG_INPUT,
            )
        if key not in CHANGEABLE and not (traits.free_keys and key in own):
            also = " and the provider's own parameters" if traits.free_keys else ""
            raise PrerequisiteError(
                f"Disk {index}: '{names.shown(key)}' cannot be changed: there are {', '.join(CHANGEABLE)}{also}",
                WRONG_INPUT,
            )
    check_own_keys(index, own)
    mode = values.get("mode", disk.mode)
    if mode not in ("ro", "rw"):
        raise PrerequisiteError(f"Disk {index}: access mode '{mode}' is unknown: use ro or rw", WRONG_INPUT)
    name = values.get("name", disk.name)
    if not isinstance(name, str | None):
        raise PrerequisiteError(f"Disk {index}: its name must be text, not {name}", WRONG_INPUT)
    params = disk.params
    if own:
        kept = {key: value for key, value in (params or {}).items() if key not in own}
        params = kept | {key: value for key, value in own.items() if value != _WITHOUT}
    return replace(disk, mode=mode, name=None if name in NAMELESS else name, params=params)


def _detached(
    view: ConfigView, now: Sequence[Disk], values: Mapping[str, Any], traits: TemplateTraits, node_uuids: list[str]
) -> Disk:
    """The disk of no instance that *values* name."""
    wanted = [value for key, value in values.items() if key in ("uuid", "name")]
    if len(wanted) != 1 or len(values) != 1:
        raise PrerequisiteError("A disk is attached by uuid=UUID or by name=NAME: give one of them", WRONG_INPUT)
    used = {uuid: instance.name for instance in view.instances() for uuid in instance.disks}
    held = {disk.uuid for disk in now}
    found = [disk for disk in view.disks() if wanted[0] in (disk.uuid, disk.name) and disk.uuid not in held]
    # A forthcoming one of no instance is being made by a job, which removes it where it fails.
    found = [disk for disk in found if not disk.forthcoming or disk.uuid in used]
    free = [disk for disk in found if disk.uuid not in used]
    if not found:
        raise PrerequisiteError(f"No disk is called '{wanted[0]}': see gnt-instance info", UNKNOWN_ENTITY)
    if not free:
        raise PrerequisiteError(
            f"Disk '{wanted[0]}' is attached to instance {used[found[0].uuid]}: detach it there first", WRONG_STATE
        )
    disk = free[0]
    if len(free) > 1:
        raise PrerequisiteError(f"{len(free)} disks are called '{wanted[0]}': give uuid=UUID", WRONG_INPUT)
    if disk.dev_type != traits.name and traits.has_disks:
        raise PrerequisiteError(
            f"Disk '{wanted[0]}' has the template {disk.dev_type}, the instance has {traits.name}: all its disks must "
            "have one template",
            WRONG_INPUT,
        )
    if traits.shared:
        return replace(disk, nodes=list(node_uuids))
    if sorted(disk.nodes) != sorted(node_uuids):
        where = ", ".join(view.node(uuid).name for uuid in disk.nodes)
        raise PrerequisiteError(f"Disk '{wanted[0]}' is on {where}: move the instance there first", WRONG_STATE)
    return disk
