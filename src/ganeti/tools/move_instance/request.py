# SPDX-License-Identifier: BSD-2-Clause
"""What the destination is asked for: the instance as it was, with what the administrator wants otherwise. Pure."""

from dataclasses import dataclass, field
from typing import Any

_NIC_FIELDS = ("name", "uuid", "ip", "mac", "mode", "link", "vlan", "network")
"""In the order of what OP_INSTANCE_QUERY_DATA tells; 3.0 has the same."""


@dataclass(frozen=True)
class MoveRequest:
    """What was said on the command line."""

    name: str = ""
    primary: str = ""
    secondary: str = ""
    allocator: str = ""
    template: str = ""
    compress: str = "none"
    beparams: dict[str, Any] = field(default_factory=dict)
    hvparams: dict[str, Any] = field(default_factory=dict)
    osparams: dict[str, Any] = field(default_factory=dict)
    nics: dict[int, dict[str, Any]] = field(default_factory=dict)
    keeps_source: bool = False


def creation(
    source: dict[str, Any],
    tags: list[str],
    prepared: dict[str, Any],
    wanted: MoveRequest,
    networks: set[str],
    *,
    opportunistic: bool,
) -> dict[str, Any]:
    """The body of ``POST /2/instances`` for the destination, *networks* being those that it has.

    *source* is what OP_INSTANCE_QUERY_DATA says of the instance, *prepared* the result of OP_BACKUP_PREPARE.
    """
    beparams = dict(source["be_actual"])
    if "memory" in wanted.beparams:
        beparams.pop("maxmem", None)
        beparams.pop("minmem", None)
    body: dict[str, Any] = {
        "__version__": 1,
        "mode": "remote-import",
        "instance_name": wanted.name or source["name"],
        "disk_template": wanted.template or source["disk_template"],
        "os_type": source["os"],
        "disks": [_disk(disk) for disk in source["disks"]],
        "nics": [_nic(nic, networks) | wanted.nics.get(at, {}) for at, nic in enumerate(source["nics"])],
        "hypervisor": source["hypervisor"],
        "hvparams": source["hv_instance"] | wanted.hvparams,
        "beparams": beparams | wanted.beparams,
        "osparams": source["os_instance"] | wanted.osparams,
        "tags": tags,
        "start": source["config_state"] == "up",
        "ip_check": False,
        "name_check": False,
        "source_handshake": prepared["handshake"],
        "source_x509_ca": prepared["x509_ca"],
        "source_instance_name": source["name"],
        "compress": wanted.compress,
    }
    places = {"pnode": wanted.primary, "snode": wanted.secondary, "iallocator": wanted.allocator}
    body |= {key: value for key, value in places.items() if value}
    return body | ({"opportunistic_locking": True} if opportunistic else {})


def export(prepared: dict[str, Any], waiting: dict[str, Any], wanted: MoveRequest) -> dict[str, Any]:
    """The body of ``PUT /2/instances/I/export`` for the source; *waiting* is what the destination has announced."""
    return {
        "mode": "remote",
        "destination": waiting["disks"],
        "shutdown": True,
        "remove_instance": not wanted.keeps_source,
        "x509_key_name": prepared["x509_key_name"],
        "destination_x509_ca": waiting["x509_ca"],
        "compress": wanted.compress,
    }


def _disk(disk: dict[str, Any]) -> dict[str, Any]:
    values = {"size": disk["size"], "mode": disk["mode"], "name": disk.get("name"), "spindles": disk.get("spindles")}
    return {key: value for key, value in values.items() if value is not None}


def _nic(told: list[Any], networks: set[str]) -> dict[str, Any]:
    """It keeps its addresses: the instance moves, it is no copy. A network is kept if the destination has it."""
    nic = dict(zip(_NIC_FIELDS, told, strict=False))
    own = ("network",) if nic.get("network") in networks else ("mode", "link", "vlan")
    return {key: nic[key] for key in ("name", "ip", "mac", *own) if nic.get(key)}
