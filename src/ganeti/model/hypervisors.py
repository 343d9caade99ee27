# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisors of 3.1 by name, for reading what other people's clusters say of theirs."""

from typing import Any

HYPERVISORS = ("kvm", "xen-pvm", "chroot", "xen-hvm", "lxc", "fake")

ONLY_IN_3_0 = {"xen-pvm": {"xen_cmd": "xl"}, "xen-hvm": {"xen_cmd": "xl"}}
"""Parameters that every cluster of 3.0 has and no later version knows, with what they are here, by hypervisor."""

_XEN = {
    "blockdev_prefix": "sd",
    "cpu_cap": 0,
    "cpu_mask": "all",
    "cpu_weight": 256,
    "cpuid": "",
    "migration_mode": "live",
    "migration_port": 8002,
    "reboot_behavior": "reboot",
    "soundhw": "",
    "vif_script": "",
}

PARAMETERS_OF_3_1: dict[str, dict[str, Any]] = {
    "chroot": {"init_script": "/ganeti-chroot"},
    "lxc": {
        "cpu_mask": "",
        "devices": "c 1:3 rw,c 1:5 rw,c 1:7 rw,c 1:8 rw,c 1:9 rw,c 1:10 rw,c 5:0 rw,c 5:1 rw,c 5:2 rw,c 136:* rw",
        "drop_capabilities": "mac_override,sys_boot,sys_module,sys_time,sys_admin",
        "extra_cgroups": "",
        "extra_config": "",
        "num_ttys": 6,
        "startup_timeout": 30,
    },
    "xen-hvm": {
        **_XEN,
        "acpi": True,
        "blockdev_prefix": "hd",
        "boot_order": "cd",
        "cdrom_image_path": "",
        "device_model": "/usr/lib/xen/bin/qemu-dm",
        "disk_type": "paravirtual",
        "kernel_path": "/usr/lib/xen/boot/hvmloader",
        "migration_mode": "non-live",
        "nic_type": "rtl8139",
        "pae": True,
        "pci_pass": "",
        "use_localtime": False,
        "vif_type": "ioemu",
        "viridian": False,
        "vnc_bind_address": "0.0.0.0",
        "vnc_password_file": "/etc/ganeti/vnc-cluster-password",
    },
    "xen-pvm": {
        **_XEN,
        "bootloader_args": "",
        "bootloader_path": "",
        "initrd_path": "",
        "kernel_args": "ro",
        "kernel_path": "/boot/vmlinuz-3-xenU",
        "root_path": "/dev/xvda1",
        "use_bootloader": False,
    },
}
"""Built-in defaults (opcodes, section 4) of those that few clusters use: a `config.data` of 3.1 has those of all."""

NODE_MEMORY_NOT_REPORTED = frozenset({"kvm"})
"""Those whose nodes do not tell how much memory the node itself uses."""
