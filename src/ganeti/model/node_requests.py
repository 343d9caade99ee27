# SPDX-License-Identifier: BSD-2-Clause
"""What the master tells a node about an instance and its disks: everything filled, nothing to look up.

These shapes travel in node calls (both sides check them strictly).
"""

from typing import Any

import msgspec


class DiskSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One disk of an instance as its node sees it."""

    uuid: str
    template: str
    logical_id: list[Any]
    size_mib: int
    index: int
    mode: str = "rw"
    name: str | None = None
    params: dict[str, Any] = {}
    """Filled disk parameters of the template, ``format`` among them where the template has formats."""
    children: list["DiskSpec"] = []
    exclusive: bool = False
    """Whether the physical volumes below it hold nothing else."""
    spindles: int | None = None
    """How many physical volumes it takes then."""
    copies: dict[str, str] = {}
    """Where the template keeps several copies: the nodes that have one, with the address they are reached at."""
    generation: int | None = None
    """Of the newest copy that the configuration knows of, where the template counts them."""
    snapshots: dict[str, float] = {}
    """Their names, with the times they were taken, where the configuration keeps them."""
    holders: dict[str, str] = {}
    """Names of these nodes by their UUIDs, which logical ids name them by."""
    primary: str = ""
    """The node that uses the disk: when all copies are new, its own is the one that the others get."""

    @property
    def label(self) -> str:
        """What people and logs call it; where it has parts, the first of them: a secret may end its own logical id."""
        logical_id = self.children[0].logical_id if self.children else self.logical_id
        return str(logical_id[-1]) if logical_id else self.uuid


class NicSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    index: int
    uuid: str
    mac: str
    mode: str
    link: str
    vlan: str = ""
    ip: str | None = None
    name: str | None = None
    network: dict[str, Any] | None = None
    """The network the NIC is in, in the form of `config.data`."""


class InstanceSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    uuid: str
    hypervisor: str
    os: str
    primary_node: str
    """Name of the primary node."""
    primary_node_uuid: str
    secondary_nodes: list[str] = []
    hvparams: dict[str, Any]
    """Filled."""
    beparams: dict[str, Any]
    """Filled."""
    osparams: dict[str, Any] = {}
    """Filled, public ones."""
    osparams_private: dict[str, Any] = {}
    disks: list[DiskSpec] = []
    nics: list[NicSpec] = []
    tags: list[str] = []
    network_port: int | None = None
    ctime: float = 0.0
    mtime: float = 0.0


class AttachedDisk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A disk that a storage driver has assembled on this node, ready for a hypervisor."""

    spec: DiskSpec
    path: str
    """File or block device; empty when only *blockdev* reaches it."""
    uri: str = ""
    image_format: str = "raw"
    """``raw`` or ``qcow2``: how to read what *path* holds."""
    blockdev: dict[str, Any] | None = None
    """QEMU ``-blockdev`` protocol options, where *path* does not say it all."""
