# SPDX-License-Identifier: BSD-2-Clause
"""Where a mirrored disk is: its logical id, the volumes of each copy, and the connection seen from one of its nodes.

The logical id is ``[NODE, NODE, PORT, MINOR, MINOR, SECRET]`` (protocols, section 14).
"""

import ipaddress
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from ganeti.base.errors import BlockDeviceError
from ganeti.model.new_disk import NewDisk, Part
from ganeti.model.node_requests import DiskSpec
from ganeti.model.templates import PAIRED, TEMPLATES, UNSHARED
from ganeti.node.storage.drbd.parameters import DEFAULT_GROUP
from ganeti.node.storage.lvm.driver import group_of

META_MIB = TEMPLATES[PAIRED].metadata_mib
MAJOR = 147
"""Of DRBD's block devices."""


def logical_id(new: NewDisk) -> list[Any]:
    """Without its numbers, which the commit gives."""
    return [*new.node_uuids, None, None, None, new.secret]


def parts(new: NewDisk) -> list[Part]:
    """The volumes with the data and with DRBD's own data, called the same on both nodes."""
    name = f"{new.uuid}.disk{new.index}"
    return [
        Part(UNSHARED, [group_of(new), f"{name}_data"], new.size_mib),
        Part(UNSHARED, [_meta_group(new), f"{name}_meta"], META_MIB),
    ]


def _meta_group(new: NewDisk) -> str:
    default = new.params.get("metavg")
    if "metavg" not in new.asked and default not in ("", None, DEFAULT_GROUP):
        return str(default)
    return group_of(new, "metavg")


@dataclass(frozen=True)
class Link:
    """One device as its node sees it. A node's id within the device is its place in the logical id."""

    minor: int
    own_id: int
    peer_id: int
    peer_name: str
    local: str
    """Address and port, as DRBD's tools write them."""
    remote: str
    """Empty where the other node is not told."""
    secret: str

    @property
    def resource(self) -> str:
        """The name that 3.1 gives, so that devices of a cluster that is taken over are found."""
        return f"resource{self.minor}"


def link_of(disk: DiskSpec, node_name: str) -> Link:
    """Raises `BlockDeviceError` where the disk has no copy on this node."""
    match disk.logical_id:
        case [str() as first, str() as second, int() as port, int() as minor, int() as other_minor, str() as secret]:
            names = [disk.holders.get(uuid, "") for uuid in (first, second)]
        case _:
            raise BlockDeviceError(
                f"Disk {disk.index} cannot be used: its logical id must be [node, node, port, minor, minor, secret]"
            )
    if node_name not in names:
        raise BlockDeviceError(f"Disk {disk.index} has no copy on {node_name}: it is on {' and '.join(names)}")
    own = names.index(node_name)
    peer = names[1 - own]
    return Link(
        minor=(minor, other_minor)[own],
        own_id=own,
        peer_id=1 - own,
        peer_name=peer,
        local=_address(disk.copies.get(node_name, ""), port),
        remote=_address(disk.copies.get(peer, ""), port),
        secret=secret,
    )


def volumes(disk: DiskSpec) -> tuple[DiskSpec, DiskSpec]:
    """The volumes with the data and with DRBD's own data."""
    if len(disk.children) != 2:
        raise BlockDeviceError(f"Disk {disk.index} cannot be used: it must lie on two volumes")
    data, meta = disk.children
    return (
        structs.replace(data, params={"stripes": disk.params.get("data-stripes", 1)}),
        structs.replace(meta, params={"stripes": disk.params.get("meta-stripes", 1)}),
    )


def _address(address: str, port: int) -> str:
    if not address:
        return ""
    return f"ipv6:[{address}]:{port}" if ipaddress.ip_address(address).version == 6 else f"ipv4:{address}:{port}"
