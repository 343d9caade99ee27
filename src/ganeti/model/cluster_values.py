# SPDX-License-Identifier: BSD-2-Clause
"""Single values of the cluster object that have a form: the same whether a cluster is made with them or given them."""

import re

from ganeti.base.errors import ParameterError

_MAC_PREFIX = re.compile(r"[0-9a-f]{2}:[0-9a-f]{2}:[0-9a-f]{2}", re.IGNORECASE)

UNUSED = {
    "maintain_node_health": "maintain_node_health cannot be set yet: what runs on a node that is marked offline is not "
    "stopped by itself; leave it out, and switch such a node off",
    "install_image": "install_image cannot be set yet: no instance is installed from an image here; leave it out",
    "zeroing_image": "zeroing_image cannot be set yet: the free space of disks is not zeroed here; leave it out",
    "compression_tools": "compression_tools cannot be set yet: nothing is compressed before there are backups; leave "
    "it out",
    "reserved_lvs": "reserved_lvs cannot be set yet: there are no disks in LVM volume groups here; leave it out",
}
"""Settings that `config.data` of 3.1 may carry and nothing here acts on: why each is refused."""


def mac_prefix(given: str) -> str:
    """Give the first three bytes of MAC addresses in small letters; raises `ParameterError`."""
    if not _MAC_PREFIX.fullmatch(given):
        raise ParameterError(f"The MAC prefix '{given}' is not one: write three bytes in hexadecimal, such as aa:00:00")
    if int(given[:2], 16) & 1:
        raise ParameterError(f"The MAC prefix '{given}' is one of group addresses: its first byte must be even")
    return given.lower()
