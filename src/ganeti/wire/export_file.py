# SPDX-License-Identifier: BSD-2-Clause
"""`config.ini` of an export: what the instance was (protocols, section 12), all values texts as 3.1 writes them."""

import configparser
import io
from collections.abc import Mapping
from typing import Any

import msgspec

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError

VERSION = 0
DUMPS = "dumps"
"""The section with the size of each dump in bytes, so that one that was cut is noticed. Ganeti 3.1 ignores it."""
CHECKSUMS = "dumps_sha256"
"""Another one: the checksum of each dump, so that one that was changed is noticed."""
NIC_KEYS = ("mac", "ip", "name", "network", "mode", "link", "vlan")


class ExportedDisk(msgspec.Struct, frozen=True, kw_only=True):
    ivname: str
    dump: str
    """File name in the directory of the export; empty for a disk that could not be exported."""
    size_mib: int
    name: str | None = None
    dump_bytes: int | None = None
    """Size of the dump; exports of Ganeti do not say it."""
    sha256: str | None = None
    """Of the dump; exports of Ganeti do not say it."""


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """One exported instance, every parameter filled."""

    name: str
    timestamp: int
    """Seconds since the epoch."""
    source: str
    """Name of the node that it ran on."""
    os: str
    disk_template: str
    hypervisor: str
    compression: str = "none"
    """Of the dump files; 3.1 has no other."""
    tags: list[str] = []
    nics: list[dict[str, str]] = []
    """By `NIC_KEYS`; what a NIC does not have is left out."""
    disks: list[ExportedDisk] = []
    hvparams: dict[str, str] = {}
    beparams: dict[str, str] = {}
    osparams: dict[str, str] = {}
    osparams_private: dict[str, str] = {}


def encode(export: Export) -> str:
    parser = _parser()
    parser["export"] = {
        "version": str(VERSION),
        "timestamp": str(export.timestamp),
        "source": export.source,
        "os": export.os,
        "compression": export.compression,
    }
    backend = export.beparams
    parser["instance"] = {
        "name": export.name,
        "maxmem": backend.get("maxmem", ""),
        "minmem": backend.get("minmem", ""),
        "memory": backend.get("maxmem", ""),
        "vcpus": backend.get("vcpus", ""),
        "disk_template": export.disk_template,
        "hypervisor": export.hypervisor,
        "tags": " ".join(export.tags),
        **{f"nic{at}_{key}": nic.get(key, "None") for at, nic in enumerate(export.nics) for key in NIC_KEYS},
        "nic_count": str(len(export.nics)),
        **{key: value for at, disk in enumerate(export.disks) for key, value in _disk(at, disk).items()},
        "disk_count": str(len(export.disks)),
    }
    parser["hypervisor"] = export.hvparams
    parser["backend"] = backend
    parser["os"] = export.osparams
    parser["os_private"] = export.osparams_private
    parser[DUMPS] = {disk.dump: str(disk.dump_bytes) for disk in export.disks if disk.dump_bytes is not None}
    parser[CHECKSUMS] = {disk.dump: disk.sha256 for disk in export.disks if disk.sha256 is not None}
    text = io.StringIO()
    parser.write(text)
    return text.getvalue()


def decode(text: str) -> Export:
    """Read what this version or 3.1 has written; raises `PrerequisiteError` for what is not whole."""
    parser = _parser()
    try:
        parser.read_string(text)
        head, instance = parser["export"], parser["instance"]
        if int(head["version"]) != VERSION:
            raise PrerequisiteError(
                f"The export has version {head['version']}, and version {VERSION} can be imported", WRONG_INPUT
            )
        return Export(
            name=instance["name"],
            timestamp=int(float(head["timestamp"])),
            source=head["source"],
            os=head["os"],
            compression=head.get("compression", "none"),
            disk_template=instance["disk_template"],
            hypervisor=instance.get("hypervisor", ""),
            tags=instance.get("tags", "").split(),
            nics=[_nic(instance, at) for at in range(int(instance.get("nic_count", "0")))],
            disks=[
                _read_disk(instance, at, _section(parser, DUMPS), _section(parser, CHECKSUMS))
                for at in range(int(instance.get("disk_count", "0")))
            ],
            hvparams=_section(parser, "hypervisor"),
            beparams=_section(parser, "backend"),
            osparams=_section(parser, "os"),
            osparams_private=_section(parser, "os_private"),
        )
    except (configparser.Error, KeyError, ValueError) as err:
        raise PrerequisiteError(
            f"The config.ini of the export is damaged: {str(err).splitlines()[0]}. Export the instance again",
            WRONG_INPUT,
        ) from err


def texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in values.items()}


def _parser() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    return parser


def _section(parser: configparser.RawConfigParser, name: str) -> dict[str, str]:
    return dict(parser.items(name)) if parser.has_section(name) else {}


def _disk(at: int, disk: ExportedDisk) -> dict[str, str]:
    named = {} if disk.name is None else {f"disk{at}_name": disk.name}
    return {
        f"disk{at}_ivname": disk.ivname,
        f"disk{at}_dump": disk.dump,
        f"disk{at}_size": str(disk.size_mib),
        **named,
    }


def _read_disk(
    instance: Mapping[str, str], at: int, sizes: Mapping[str, str], checksums: Mapping[str, str]
) -> ExportedDisk:
    dump = instance.get(f"disk{at}_dump", "")
    return ExportedDisk(
        ivname=instance.get(f"disk{at}_ivname", f"disk/{at}"),
        dump=dump,
        size_mib=int(instance[f"disk{at}_size"]),
        name=_present(instance.get(f"disk{at}_name", "")),
        dump_bytes=int(sizes[dump]) if dump in sizes else None,
        sha256=checksums[dump].strip().lower() if dump in checksums else None,
    )


def _nic(instance: Mapping[str, str], at: int) -> dict[str, str]:
    values = {key: _present(instance.get(f"nic{at}_{key}", "")) for key in NIC_KEYS}
    return {key: value for key, value in values.items() if value is not None}


def _present(text: str) -> str | None:
    return None if text.lower() in ("", "none") else text
