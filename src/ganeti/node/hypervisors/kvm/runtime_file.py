# SPDX-License-Identifier: BSD-2-Clause
"""The runtime file of Ganeti 3.0 and 3.1, ``conf/NAME.runtime``: read when a guest is taken over, written when one is
given back.

A JSON list: QEMU's arguments without disks and NICs; the NICs; the hypervisor parameters; the disks, each with the
path QEMU opened. ``hvinfo`` of a NIC or a disk says where in the machine it is.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from ganeti.base.addresses import host_and_port
from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import NicSpec
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.record import DiskPlace, NicPlace, RuntimeRecord

_MACHINES = ("-machine", "-M")
_KVM = "-enable-kvm"
_VNC_BASE = 5900
_SERIAL_SUFFIX = "console=ttyS0,{speed}"
NOT_MIGRATED = (
    "it was started by an earlier Ganeti, and another node would make another machine of it: stop it and start it again"
)


class ForeignRuntime(msgspec.Struct, frozen=True, array_like=True):
    """The file as it is; what later versions append is dropped."""

    command: list[str | int]
    nics: list[dict[str, Any]]
    hvparams: dict[str, Any]
    disks: list[list[Any]]

    def option(self, *names: str) -> str | None:
        """The value of one of QEMU's options, by the names it has."""
        for at, word in enumerate(self.command[:-1]):
            if word in names:
                return str(self.command[at + 1])
        return None


def decode(data: bytes, path: str) -> ForeignRuntime | None:
    """None for a record of this program; raises `HypervisorError` for what is neither."""
    if data.lstrip()[:1] == b"{":
        return None
    try:
        return msgspec.json.decode(data, type=ForeignRuntime)
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise HypervisorError(f"The runtime file {path} cannot be understood: {err}") from err


def to_record(
    name: str,
    found: ForeignRuntime,
    hvparams: dict[str, Any],
    *,
    qemu_version: list[int],
    network_port: int | None,
    tags: list[str],
) -> RuntimeRecord:
    """The same guest as this program notes it; *hvparams* are those of *found* with every parameter filled.

    Raises `HypervisorError` for a guest that cannot be managed, which says why.
    """
    machine, uuid = found.option(*_MACHINES), found.option("-uuid")
    memory, vcpus = found.option("-m"), found.option("-smp")
    if machine is None or uuid is None or memory is None or vcpus is None:
        raise HypervisorError(f"The runtime file of {name} names no machine, memory, processors or UUID")
    memory_mib, count = memory.partition(",")[0], vcpus.partition(",")[0]
    if not memory_mib.isdigit() or not count.isdigit():
        raise HypervisorError(f"The runtime file of {name} has -m {memory} and -smp {vcpus}: numbers were expected")
    nics = [_nic(name, index, nic) for index, nic in enumerate(found.nics)]
    return RuntimeRecord(
        name=name,
        uuid=uuid,
        hvparams=hvparams,
        vcpus=int(count),
        memory_mib=int(memory_mib),
        ram_kib=int(memory_mib) * 1024,
        machine=machine.partition(",")[0],
        accelerator="kvm" if _KVM in found.command or "accel=kvm" in machine else "tcg",
        qemu_version=qemu_version,
        has_rng=False,
        nics=nics,
        nic_places={nic.uuid: _place(name, plain) for nic, plain in zip(nics, found.nics, strict=True)},
        disks=[_disk(name, plain) for plain, *_ in found.disks],
        network_port=network_port,
        tags=tags,
        started=True,
        is_adopted=True,
        live_obstacle=NOT_MIGRATED,
    )


def with_nics(found: ForeignRuntime, known: RuntimeRecord) -> ForeignRuntime:
    """The file of a guest whose NICs have been changed since it was taken over."""
    return ForeignRuntime(found.command, _nics_of(known), found.hvparams, found.disks)


def compose(known: RuntimeRecord, disks: Sequence[dict[str, Any]], places: Places) -> ForeignRuntime:
    """The file of a guest that this program has started: its next start by Ganeti 3.0 makes a machine of 3.0.

    *disks* are those of the configuration, in their order.
    """
    linked = [
        [disk | {"hvinfo": {"driver": "virtio-blk-pci", "id": f"disk{at}"}}, link_of(places, known.name, at), None]
        for at, disk in enumerate(disks)
    ]
    return ForeignRuntime(_command(known, places), _nics_of(known), known.hvparams, linked)


def link_of(places: Places, name: str, index: int) -> str:
    """The link that Ganeti 3.0 reaches a disk by."""
    return f"{places.paths.run_dir}/instance-disks/{name}:{index}"


def _command(known: RuntimeRecord, places: Places) -> list[str | int]:
    values, control = known.hvparams, f"{places.base}/ctrl/{known.name}"
    words: list[str | int] = [values["kvm_path"], "-name", known.name, "-m", known.memory_mib, "-smp", str(known.vcpus)]
    words += ["-pidfile", places.pid(known.name), "-device", "virtio-balloon", "-daemonize"]
    words += ["-D", places.log(known.name)]
    if known.accelerator == "kvm":
        words.append(_KVM)
    words += ["-machine", values["machine_version"] or "pc"]
    if values["kernel_path"]:
        words += ["-kernel", values["kernel_path"]]
        if values["initrd_path"]:
            words += ["-initrd", values["initrd_path"]]
        line = [f"root={values['root_path']}" if values["root_path"] else "", values["kernel_args"]]
        line.append(_SERIAL_SUFFIX.format(speed=values["serial_speed"]) if values["serial_console"] else "")
        words += ["-append", " ".join(filter(None, line))]
    words += ["-monitor", f"unix:{control}.monitor,server,nowait"]
    words += ["-serial", f"unix:{control}.serial,server,nowait" if values["serial_console"] else "none"]
    if values["vnc_bind_address"] and known.network_port:
        words += ["-usb", "-vnc", host_and_port(values["vnc_bind_address"], known.network_port - _VNC_BASE)]
    else:
        words += ["-usb", "-display", "none"]
    if values["cpu_type"]:
        words += ["-cpu", values["cpu_type"]]
    return [*words, "-uuid", known.uuid]


def _nics_of(known: RuntimeRecord) -> list[dict[str, Any]]:
    nics = []
    for nic in known.nics:
        plain: dict[str, Any] = {"mac": nic.mac}
        plain |= {"ip": nic.ip} if nic.ip else {}
        plain |= {"name": nic.name} if nic.name else {}
        plain |= {"network": nic.network["uuid"]} if nic.network and "uuid" in nic.network else {}
        plain["nicparams"] = {"link": nic.link, "mode": nic.mode, "vlan": nic.vlan}
        place = known.nic_places.get(nic.uuid)
        if place is not None:
            placed = {"bus": place.bus, "addr": place.addr} if place.bus else {}
            plain["hvinfo"] = {"driver": "virtio-net-pci", "id": place.identity, **placed}
        nics.append(plain | {"uuid": nic.uuid})
    return nics


def _nic(name: str, index: int, plain: dict[str, Any]) -> NicSpec:
    parameters = plain.get("nicparams") or {}
    try:
        return NicSpec(
            index=index,
            uuid=plain["uuid"],
            mac=plain["mac"],
            mode=parameters["mode"],
            link=parameters.get("link") or "",
            vlan=parameters.get("vlan") or "",
            ip=plain.get("ip"),
            name=plain.get("name"),
            network={"uuid": plain["network"]} if plain.get("network") else None,
        )
    except KeyError as err:
        raise HypervisorError(f"The runtime file of {name} does not say the {err} of NIC {index}") from err


def _disk(name: str, plain: dict[str, Any]) -> DiskPlace:
    where = plain.get("hvinfo") or {}
    if "id" not in where or "uuid" not in plain:
        raise HypervisorError(f"The runtime file of {name} does not say where in the machine a disk is")
    options = {key: where[key] for key in ("bus", "addr", "scsi-id", "lun", "channel") if key in where}
    return DiskPlace(uuid=plain["uuid"], identity=where["id"], options=options)


def _place(name: str, plain: dict[str, Any]) -> NicPlace:
    where = plain.get("hvinfo") or {}
    if "id" not in where:
        raise HypervisorError(f"The runtime file of {name} does not say where in the machine a NIC is")
    return NicPlace(identity=where["id"], bus=where.get("bus") or "", addr=str(where.get("addr") or ""))
