# SPDX-License-Identifier: BSD-2-Clause
"""CDs and the floppy of a QEMU machine."""

import json
import stat
from collections.abc import Mapping
from typing import Any

import msgspec

from ganeti.node.hypervisors import guest_files
from ganeti.node.hypervisors.kvm.devices import CHOSEN_BOOT_INDEX, Machine, words
from ganeti.node.hypervisors.kvm.disks import SCSI_TYPES, SCSI_WITH_HOTPLUG, free_scsi_place, scsi_controller
from ganeti.node.hypervisors.kvm.record import RuntimeRecord

CD_PARAMETERS = ("cdrom_image_path", "cdrom2_image_path")


def with_drives(record: RuntimeRecord) -> RuntimeRecord:
    """Give the record of a start with its drives, which come after the disks.

    A guest whose CDs are to be on SCSI gets the controller without a CD too, so that one can come while it runs.
    """
    for parameter in drives(record.hvparams):
        record = with_drive(record, parameter)
    can_come = record.hvparams["scsi_controller_type"] == SCSI_WITH_HOTPLUG
    return msgspec.structs.replace(
        record, cd_controller=_needs_controller(record) and bool(can_come or record.cd_drives)
    )


def with_drive(record: RuntimeRecord, parameter: str) -> RuntimeRecord:
    """Give the record with one drive more; raises `HypervisorError` when there is no place for it."""
    record = placed(record)
    if on_scsi(record):
        place = free_scsi_place(record)
    else:
        ide_before = len(record.disks) if record.hvparams["disk_type"] == "ide" else 0
        place = Machine(record.machine).ide_place(ide_before + len(record.cd_drives))
    return msgspec.structs.replace(
        record, cd_drives=[*record.cd_drives, parameter], cd_places=record.cd_places | {parameter: place}
    )


def placed(record: RuntimeRecord) -> RuntimeRecord:
    """Give the record with the places of its drives, which guests that were started earlier did not note."""
    if len(record.cd_places) == len(record.cd_drives):
        return record
    found = msgspec.structs.replace(record, cd_drives=[], cd_places={}, cd_controller=_needs_controller(record))
    for parameter in record.cd_drives:
        found = with_drive(found, parameter)
    return found


def _needs_controller(record: RuntimeRecord) -> bool:
    """Whether CDs are on SCSI, and disks are not."""
    return on_scsi(record) and record.hvparams["disk_type"] not in SCSI_TYPES


def on_scsi(record: RuntimeRecord) -> bool:
    return (record.hvparams["cdrom_disk_type"] or record.hvparams["disk_type"]) in SCSI_TYPES


def obstacle(known: RuntimeRecord, parameter: str) -> str:
    """Why this guest has no such drive and cannot be given it while it runs; empty when it has, or can."""
    if parameter in known.cd_drives:
        return ""
    if known.is_adopted:
        return "it was started by an earlier Ganeti"
    remedy = f"cdrom_disk_type=scsi-cd,scsi_controller_type={SCSI_WITH_HOTPLUG}"
    if not on_scsi(known):
        return f"it runs without that drive, and an IDE drive cannot come; with {remedy} from its start one can"
    if (controller := known.hvparams["scsi_controller_type"]) != SCSI_WITH_HOTPLUG:
        return f"it runs without that drive, and none can come to its controller {controller}; with {remedy} one can"
    if _needs_controller(known) and not placed(known).cd_controller:
        return "it runs without a SCSI controller for CDs: stop it and start it again"
    return ""


def arguments(record: RuntimeRecord) -> list[str]:
    """Drives, with the images that are in them."""
    record = placed(record)
    hvparams = record.hvparams
    found = scsi_controller(record) if record.cd_controller else []
    for parameter in record.cd_drives:
        if hvparams[parameter]:
            found += ["-blockdev", json.dumps(image_node(hvparams[parameter], drive_of(parameter)))]
        found += ["-device", words(drive_device(record, parameter))]
    if hvparams["floppy_image_path"]:
        image = hvparams["floppy_image_path"]
        writable = guest_files.everybody_may(stat.S_IWOTH, image)  # else a guest could change programs of its node
        node_options = image_node(image, "floppy0") | {"read-only": not writable}
        found += ["-blockdev", json.dumps(node_options), "-device", "isa-fdc,id=fdc0"]
        boot = f",bootindex={CHOSEN_BOOT_INDEX}" if hvparams["boot_order"] == "floppy" else ""
        found += ["-device", f"floppy,drive=floppy0,id=floppy0,bus=fdc0.0{boot}"]
    return found


def drive_device(record: RuntimeRecord, parameter: str) -> dict[str, Any]:
    """Options of a drive's device."""
    drive = drive_of(parameter)
    device: dict[str, Any] = {"driver": "scsi-cd" if on_scsi(record) else "ide-cd", "id": drive}
    device |= record.cd_places[parameter]
    if record.hvparams[parameter]:
        device["drive"] = drive
    if parameter == record.cd_drives[0] and record.hvparams["boot_order"] == "cdrom":
        device["bootindex"] = CHOSEN_BOOT_INDEX
    return device


def drive_of(parameter: str) -> str:
    """Name of a CD's drive in QEMU."""
    return f"cdrom{CD_PARAMETERS.index(parameter)}"


def drives(hvparams: Mapping[str, Any]) -> list[str]:
    """Parameters whose drives a start gives to the machine: those with an image."""
    return [name for name in CD_PARAMETERS if hvparams[name]]


def image_node(image: str, name: str) -> dict[str, Any]:
    scheme, separator, _ = image.partition("://")
    if separator:
        protocol: dict[str, Any] = {"driver": scheme, "url": image}
    else:
        protocol = {"driver": "file", "filename": image}
    return {"driver": "raw", "node-name": name, "read-only": True, "file": protocol}
