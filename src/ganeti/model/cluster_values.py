# SPDX-License-Identifier: BSD-2-Clause
"""Single values of the cluster object that have a form: the same whether a cluster is made with them or given them."""

import re
from collections.abc import Collection, Sequence

from ganeti.base import names
from ganeti.base.errors import ParameterError

DEFAULT_DIRECTORIES = {
    "file_storage_dir": "/srv/ganeti/file-storage",
    "shared_file_storage_dir": "/srv/ganeti/shared-file-storage",
    "gluster_storage_dir": "/var/run/ganeti/gluster",
}
"""Where a new cluster keeps disks in files, by the attribute that says so."""

_MAC_PREFIX = re.compile(r"[0-9a-f]{2}:[0-9a-f]{2}:[0-9a-f]{2}", re.IGNORECASE)

UNUSED = {
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


def known_names(given: Sequence[str], what: str, known: Collection[str]) -> None:
    """Refuse an empty list of drivers, an unknown one and one that is given twice; raises `ParameterError`."""
    if not given:
        raise ParameterError(f"At least one {what} must be enabled: there are {', '.join(sorted(known))}")
    for name in given:
        if name not in known:
            raise ParameterError(f"Unknown {what} '{names.shown(name)}': there are {', '.join(sorted(known))}")
        if list(given).count(name) > 1:
            raise ParameterError(f"The {what} '{name}' is given twice")


def storage_directory(setting: str, path: str) -> str:
    """Give a directory for disks in files, without a slash at its end; raises `ParameterError`."""
    if not path.startswith("/"):
        raise ParameterError(f"'{names.shown(path)}' for {setting} is not an absolute path")
    path = path.rstrip("/") or "/"
    if (fault := names.absolute_path_fault(path)) is not None:
        raise ParameterError(f"'{names.shown(path)}' cannot be {setting}: {fault}")
    return path


def master_netmask(length: int, longest: int) -> int:
    """Give the prefix length of the master's address, whose kind has up to *longest* bits; raises `ParameterError`."""
    if not 0 < length <= longest:
        raise ParameterError(f"The master netmask {length} is not a prefix length: it is from 1 to {longest}")
    return length


def network_device(name: str) -> str:
    """Give the name of a network interface; raises `ParameterError`."""
    if not 0 < len(name) <= 15 or "/" in name or name in (".", "..") or any(each.isspace() for each in name):
        raise ParameterError(f"'{names.shown(name)}' cannot be the name of a network interface: give one such as eth0")
    return name
