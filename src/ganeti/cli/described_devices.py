# SPDX-License-Identifier: BSD-2-Clause
"""Disks and interfaces of an instance that is there: which of them a description means, and what is to change. Pure.

An entry with a name (a UUID, a MAC) that a device has means that device; the others mean the remaining devices in
their order, and the rest of them is new. A disk is removed only by an entry with ``state: absent``, an interface also
where no entry means it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ganeti.cli.failures import Failure
from ganeti.cli.values import read_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Plain = dict[str, Any]

DISK_FIELDS = {"size": "disk.sizes", "name": "disk.names", "uuid": "disk.uuids", "mode": "disk.modes"}
NIC_FIELDS = {
    "ip": "nic.ips",
    "mac": "nic.macs",
    "mode": "nic.modes",
    "link": "nic.links",
    "vlan": "nic.vlans",
    "network": "nic.networks.names",
    "name": "nic.names",
    "uuid": "nic.uuids",
}
"""What is known of each device: by its key, the field of the query that lists it."""
_MADE_UP = {"ip": ("pool",), "mac": ("auto", "generate"), "mode": ("default",), "link": ("default",)}
"""Values that ask for any; whatever a device has is that."""


@dataclass
class Devices:
    """What is to happen to the disks, or to the interfaces, of one instance."""

    changes: list[list[Any]] = field(default_factory=list)
    """As `OP_INSTANCE_SET_PARAMS` takes them."""
    sentences: list[str] = field(default_factory=list)
    grown: list[tuple[int, int]] = field(default_factory=list)
    """Index and size in MiB of disks that become larger, once the changes are made."""

    def change(self, change: list[Any], sentence: str) -> None:
        """Add one change, and what a person reads of it."""
        self.changes.append(change)
        self.sentences.append(sentence)


def disk_changes(where: str, wanted: Sequence[Plain], now: Plain) -> Devices:
    """Compare the disks; raises `Failure` for one that would shrink, and for one that the file does not name."""
    have, found = _devices(DISK_FIELDS, now), Devices()
    pairs, gone = _matched(where, "disk", wanted, have, ("uuid", "name"))
    told = [*(disk for _, disk in pairs), *gone]
    for index, disk in enumerate(have):
        if not any(disk is each for each in told):
            raise Failure(
                f"{where}: the file does not name disk {index} ({_disk_told(disk)}): write it, or remove it by "
                f"{{uuid: {disk['uuid']}, state: absent}}"
            )
    kept = [disk for disk in have if not any(disk is each for each in gone)]
    for said, old in pairs:
        if old is not None:
            _keep_disk(where, said, old, next(number for number, each in enumerate(kept) if each is old), found)
    for disk in gone:
        found.change(["remove", disk["uuid"], {}], f"remove disk {have.index(disk)} ({_disk_told(disk)})")
    for said, old in pairs:
        if old is None:
            if "size" not in said and "adopt" not in said:
                raise Failure(f"{where}: a new disk needs a size, such as {{size: 10G}}")
            told_size = f"of {said['size']} MiB" if "size" in said else f"from {said['adopt']}"
            found.change(["add", -1, said], f"add a disk {told_size}")
    return found


def nic_changes(where: str, wanted: Sequence[Plain], now: Plain) -> Devices:
    """Compare the interfaces; raises `Failure`."""
    have, found = _devices(NIC_FIELDS, now), Devices()
    for each in wanted:
        if unknown := sorted(set(each) - set(NIC_FIELDS) - {"state"}):
            raise Failure(f"{where}: an interface has no '{unknown[0]}': there are {', '.join(NIC_FIELDS)}")
    pairs, _ = _matched(where, "interface", wanted, have, ("uuid", "name", "mac"))
    for said, old in pairs:
        if old is not None and (values := _differing(said, old)):
            found.change(["modify", old["uuid"], values], f"interface {have.index(old)}: {_told(values)}")
    for index, nic in enumerate(have):
        if not any(nic is each for _, each in pairs):
            found.change(["remove", nic["uuid"], {}], f"remove interface {index} ({nic['mac']})")
    for said, old in pairs:
        if old is None:
            values = {key: _word(value) for key, value in said.items() if value is not None}
            found.change(["add", -1, values], f"add an interface {_told(values)}".rstrip())
    return found


def in_mebibytes(disk: Plain) -> Plain:
    size = disk.get("size")
    return disk if size is None or isinstance(size, int) else {**disk, "size": read_size("size", str(size))}


def _keep_disk(where: str, said: Plain, disk: Plain, index: int, found: Devices) -> None:
    size = int(said["size"] if said.get("size") is not None else disk["size"])
    if size < disk["size"]:
        raise Failure(
            f"{where}: disk {index} has {disk['size']} MiB and would have {size}: disks do not shrink; add a smaller "
            "one, copy what this one holds, and remove it"
        )
    if size > disk["size"]:
        found.grown.append((index, size))
    values: Plain = {}
    told = []
    if said.get("name", disk["name"]) != disk["name"]:
        values["name"] = said["name"] or "none"
        told.append(f"name disk {index} {said['name']}")
    if (said.get("mode") or disk["mode"]) != disk["mode"]:
        values["mode"] = said["mode"]
        told.append(f"disk {index}: mode={said['mode']}")
    if values:
        found.change(["modify", disk["uuid"], values], ", ".join(told))


def _devices(fields: Mapping[str, str], now: Plain) -> list[Plain]:
    columns = {key: now.get(name) or [] for key, name in fields.items()}
    count = len(columns["uuid"])
    return [
        {key: column[index] if index < len(column) else None for key, column in columns.items()}
        for index in range(count)
    ]


def _matched(
    where: str, what: str, wanted: Sequence[Plain], have: list[Plain], keys: tuple[str, ...]
) -> tuple[list[tuple[Plain, Plain | None]], list[Plain]]:
    """Give what is wanted with the device that it means, None for a new one; and the devices that are to go."""
    pairs: list[tuple[Plain, Plain | None]] = []
    by_name = [_named(said, have, keys) for said in wanted]
    rest = [device for device in have if not any(device is each for each in by_name)]
    gone: list[Plain] = []
    for said, device in zip(wanted, by_name, strict=True):
        if said.get("state", "present") not in ("present", "absent"):
            raise Failure(f"{where}: the state of a {what} is 'present' or 'absent', not '{said['state']}'")
        if said.get("state") == "absent":
            if not any(said.get(key) for key in keys):
                raise Failure(f"{where}: say which {what} is to be absent, by its {' or '.join(keys)}")
            gone += [device] if device is not None else []
            continue
        if said.get("uuid") and device is None:
            raise Failure(f"{where}: it has no {what} with the UUID {said['uuid']}")
        if device is None and rest and not (said.get("name") and rest[0].get("name")):
            device = rest.pop(0)
        pairs.append(({key: value for key, value in said.items() if key not in ("state", "uuid")}, device))
    return pairs, gone


def _named(said: Plain, have: list[Plain], keys: tuple[str, ...]) -> Plain | None:
    """Give the device that has one of these words of the entry."""
    for key in keys:
        if said.get(key) is not None:
            for device in have:
                if device.get(key) == said[key]:
                    return device
    return None


def _differing(said: Plain, nic: Plain) -> Plain:
    return {
        key: _word(value)
        for key, value in said.items()
        if value not in _MADE_UP.get(key, ()) and str(value or "") != str(nic[key] or "")
    }


def _word(value: Any) -> Any:
    """Give what an interface is changed by; nothing is ``none``."""
    return "none" if value is None else value


def _disk_told(disk: Plain) -> str:
    return f"{disk['size']} MiB" + (f", name {disk['name']}" if disk["name"] else "")


def _told(values: Plain) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())
