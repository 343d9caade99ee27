# SPDX-License-Identifier: BSD-2-Clause
"""The parameters of ``xen-pvm`` and ``xen-hvm`` (opcodes, section 4).

Each text goes between quotes into a guest's configuration file, which is a program of settings: no text may end them.
"""

import ipaddress
import re
from collections.abc import Callable
from typing import Any

from ganeti.model.hypervisors import PARAMETERS_OF_3_1
from ganeti.model.parameters import Parameter
from ganeti.node.hypervisors import affinity

_FILES = ("kernel_path", "initrd_path", "bootloader_path", "cdrom_image_path", "device_model", "vif_script")
_TEXTS = {
    "acpi": "ACPI in the guest",
    "blockdev_prefix": "how names of disks begin: sd, xvd, hd",
    "boot_order": "letters of what is booted: a floppy, c disk, d CD, n network",
    "bootloader_args": "arguments of the boot loader",
    "bootloader_path": "boot loader that reads the guest's disk",
    "cdrom_image_path": "image in the CD drive",
    "cpu_cap": "most of a processor it may use, in percent; 0 for no limit",
    "cpu_mask": "processors it may use: all, a list, or one list per virtual CPU",
    "cpu_weight": "its share of busy processors",
    "cpuid": "what the guest sees of its processor",
    "device_model": "path of the emulator of devices",
    "disk_type": "kind of its disks",
    "initrd_path": "initial RAM disk of the guest's kernel",
    "kernel_args": "arguments of the guest's kernel",
    "kernel_path": "kernel of the guest",
    "migration_mode": "migrate running or paused",
    "migration_port": "port for migration, of which xl over ssh has no need",
    "nic_type": "kind of its NICs",
    "pae": "physical address extension",
    "pci_pass": "PCI devices of the node for the guest, with semicolons between them",
    "reboot_behavior": "what follows a reboot from inside",
    "root_path": "root device, as the guest's kernel names it",
    "soundhw": "sound card",
    "use_bootloader": "boot by a boot loader in place of a kernel of the node",
    "use_localtime": "clock in local time",
    "vif_script": "script that connects its NICs",
    "vif_type": "how its NICs are attached",
    "viridian": "interfaces that Windows knows",
    "vnc_bind_address": "address of its display",
    "vnc_password_file": "file with the password of its display",
}
_CHOICES = {
    "disk_type": ("ioemu", "paravirtual"),
    "migration_mode": ("live", "non-live"),
    "nic_type": ("e1000", "ne2k_isa", "ne2k_pci", "paravirtual", "rtl8139"),
    "reboot_behavior": ("reboot", "exit"),
    "vif_type": ("", "ioemu", "vif"),
}
_BOUNDS = {"cpu_cap": (0, 100_000), "cpu_weight": (1, 65535), "migration_port": (1, 65534)}
_XEN_BIN = r"/usr/lib/xen[A-Za-z0-9.+-]*/bin/"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_PROGRAMS = {
    "bootloader_path": (
        rf"({_XEN_BIN}|/usr/bin/)pygrub|{_XEN_BIN}pvgrub[A-Za-z0-9_.+-]*",
        "pygrub or pvgrub* of /usr/lib/xen*/bin, /usr/bin/pygrub",
    ),
    "device_model": (
        rf"{_XEN_BIN}qemu-{_NAME}|/usr/bin/qemu-system-{_NAME}",
        "qemu-* of /usr/lib/xen*/bin, /usr/bin/qemu-system-*",
    ),
    "vif_script": (rf"/etc/xen/scripts/{_NAME}", "a file in /etc/xen/scripts"),
}
"""What root runs for a guest, and how that is said. Beside it are files in /etc/ganeti, which only root puts there."""
_OWN_PROGRAM = rf"/etc/ganeti/{_NAME}"
_CLUSTER_ONLY = ("migration_mode", "migration_port")


def text_fault(value: Any) -> str | None:
    """Say why a text cannot stand between quotes in a configuration of xl; None where it can."""
    return "it must not hold quotes or backslashes" if re.search(r"['\"\\]", str(value)) else None


def _check_boot_order(value: Any) -> str | None:
    return None if re.fullmatch(r"[acdn]+", str(value)) else "write letters of a, c, d and n"


def _check_prefix(value: Any) -> str | None:
    return None if re.fullmatch(r"[a-z]{2,4}", str(value)) else "write sd, xvd or hd"


def _check_address(value: Any) -> str | None:
    try:
        ipaddress.IPv4Address(str(value))
    except ValueError:
        return "it must be an IPv4 address"
    return None


def _check_pci(value: Any) -> str | None:
    ok = all(re.fullmatch(r"([0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]", one) for one in pci_devices(value))
    return None if ok else "write devices such as 04:00.0, with semicolons between them"


def _check_image(value: Any) -> str | None:
    return "it must not hold commas" if "," in str(value) else text_fault(value)


def _check_bootloader_args(value: Any) -> str | None:
    """Options alone: xl puts them behind its own, and a lone word, or the place of the output, would replace those."""
    words = str(value).split()
    if not all(re.fullmatch(r"--?[A-Za-z0-9][A-Za-z0-9_=./,-]*", word) for word in words):
        return "write options such as --kernel=/boot/vmlinuz: letters, digits and -_=./, with a '-' in front of each"
    if any(word.startswith("--ou") for word in words):
        return "where the boot loader writes is for Xen to say: leave out --output*"
    return None


def _check_program(name: str) -> Callable[[Any], str | None]:
    """What the node runs as root is a file of Xen that is made for it, or one that root has put in /etc/ganeti."""
    pattern, places = _PROGRAMS[name]

    def check(value: Any) -> str | None:
        if re.fullmatch(f"{pattern}|{_OWN_PROGRAM}", str(value)):
            return None
        return f"the node runs it as root, so it must be {places} or a file in /etc/ganeti"

    return check


def pci_devices(value: Any) -> list[str]:
    return [one.strip() for one in str(value).split(";") if one.strip()]


_CHECKS = {
    "boot_order": _check_boot_order,
    "blockdev_prefix": _check_prefix,
    "cpu_mask": affinity.problem_of,
    "vnc_bind_address": _check_address,
    "pci_pass": _check_pci,
    "bootloader_args": _check_bootloader_args,
    "cdrom_image_path": _check_image,
    **{name: _check_program(name) for name in _PROGRAMS},
}


def parameters(hypervisor: str) -> tuple[Parameter, ...]:
    """Those of one of the two."""
    return tuple(_parameter(name, default) for name, default in PARAMETERS_OF_3_1[hypervisor].items())


def _parameter(name: str, default: Any) -> Parameter:
    kind = {bool: "bool", int: "int", str: "string"}[type(default)]
    least, most = _BOUNDS.get(name, (None, None))
    return Parameter(
        name,
        "maybe-string" if name == "root_path" else kind,
        default,
        _TEXTS[name],
        choices=_CHOICES.get(name, ()),
        minimum=least,
        maximum=most,
        required=name in ("kernel_path", "device_model", "vnc_password_file"),
        is_file=name in _FILES or name == "vnc_password_file",
        check=_CHECKS.get(name, text_fault if kind == "string" else None),
        cluster_only=name in _CLUSTER_ONLY,
    )
