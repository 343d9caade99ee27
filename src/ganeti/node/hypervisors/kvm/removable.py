# SPDX-License-Identifier: BSD-2-Clause
"""CDs and the floppy of a QEMU machine."""

import json
from collections.abc import Mapping
from typing import Any

from ganeti.node.hypervisors.kvm.devices import CHOSEN_BOOT_INDEX, Machine, words
from ganeti.node.hypervisors.kvm.disks import SCSI_BUS, SCSI_TYPES, scsi_controller
from ganeti.node.hypervisors.kvm.record import RuntimeRecord

CD_PARAMETERS = ("cdrom_image_path", "cdrom2_image_path")


def arguments(record: RuntimeRecord) -> list[str]:
    """Drives, with the images that are in them."""
    hvparams = record.hvparams
    kind = hvparams["cdrom_disk_type"] or hvparams["disk_type"]
    found: list[str] = []
    on_scsi = kind in SCSI_TYPES
    if record.cd_drives and on_scsi and hvparams["disk_type"] not in SCSI_TYPES:
        found += scsi_controller(record)
    ide_before = len(record.disks) if hvparams["disk_type"] == "ide" else 0
    for index, parameter in enumerate(record.cd_drives):
        drive = drive_of(parameter)
        place = {"bus": SCSI_BUS} if on_scsi else Machine(record.machine).ide_place(ide_before + index)
        device: dict[str, Any] = {"driver": "scsi-cd" if on_scsi else "ide-cd", "id": drive} | place
        if hvparams[parameter]:
            found += ["-blockdev", json.dumps(image_node(hvparams[parameter], drive))]
            device["drive"] = drive
        if index == 0 and hvparams["boot_order"] == "cdrom":
            device["bootindex"] = CHOSEN_BOOT_INDEX
        found += ["-device", words(device)]
    if hvparams["floppy_image_path"]:
        node_options = image_node(hvparams["floppy_image_path"], "floppy0") | {"read-only": False}
        found += ["-blockdev", json.dumps(node_options), "-device", "isa-fdc,id=fdc0"]
        boot = f",bootindex={CHOSEN_BOOT_INDEX}" if hvparams["boot_order"] == "floppy" else ""
        found += ["-device", f"floppy,drive=floppy0,id=floppy0,bus=fdc0.0{boot}"]
    return found


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
