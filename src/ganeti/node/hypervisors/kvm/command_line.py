# SPDX-License-Identifier: BSD-2-Clause
"""QEMU's command line: a function of the runtime record, the disks and the open descriptors, without secrets."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import AttachedDisk
from ganeti.node.hypervisors.kvm import added_hardware, devices, disks, emulator, removable
from ganeti.node.hypervisors.kvm.display import Display
from ganeti.node.hypervisors.kvm.emulator import KVM, Emulator
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.record import RuntimeRecord

_TRANSLATION_CACHE_MIB = 32
"""Of software emulation; QEMU's own choice is many times the memory of a small guest."""
_SOUND_CARDS = {
    "ac97": ("AC97,audiodev=sound",),
    "es1370": ("ES1370,audiodev=sound",),
    "hda": ("intel-hda,id=hda0", "hda-duplex,bus=hda0.0,audiodev=sound"),
    "sb16": ("sb16,audiodev=sound",),
    "adlib": ("adlib,audiodev=sound",),
    "gus": ("gus,audiodev=sound",),
    "cs4231a": ("cs4231a,audiodev=sound",),
}
_RUN_WITH_USER = [9, 1]
"""From this release on QEMU has `-run-with user=`; 10 has neither `-runas` nor `-chroot` any more."""
_USB_DEVICES = {"mouse": "usb-mouse", "tablet": "usb-tablet", "keyboard": "usb-kbd", "kbd": "usb-kbd"}


@dataclass(frozen=True)
class Handed:
    """What QEMU inherits open, and what it is to show."""

    sockets: Mapping[str, int]
    """Listening sockets by kind: qmp, monitor, serial, and as wanted qga, kvmd."""
    taps: Sequence[Sequence[int]] = ()
    display: Display = field(default_factory=Display)
    user: str = ""
    """What it becomes once all is open, as ``-runas`` takes it, and ``-run-with user=``."""


def socket_kinds(record: RuntimeRecord) -> list[str]:
    kinds = ["qmp", "monitor"]
    if record.hvparams["serial_console"]:
        kinds.append("serial")
    if record.hvparams["use_guest_agent"]:
        kinds.append("qga")
    if record.hvparams["user_shutdown"]:
        kinds.append("kvmd")
    return kinds


def build(
    record: RuntimeRecord,
    qemu: Emulator,
    places: Places,
    attached: Sequence[AttachedDisk],
    handed: Handed,
    *,
    incoming: bool,
    remarks: list[str],
) -> list[str]:
    """Give the words of the command; raises `HypervisorError` for what cannot be built."""
    words = [qemu.path, "-name", f"guest={record.name},debug-threads=on", "-uuid", record.uuid]
    words += ["-pidfile", places.pid(record.name), "-nodefaults", "-no-user-config"]
    words += _confinement(record, qemu, places, handed.user)
    words += _machine(record)
    if record.hvparams["user_shutdown"] or incoming:  # one that arrives may end before anybody has asked for it
        words.append("-no-shutdown")
    if record.hvparams["reboot_behavior"] == "exit":
        words.append("-no-reboot")
    words += _boot(record)
    words += added_hardware.arguments(record)
    words += devices.root_port_arguments(record)
    words += disks.arguments(record, attached, remarks)
    words += devices.nic_arguments(record, handed.taps)
    words += removable.arguments(record)
    words += _channels(record, places, handed.sockets)
    words += handed.display.arguments
    words += _peripherals(record)
    words += ["-incoming", "defer"] if incoming else ["-S"]
    try:
        return words + shlex.split(record.hvparams["kvm_extra"])
    except ValueError as err:
        raise HypervisorError(f"kvm_extra cannot be read as in a shell: {err}") from err


def _confinement(record: RuntimeRecord, qemu: Emulator, places: Places, user: str) -> list[str]:
    words: list[str] = []
    if qemu.sandbox:
        words += ["-sandbox", emulator.SANDBOX_CHANGING_USER if user else emulator.SANDBOX]
    chroot = places.chroot(record.name) if record.hvparams["use_chroot"] else ""
    if qemu.version >= _RUN_WITH_USER:
        ways = [f"{word}={value}" for word, value in (("chroot", chroot), ("user", user)) if value]
        return words + (["-run-with", ",".join(ways)] if ways else [])
    if user:
        words += ["-runas", user]
    if chroot:
        words += ["-chroot", chroot]
    return words


def _machine(record: RuntimeRecord) -> list[str]:
    hvparams = record.hvparams
    machine = [record.machine, f"acpi={'on' if hvparams['acpi'] else 'off'}", "suppress-vmdesc=on"]
    words: list[str] = []
    if hvparams["mem_path"]:
        machine.append("memory-backend=ram0")
        path = hvparams["mem_path"].replace(",", ",,")
        words += ["-object", f"memory-backend-file,id=ram0,mem-path={path},size={record.ram_kib}k,prealloc=on"]
    words += ["-machine", ",".join(machine), "-m", _memory(record.ram_kib) + added_hardware.memory_room(record)]
    words += ["-accel", KVM if record.accelerator == KVM else f"tcg,tb-size={_TRANSLATION_CACHE_MIB}"]
    if hvparams["cpu_type"]:
        words += ["-cpu", hvparams["cpu_type"]]
    topology = added_hardware.cpu_count(record)
    for name, option in (("cpu_sockets", "sockets"), ("cpu_cores", "cores"), ("cpu_threads", "threads")):
        if hvparams[name]:
            topology.append(f"{option}={hvparams[name]}")
    words += ["-smp", ",".join(topology)]
    words += ["-rtc", f"base={'localtime' if hvparams['use_localtime'] else 'utc'}"]
    return words


def _boot(record: RuntimeRecord) -> list[str]:
    """Direct kernel boot; without a kernel the boot indexes of the devices decide."""
    hvparams = record.hvparams
    if not hvparams["kernel_path"]:
        return []
    words = ["-kernel", hvparams["kernel_path"]]
    if hvparams["initrd_path"]:
        words += ["-initrd", hvparams["initrd_path"]]
    arguments = []
    if hvparams["root_path"]:
        arguments.append(f"root={hvparams['root_path']}")
    if hvparams["kernel_args"]:
        arguments.append(hvparams["kernel_args"])
    if hvparams["serial_console"]:
        arguments.append(f"console=ttyS0,{hvparams['serial_speed']}")
    return [*words, "-append", " ".join(arguments)]


def _channels(record: RuntimeRecord, places: Places, sockets: Mapping[str, int]) -> list[str]:
    words: list[str] = []
    for kind, descriptor in sockets.items():
        chardev = f"socket,id={kind},fd={descriptor},server=on,wait=off"
        if kind == "serial":
            chardev += f",logfile={places.serial_log(record.name).replace(',', ',,')},logappend=on"
        words += ["-chardev", chardev]
    words += ["-mon", "chardev=qmp,mode=control", "-mon", "chardev=monitor,mode=readline"]
    if "kvmd" in sockets:
        words += ["-mon", "chardev=kvmd,mode=control"]
    words += ["-serial", "chardev:serial" if "serial" in sockets else "none"]
    if "qga" in sockets:
        words += ["-device", "virtio-serial-pci,id=agent-serial"]
        words += ["-device", "virtserialport,bus=agent-serial.0,chardev=qga,name=org.qemu.guest_agent.0"]
    return words


def _memory(ram_kib: int) -> str:
    """In MiB where it can be: Ganeti 3.0, should the guest be given to it, reads a plain number from the process."""
    whole, rest = divmod(ram_kib, 1024)
    return f"{ram_kib}k" if rest else str(whole)


def _peripherals(record: RuntimeRecord) -> list[str]:
    hvparams = record.hvparams
    words = ["-device", "virtio-balloon-pci,id=balloon0"]
    if record.has_rng:
        words += ["-object", "rng-random,id=rng0,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng0,id=rng0"]
    usb = usb_devices(hvparams["usb_devices"])
    if hvparams["usb_mouse"]:
        usb.insert(0, f"usb-{hvparams['usb_mouse']}")
    if usb:
        words += ["-usb", *(word for device in usb for word in ("-device", device))]
    cards = sound_cards(hvparams["soundhw"])
    if cards:
        words += ["-audiodev", f"{'spice' if hvparams['spice_bind'] else 'none'},id=sound"]
        words += [word for card in cards for word in ("-device", card)]
    if hvparams["keymap"]:
        words += ["-k", hvparams["keymap"]]
    return words


def usb_devices(text: str) -> list[str]:
    """Give QEMU's devices for ``usb_devices``; raises `HypervisorError`."""
    found = []
    for word in text.replace(",", " ").split():
        kind, _, place = word.partition(":")
        first, separator, second = place.partition(":") if ":" in place else place.partition(".")
        if kind == "host" and separator == ":" and _is_number(first, 16) and _is_number(second, 16):
            found.append(f"usb-host,vendorid={int(first, 16):#x},productid={int(second, 16):#x}")
        elif kind == "host" and separator == "." and _is_number(first, 10) and _is_number(second, 10):
            found.append(f"usb-host,hostbus={int(first)},hostaddr={int(second)}")
        elif word in _USB_DEVICES:
            found.append(_USB_DEVICES[word])
        else:
            raise HypervisorError(
                f"usb_devices cannot have '{word}': write {', '.join(_USB_DEVICES)}, "
                "host:BUS.ADDRESS or host:VENDOR:PRODUCT"
            )
    return found


def sound_cards(text: str) -> list[str]:
    """Give QEMU's devices for ``soundhw``; raises `HypervisorError`."""
    found: list[str] = []
    for word in text.replace(",", " ").split():
        if word not in _SOUND_CARDS:
            raise HypervisorError(f"soundhw cannot have '{word}': there are {', '.join(_SOUND_CARDS)}")
        found += _SOUND_CARDS[word]
    return found


def _is_number(text: str, base: int) -> bool:
    try:
        return int(text, base) >= 0
    except ValueError:
        return False
