# SPDX-License-Identifier: BSD-2-Clause
"""Parameters that a running guest takes over: CDs, passwords, processors, memory, limits of disks, reboots, migration.

Each is noted in the runtime record when QEMU has it, so that a migration target makes the machine as it is.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors import affinity, guest_files
from ganeti.node.hypervisors.kvm import block_nodes, display, plugging, record, removable, throttle
from ganeti.node.hypervisors.kvm.added_hardware import HardwareChange
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.process import GuestProcess
from ganeti.node.hypervisors.kvm.qmp import Qmp
from ganeti.node.hypervisors.kvm.record import RuntimeRecord
from ganeti.ports.node_world import NodeWorld

_READ_AT_USE = ("migration_downtime", "migration_caps")
"""Read from the record when a migration begins."""
_PASSWORDS = {"vnc_password_file": "vnc", "spice_password_file": "spice"}
_CD_SETS = range(700, 1000)
"""Numbers of sets of open files that are those of CDs; those of disks are below."""


class ParameterChange:
    """One change of a guest's parameters; *known* is its record before."""

    def __init__(self, world: NodeWorld, places: Places, guest: GuestProcess, known: RuntimeRecord) -> None:
        self._world = world
        self._places = places
        self._guest = guest
        self._known = known

    async def run(self, hvparams: Mapping[str, Any], beparams: Mapping[str, Any], names: Sequence[str]) -> list[str]:
        """Give the guest the values of *names* (``hv/NAME``, ``be/NAME``); gives the names of those that it has now.

        Raises `HypervisorError` for a value that QEMU refuses; those before it hold.
        """
        taken = []
        async with Qmp(self._places.socket(self._known.name, "qmp")) as qmp:
            for each in names:
                kind, _, name = each.partition("/")
                if kind == "be":
                    is_taken = await self._take_backend(qmp, name, beparams[name])
                elif is_taken := await self._take(qmp, name, hvparams[name]):
                    changed = self._known.hvparams | {name: hvparams[name]}
                    self._known = msgspec.structs.replace(self._known, hvparams=changed)
                    record.write(self._places, self._known)
                if is_taken:
                    taken.append(each)
        return taken

    async def _take_backend(self, qmp: Qmp, name: str, value: Any) -> bool:
        change = HardwareChange(self._places, self._known)
        if name == "vcpus":
            is_taken = await change.set_vcpus(qmp, int(value))
        elif name == "maxmem":
            is_taken = await change.set_memory(qmp, int(value))
        else:
            return False
        self._known = change.known
        if name == "vcpus" and is_taken and len(affinity.parse(self._known.hvparams["cpu_mask"])) == 1:
            await self._pin(qmp, "cpu_mask", self._known.hvparams["cpu_mask"])
        return is_taken

    async def _take(self, qmp: Qmp, name: str, value: Any) -> bool:
        """Give one value; false where the guest goes on with the one that it has."""
        changes: dict[str, Callable[[Qmp, str, Any], Awaitable[bool]]] = {
            **dict.fromkeys(removable.CD_PARAMETERS, self._change_cd),
            **dict.fromkeys(_PASSWORDS, self._set_password),
            **dict.fromkeys(throttle.PARAMETERS, self._throttle),
            "cpu_mask": self._pin,
            "reboot_behavior": self._set_reboot,
        }
        if self._known.hvparams.get(name) == value and name not in _PASSWORDS:
            return True
        if name in _READ_AT_USE:
            return True
        return await changes[name](qmp, name, value) if name in changes else False

    async def _change_cd(self, qmp: Qmp, name: str, image: str) -> bool:
        """Put another CD into a drive, or none; a guest that runs without the drive is given one where it can be."""
        if removable.obstacle(self._known, name):
            return not image
        drive = removable.drive_of(name)
        is_there = drive in await plugging.there(qmp)  # perhaps since a change that was interrupted before the record
        if not is_there and not image:
            return True
        if name not in self._known.cd_drives:
            await self._add_drive(qmp, name, "" if is_there else image)
        if not is_there:
            return True
        before = await _inserted(qmp, drive)
        if image:
            change: dict[str, Any] = {
                "id": drive,
                "filename": await self._handed(qmp, name, image),
                "format": "raw",
                "read-only-mode": "read-only",
                "force": True,
            }
            await qmp.execute("blockdev-change-medium", change)
        else:
            await qmp.execute("eject", {"id": drive, "force": True})
            await qmp.execute("blockdev-close-tray", {"id": drive})
        if before and not before.startswith("#"):  # of the command line, which QEMU does not close by itself
            await qmp.execute("blockdev-del", {"node-name": before})
        await self._drop_unused_sets(qmp)
        return True

    async def _add_drive(self, qmp: Qmp, name: str, image: str) -> None:
        """Plug a drive with its CD in it: a guest looks at once, and perhaps not again. Without, note a drive only."""
        wanted = msgspec.structs.replace(self._known, hvparams=self._known.hvparams | {name: image})
        wanted = removable.with_drive(wanted, name)
        if image:
            drive = removable.drive_of(name)
            await block_nodes.close_node(self._world, qmp, drive)  # of a change that was interrupted here
            node = removable.image_node(image, drive)
            if "filename" in node["file"]:
                node["file"]["filename"] = await self._handed(qmp, name, image)
            await qmp.execute("blockdev-add", node)
            await qmp.execute("device_add", removable.drive_device(wanted, name))
        self._known = wanted
        record.write(self._places, self._known)

    async def _handed(self, qmp: Qmp, name: str, image: str) -> str:
        """Under which name QEMU opens an image."""
        if "://" in image:
            return image
        guest_files.check_places(self._places.paths, {name: image})
        return await plugging.hand_over(qmp, await _free_set(qmp), image, f"The image of {name}", [os.O_RDONLY])

    async def _drop_unused_sets(self, qmp: Qmp) -> None:
        used = {node["file"] for node in await qmp.execute("query-named-block-nodes", {"flat": True})}
        for entry in await qmp.execute("query-fdsets"):
            number = entry["fdset-id"]
            if number in _CD_SETS and f"/dev/fdset/{number}" not in used:
                await qmp.execute("remove-fd", {"fdset-id": number})

    async def _set_password(self, qmp: Qmp, name: str, path: str) -> bool:
        """Read the password again; a display that was started without one keeps having none."""
        if not path or not self._known.hvparams[name]:
            return False
        guest_files.check_password(self._places.paths, name, path)
        password = display.read_password(path, name)
        await qmp.execute("set_password", {"protocol": _PASSWORDS[name], "password": password})
        return True

    async def _pin(self, qmp: Qmp, name: str, mask: str) -> bool:
        affinity.check(mask, self._known.vcpus)
        threads = await qmp.execute("query-cpus-fast")
        affinity.apply(
            mask,
            self._guest.pid,
            {entry["cpu-index"]: entry["thread-id"] for entry in threads},
            anywhere=frozenset(os.sched_getaffinity(0)),
        )
        return True

    async def _throttle(self, qmp: Qmp, name: str, value: int) -> bool:
        wanted = msgspec.structs.replace(self._known, hvparams=self._known.hvparams | {name: value})
        await throttle.apply(qmp, wanted, self._known.disks)
        return True

    async def _set_reboot(self, qmp: Qmp, name: str, value: str) -> bool:
        await qmp.execute("set-action", {"reboot": "shutdown" if value == "exit" else "reset"})
        return True


async def _inserted(qmp: Qmp, drive: str) -> str:
    """Name of the block node in a drive; empty where there is none."""
    for entry in await qmp.execute("query-block"):
        if str(entry.get("qdev", "")).rpartition("/")[2] == drive:
            return str(entry.get("inserted", {}).get("node-name", ""))
    raise HypervisorError(f"QEMU has no drive {drive}")


async def _free_set(qmp: Qmp) -> int:
    taken = {entry["fdset-id"] for entry in await qmp.execute("query-fdsets")}
    return next(number for number in _CD_SETS if number not in taken)
