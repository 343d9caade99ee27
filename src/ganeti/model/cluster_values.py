# SPDX-License-Identifier: BSD-2-Clause
"""Single values of the cluster object that have a form: the same whether a cluster is made with them or given them."""

import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from ganeti.base import names
from ganeti.base.errors import ParameterError

DEFAULT_DIRECTORIES = {
    "file_storage_dir": "/srv/ganeti/file-storage",
    "shared_file_storage_dir": "/srv/ganeti/shared-file-storage",
    "gluster_storage_dir": "/var/run/ganeti/gluster",
}
"""Where a new cluster keeps disks in files, by the attribute that says so."""

_MAC_PREFIX = re.compile(r"[0-9a-f]{2}:[0-9a-f]{2}:[0-9a-f]{2}", re.IGNORECASE)

_TOOL = re.compile(r"[-_A-Za-z0-9]+")
ALWAYS_A_TOOL = "gzip"
"""The compression tool that other programs take for granted."""
_IMAGE = re.compile(r"/|(https?|ftp)://[^/]", re.IGNORECASE)


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


def compression_tools(given: Sequence[str]) -> list[str]:
    """Give the names of programs that may compress disks on their way; raises `ParameterError`."""
    for name in given:
        if not _TOOL.fullmatch(name) or name == "none":
            raise ParameterError(
                f"'{names.shown(name)}' cannot be a compression tool: name a program by letters, digits, '-' and '_'"
            )
    if ALWAYS_A_TOOL not in given:
        raise ParameterError(f"The compression tool {ALWAYS_A_TOOL} cannot be left out: add it to the list")
    return list(dict.fromkeys(given))


def image_place(setting: str, given: str) -> str:
    """Give an absolute path, or a URL, of a disk image; raises `ParameterError`. Empty is none."""
    if given and not _IMAGE.match(given):
        raise ParameterError(
            f"'{names.shown(given)}' cannot be the {setting}: give an absolute path, or a URL of http, https or ftp"
        )
    return given


def volume_patterns(given: Sequence[str]) -> list[str]:
    """Give regular expressions of names ``VG/LV``; raises `ParameterError`."""
    for pattern in given:
        try:
            re.compile(pattern)
        except re.error as err:
            raise ParameterError(f"'{names.shown(pattern)}' is no regular expression: {err}") from err
    return list(given)


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


FORMS: dict[str, Callable[[Any], Any]] = {
    "mac_prefix": mac_prefix,
    "install_image": partial(image_place, "install image"),
    "zeroing_image": partial(image_place, "zeroing image"),
    "compression_tools": compression_tools,
    "reserved_lvs": volume_patterns,
}
"""Attributes of the cluster that stand alone, with what checks and writes each; raises `ParameterError`."""
