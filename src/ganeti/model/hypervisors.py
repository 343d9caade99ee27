# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisors of 3.1 by name, for reading what other people's clusters say of theirs."""

HYPERVISORS = ("kvm", "xen-pvm", "chroot", "xen-hvm", "lxc", "fake")

NODE_MEMORY_NOT_REPORTED = frozenset({"kvm"})
"""Those whose nodes do not tell how much memory the node itself uses."""
