# SPDX-License-Identifier: BSD-2-Clause
"""What plugging disks and plugging NICs have in common: room on the PCI bus, and letting go."""

import os
from collections.abc import Sequence
from typing import Any

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.kvm import devices
from ganeti.node.hypervisors.kvm.qmp import Qmp, QmpError, QmpTimeoutError
from ganeti.node.hypervisors.kvm.record import RuntimeRecord

_RELEASE_S = 20.0
"""For the guest to let go of a device: it decides when, and one that is booting does not answer."""


async def check_slots(qmp: Qmp, known: RuntimeRecord) -> None:
    """QEMU gives the other devices the lowest free slots: a free one below them would move them on a target."""
    first = devices.Slots(known).first
    occupied = {found["slot"] for bus in await qmp.execute("query-pci") if not bus["bus"] for found in bus["devices"]}
    if any(slot >= first for slot in occupied - own_slots(known)):
        raise HypervisorError(
            f"kvm_pci_reservations={known.hvparams['kvm_pci_reservations']} leaves too few PCI slots to QEMU to change "
            f"devices of {known.name} while it runs: raise it and start the instance again"
        )


def own_slots(known: RuntimeRecord) -> set[int]:
    """Slots of disks and NICs on the main bus."""
    bus = devices.Machine(known.machine).pci_bus
    places = [{"bus": place.bus, "addr": place.addr} for place in devices.nic_places(known).values()]
    places += [place.options for place in known.disks]
    return {int(place["addr"], 0) for place in places if place.get("bus") == bus}


def free_slot(known: RuntimeRecord) -> dict[str, Any]:
    """A place on the main bus; raises `HypervisorError` when there is none."""
    slots = devices.Slots(known)
    taken = own_slots(known)
    for slot in range(slots.first, slots.last + 1):
        if slot not in taken:
            return {"bus": devices.Machine(known.machine).pci_bus, "addr": f"{slot:#x}"}
    raise HypervisorError(f"{known.name} has no free PCI slot: lower kvm_pci_reservations")


async def unplug(qmp: Qmp, known: RuntimeRecord, identity: str, what: str) -> None:
    """Take a device away; one that is not there is no error. Raises `HypervisorError`."""
    try:
        await qmp.execute("device_del", {"id": identity})
    except QmpError as err:
        if err.error_class == "DeviceNotFound":
            return
        if "in the process of unplug" not in str(err):
            raise
    try:
        while (await qmp.wait_event("DEVICE_DELETED", timeout_s=_RELEASE_S))["data"].get("device") != identity:
            pass
    except QmpTimeoutError as err:
        raise HypervisorError(
            f"{known.name} does not let go of {what} within {_RELEASE_S:g} s: try again when it has booted"
        ) from err


async def hand_over(qmp: Qmp, number: int, path: str, what: str, modes: Sequence[int]) -> str:
    """Give QEMU a file, opened in each of *modes*, as a set of this *number*; gives the name that it has there.

    QEMU may see an empty directory only, and be a user who may not open the file.
    """
    for mode in modes:
        try:
            descriptor = os.open(path, mode | os.O_CLOEXEC)
        except OSError as err:
            raise HypervisorError(f"{what} at {path} cannot be opened: {err.strerror}") from err
        try:
            await qmp.execute("add-fd", {"fdset-id": number}, descriptor=descriptor)
        finally:
            os.close(descriptor)
    return f"/dev/fdset/{number}"


async def writes_through(qmp: Qmp, identity: str) -> bool:
    """Whether a disk tells its guest that each write is on the disk at once; a device without the word does not."""
    try:
        state = await qmp.execute("qom-get", {"path": f"/machine/peripheral/{identity}", "property": "write-cache"})
    except QmpError:
        return False
    return bool(state == "off")


async def there(qmp: Qmp) -> set[str]:
    """Names of the devices that the guest has now."""
    return {entry["name"] for entry in await qmp.execute("qom-list", {"path": "/machine/peripheral"})}
