# SPDX-License-Identifier: BSD-2-Clause
"""The parameters of ``kvm`` (opcodes, section 4), with the names, types, defaults and limits of 3.1.

What a single value must look like is said here; what values must not contradict each other, and what the node must
have for them, is in `checks`.
"""

import re
from typing import Any

from ganeti.model.parameters import Parameter
from ganeti.node.hypervisors import affinity

DEFAULT_KVM_PATH = "/usr/bin/kvm"
DISK_TYPES = (
    *("ide", "mtd", "paravirtual", "pflash", "scsi", "sd"),
    *("scsi-generic", "scsi-block", "scsi-hd", "scsi-cd"),
)
NIC_TYPES = (
    *("e1000", "i82551", "i82557b", "i82559er", "ne2k_isa", "ne2k_pci"),
    *("paravirtual", "pcnet", "rtl8139"),
)
_LONGEST_DOWNTIME_MS = 2000000


def _check_word(value: Any) -> str | None:
    return None if re.fullmatch(r"[A-Za-z0-9_.+-]+", str(value)) else "it must be one word"


def _check_image(value: Any) -> str | None:
    ok = str(value).startswith("/") or re.match(r"(https?|ftps?)://[^\s]+$", str(value))
    return None if ok else "it must be an absolute path or a URL (http, https, ftp, ftps)"


def _check_option_value(value: Any) -> str | None:
    return "it must not contain a line break" if re.search(r"[\r\n\0]", str(value)) else None


def _check_capabilities(value: Any) -> str | None:
    ok = re.fullmatch(r"[a-z0-9-]+(:[a-z0-9-]+)*", str(value))
    return None if ok else "write names of QEMU's migration capabilities with colons between them"


def _check_keymap(value: Any) -> str | None:
    return (
        None if re.fullmatch(r"[A-Za-z0-9_-]+", str(value)) else "it must be the name of a keyboard layout, such as de"
    )


PARAMETERS: tuple[Parameter, ...] = (
    Parameter("kvm_path", "string", DEFAULT_KVM_PATH, "path of QEMU", required=True, is_file=True),
    Parameter(
        *("kernel_path", "string", "/boot/vmlinuz-3-kvmU"),
        "kernel of the guest; empty to boot from its disk",
        is_file=True,
    ),
    Parameter("initrd_path", "string", "", "initial RAM disk of the guest's kernel", is_file=True),
    Parameter("kernel_args", "string", "ro", "arguments of the guest's kernel", check=_check_option_value),
    Parameter("root_path", "maybe-string", "/dev/vda1", "root device, as the guest's kernel names it"),
    Parameter("acpi", "bool", True, "ACPI in the guest"),
    Parameter("serial_console", "bool", True, "give the guest a serial console"),
    Parameter("serial_speed", "int", 38400, "speed of the serial console", minimum=50, maximum=4000000),
    Parameter(
        "vnc_bind_address", "string", "", "address, interface or directory of Unix sockets for VNC; empty for none"
    ),
    Parameter("vnc_tls", "bool", False, "TLS for VNC"),
    Parameter("vnc_x509_path", "string", "", "directory of VNC's certificates", is_directory=True),
    Parameter("vnc_x509_verify", "bool", False, "ask VNC clients for certificates"),
    Parameter("vnc_password_file", "string", "", "file with the password of VNC", is_file=True),
    Parameter(
        *("scsi_controller_type", "string", "lsi", "SCSI controller"), choices=("lsi", "virtio-scsi-pci", "megasas")
    ),
    Parameter("kvm_pci_reservations", "int", 12, "PCI slots left to QEMU itself", minimum=0, maximum=32),
    Parameter("spice_bind", "string", "", "address or interface for SPICE; empty for none"),
    Parameter(
        "spice_ip_version",
        "int",
        0,
        "IP version for SPICE bound to an interface: 0, 4 or 6",
        minimum=0,
        maximum=6,
        check=lambda value: None if value in (0, 4, 6) else "it must be 0, 4 or 6",
    ),
    Parameter("spice_password_file", "string", "", "file with the password of SPICE", is_file=True),
    Parameter(
        *("spice_image_compression", "string", "", "lossless compression of images"),
        choices=("", "auto_glz", "auto_lz", "glz", "lz", "off", "quic"),
    ),
    Parameter(
        *("spice_jpeg_wan_compression", "string", "", "JPEG compression on slow links"),
        choices=("", "always", "auto", "never"),
    ),
    Parameter(
        *("spice_zlib_glz_wan_compression", "string", "", "zlib compression on slow links"),
        choices=("", "always", "auto", "never"),
    ),
    Parameter("spice_streaming_video", "string", "", "detection of video", choices=("", "all", "filter", "off")),
    Parameter("spice_playback_compression", "bool", True, "compress sound"),
    Parameter("spice_use_tls", "bool", False, "TLS for SPICE"),
    Parameter("spice_tls_ciphers", "string", "HIGH:-DES:-3DES:-EXPORT:-DH", "ciphers of SPICE"),
    Parameter("spice_use_vdagent", "bool", True, "pass the mouse through the agent in the guest"),
    Parameter("floppy_image_path", "string", "", "image of a floppy disk", is_file=True),
    Parameter("cdrom_image_path", "string", "", "image of a CD, path or URL", check=_check_image),
    Parameter("cdrom2_image_path", "string", "", "image of a second CD, path or URL", check=_check_image),
    Parameter("boot_order", "string", "disk", "device to boot from", choices=("cdrom", "disk", "floppy", "network")),
    Parameter("nic_type", "string", "paravirtual", "model of the NICs", choices=NIC_TYPES),
    Parameter("disk_type", "string", "paravirtual", "interface of the disks", choices=DISK_TYPES),
    Parameter("cdrom_disk_type", "string", "", "interface of the CDs; empty as the disks", choices=("", *DISK_TYPES)),
    Parameter(
        "disk_aio", "string", "threads", "how disks are read and written", choices=("", "threads", "native", "io_uring")
    ),
    Parameter("usb_mouse", "string", "", "USB pointer", choices=("", "mouse", "tablet")),
    Parameter("keymap", "string", "", "keyboard layout", check=_check_keymap),
    Parameter(
        "migration_port", "int", 8102, "first port tried for migration", minimum=1, maximum=65534, cluster_only=True
    ),
    Parameter(
        *("migration_bandwidth", "int", 32, "most MiB/s of a migration; 0 for no limit"),
        minimum=0,
        required=True,
        cluster_only=True,
    ),
    Parameter(
        *("migration_downtime", "int", 30, "longest stop in a migration, in ms"),
        minimum=0,
        maximum=_LONGEST_DOWNTIME_MS,
        required=True,
    ),
    Parameter(
        *("migration_mode", "string", "live", "migrate running or stopped"),
        choices=("live", "non-live"),
        cluster_only=True,
    ),
    Parameter("use_guest_agent", "bool", False, "channel to QEMU's agent in the guest"),
    Parameter("use_localtime", "bool", False, "clock of the guest in local time"),
    Parameter(
        "disk_cache",
        "string",
        "default",
        "cache of the disks",
        choices=("default", "none", "writeback", "writethrough"),
    ),
    Parameter("disk_discard", "string", "ignore", "pass on what the guest discards", choices=("", "ignore", "unmap")),
    Parameter(
        "security_model",
        "string",
        "none",
        "whom QEMU runs as: root, an id of the cluster's pool, or security_domain",
        choices=("none", "pool", "user"),
    ),
    Parameter("security_domain", "string", "", "that user, for security_model user", check=_check_word),
    Parameter("kvm_flag", "string", "", "hardware virtualisation", choices=("", "disabled", "enabled")),
    Parameter("vhost_net", "bool", True, "NICs served by the kernel, where it can"),
    Parameter("virtio_net_queues", "int", 1, "queues of a paravirtual NIC", minimum=1, maximum=8),
    Parameter("use_chroot", "bool", False, "QEMU sees an empty directory only", hides_sockets=True),
    Parameter("user_shutdown", "bool", False, "a guest that powers itself off stays off"),
    Parameter("mem_path", "string", "", "directory of huge pages", is_directory=True),
    Parameter("reboot_behavior", "string", "reboot", "what a reboot from inside does", choices=("reboot", "exit")),
    Parameter(
        "cpu_mask",
        "string",
        "all",
        "processors the guest may use: all, a list, or lists per virtual CPU",
        check=affinity.problem_of,
    ),
    Parameter(
        "cpu_type",
        "string",
        "",
        "model of the virtual CPUs and its flags",
        check=lambda value: None if re.fullmatch(r"[A-Za-z0-9_.+=,:-]+", value) else "write MODEL,FLAG,...",
    ),
    Parameter("cpu_cores", "int", 0, "cores of a socket; 0 unset", minimum=0),
    Parameter("cpu_threads", "int", 0, "threads of a core; 0 unset", minimum=0),
    Parameter("cpu_sockets", "int", 0, "sockets; 0 unset", minimum=0),
    Parameter(
        "hotplug_vcpus", "int", 0, "virtual CPUs it can have while it runs; 0 for no more", minimum=0, not_in_3_1=True
    ),
    Parameter(
        "disk_iops", "int", 0, "most reads and writes a second of a disk; 0 for no limit", minimum=0, not_in_3_1=True
    ),
    Parameter(
        "disk_bandwidth",
        "int",
        0,
        "most MiB a second of each disk; 0 for no limit",
        minimum=0,
        not_in_3_1=True,
    ),
    Parameter("hotplug_memory", "int", 0, "MiB it can have while it runs; 0 for no more", minimum=0, not_in_3_1=True),
    Parameter("soundhw", "string", "", "sound cards, with commas between them"),
    Parameter("usb_devices", "string", "", "USB devices, with commas or blanks between them"),
    Parameter("vga", "string", "", "graphics card", check=_check_word),
    Parameter("kvm_extra", "string", "", "further arguments of QEMU, as in a shell", check=_check_option_value),
    Parameter("machine_version", "string", "", "machine type; empty for q35", check=_check_word),
    Parameter("migration_caps", "string", "", "migration capabilities to switch on", check=_check_capabilities),
    Parameter("vnet_hdr", "bool", True, "offloads on paravirtual NICs"),
)

_BOOTING_FROM_DISK = {
    "kernel_path": "",
    "initrd_path": "",
    "floppy_image_path": "",
    "cdrom_image_path": "",
    "cdrom2_image_path": "",
    "boot_order": "disk",
}
"""With these a guest boots from its first disk, whatever it boots from otherwise."""


def helper_parameters(hvparams: dict[str, Any], address: str | None) -> dict[str, Any]:
    """With which a guest boots from its first disk, and finds *address* in ``/sys/class/dmi/id/product_family``."""
    extra = hvparams.get("kvm_extra", "")
    told = extra if address is None else f"{extra} -smbios type=1,family={address}".strip()
    return hvparams | _BOOTING_FROM_DISK | {"kvm_extra": told}
