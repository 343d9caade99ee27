# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisors of 3.1 by name, for reading what other people's clusters say of theirs."""

HYPERVISORS = ("kvm", "xen-pvm", "chroot", "xen-hvm", "lxc", "fake")

LISTED_PARAMETERS = {
    "blockdev_prefix": "string",
    "bootloader_args": "string",
    "bootloader_path": "string",
    "cpu_cap": "int",
    "cpu_weight": "int",
    "cpuid": "string",
    "device_model": "string",
    "devices": "string",
    "drop_capabilities": "string",
    "extra_cgroups": "string",
    "extra_config": "string",
    "init_script": "string",
    "num_ttys": "int",
    "pae": "bool",
    "pci_pass": "string",
    "startup_timeout": "int",
    "use_bootloader": "bool",
    "vif_script": "string",
    "vif_type": "string",
    "viridian": "bool",
}
"""Parameters that lists of 3.1 know of hypervisors that need not be installed here, with the kind of each."""

NODE_MEMORY_NOT_REPORTED = frozenset({"kvm"})
"""Those whose nodes do not tell how much memory the node itself uses."""
