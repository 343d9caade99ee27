# SPDX-License-Identifier: BSD-2-Clause
"""What a disk template or a hypervisor can do, asked by those who must not know its name.

Each driver states its traits in its own file; the daemons gather them into one `Catalogue` that is handed to
operations and queries. Nothing outside the drivers compares names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError

if TYPE_CHECKING:
    from ganeti.model.new_disk import NewDisk, Part
    from ganeti.model.parameters import Parameter

KERNELSPACE, USERSPACE = "kernelspace", "userspace"
"""How a hypervisor reaches a disk: by a device of the kernel, or by a library of its own."""

VOLUME_GROUP = "lvm-vg"
"""The storage type of disks in the cluster's volume group."""


@dataclass(frozen=True)
class TemplateTraits:
    """Capabilities of a disk template (opcodes, section 8)."""

    name: str
    storage_type: str
    has_disks: bool = True
    node_count: int = 1
    """Nodes that hold a copy: 2 where primary and secondary mirror each other."""
    shared: bool = False
    """Every node of the group reaches the same data ("externally mirrored")."""
    growable: bool = True
    convertible: bool = True
    checks_free_space: bool = False
    evacuable: bool = False
    """When its node dies, an instance can be started on any other node of the group from the same disks."""
    copyable: bool = False
    """A stopped instance's disks can be copied to another node."""
    metadata_mib: int = 0
    """What each disk takes on each of its nodes beside its size."""
    directory_based: bool = False
    """Disks are files in a directory per instance, below a directory of the cluster."""
    directory_setting: str = ""
    """Attribute of the cluster that names that directory."""
    formats: tuple[str, ...] = ()
    """Values of the disk parameter ``format`` that are accepted; the first is the default."""
    parameters: tuple[Parameter, ...] = ()
    id_words: tuple[str, str] = ("DRIVER", "ID")
    """What hooks are told the parts of a logical id of two parts as."""
    logical_id_driver: str = ""
    """First element of the logical id, where the template has one (file driver name)."""
    accesses: tuple[str, ...] = (KERNELSPACE,)
    """Values of the disk parameter ``access`` that are accepted."""
    keys: tuple[str, ...] = ()
    """What can be said of a new disk of this template alone (``provider``, ``vg``, ``adopt``)."""
    free_keys: bool = False
    """Whatever else is said of a new disk is a parameter of its own, checked on the node."""
    naming: Callable[[NewDisk], list[Any]] | None = None
    """Makes the logical id of a new disk; None for a file below the instance's directory."""
    parts: Callable[[NewDisk], list[Part]] | None = None
    """What each copy of a disk lies on, where that is disks of another template."""
    diskless_primary: bool = False
    """A guest goes on without the copy of its own node, as long as the other node has one."""
    has_secret: bool = False
    """The copies of a disk prove to each other who they are by a secret of its own."""
    adoptee: Callable[[NewDisk], list[Any]] | None = None
    """The logical id of what the key ``adopt`` names; None where nothing can be adopted."""
    adopts_only: bool = False
    """Disks are there already: nothing is made."""
    counts_generations: bool = False
    """The configuration knows which copy of a disk is the newest one (`Disk.generation`)."""
    snapshots_in_configuration: bool = False
    """The storage cannot be asked what snapshots a disk has: the configuration knows (`Disk.snapshots`)."""
    quick_snapshots: bool = False
    """A snapshot of a stopped instance's disk takes a moment, and its node has a device to read it from."""
    opened_by_role: bool = False
    """A disk is told whether one node writes it or, during a migration, two."""
    new_disks_are_zeros: bool = False
    """A disk that was just made holds nothing but zeros, not what its space was used for before."""
    served: bool = False
    """A hypervisor reaches a disk at a socket of the node, and again while the guest runs, as when the disk grows."""
    locked: bool = True
    """A second node cannot open a disk of a shared template while the first one has it open."""

    @property
    def setting(self) -> str:
        """Attribute of the cluster that says where disks are kept: a directory or a volume group; empty for none."""
        return self.directory_setting or ("volume_group_name" if self.uses_node_disk else "")

    @property
    def has_secondary(self) -> bool:
        """Whether an instance lives on two nodes."""
        return self.node_count > 1

    @property
    def mirrored(self) -> bool:
        """Whether an instance survives the loss of its primary node, and can be migrated."""
        return self.shared or self.has_secondary

    @property
    def movable(self) -> bool:
        """Whether balancing and relocation may move an instance's disks."""
        return self.has_disks and self.mirrored

    @property
    def uses_node_disk(self) -> bool:
        """Whether its disks count against the free disk of the node, which is that of its volume group."""
        return self.storage_type == VOLUME_GROUP


@dataclass(frozen=True)
class HypervisorTraits:
    """Capabilities of a hypervisor (opcodes, section 4)."""

    name: str
    parameters: tuple[Parameter, ...] = ()
    can_migrate: bool = False
    can_hotplug: bool = False
    can_change_parameters: bool = False
    """Whether a running guest takes over any hypervisor or backend parameter."""
    can_copy_disks: bool = False
    """Whether the disks of a running guest can be copied as of one moment."""
    boots_backups: bool = False
    """Whether a guest boots from a backup where it is kept, what it writes going into qcow2 images."""
    can_balloon: bool = False
    can_exchange_disks: bool = False
    """Whether a guest's disk is copied and exchanged for the copy while it runs."""
    can_move_disks: bool = False
    """Whether a guest migrates with disks that only one node has."""
    needs_network_port: bool = False
    """Whether an instance gets a TCP port of the cluster (display)."""
    serves_metadata: bool = False
    """Whether guests reach the metadata daemon of their node over a NIC for communication."""
    user_shutdown_daemon: str = ""
    """What runs on each node where users may shut their guests down from inside; empty if nothing has to."""


@dataclass(frozen=True)
class Catalogue:
    """All drivers' traits by name, and the names of MonD's collectors."""

    templates: dict[str, TemplateTraits] = field(default_factory=dict)
    hypervisors: dict[str, HypervisorTraits] = field(default_factory=dict)
    collectors: tuple[str, ...] = ()

    def template(self, name: str) -> TemplateTraits:
        """Give a template's traits; raises `PrerequisiteError` listing the known ones."""
        if name not in self.templates:
            known = ", ".join(sorted(self.templates))
            raise PrerequisiteError(f"Unknown disk template '{name}': there are {known}", WRONG_INPUT)
        return self.templates[name]

    def hypervisor(self, name: str) -> HypervisorTraits:
        """Give a hypervisor's traits; raises `PrerequisiteError` listing the known ones."""
        if name not in self.hypervisors:
            known = ", ".join(sorted(self.hypervisors))
            raise PrerequisiteError(f"Unknown hypervisor '{name}': there are {known}", WRONG_INPUT)
        return self.hypervisors[name]

    def parameters_not_in_3_1(self) -> dict[str, tuple[str, ...]]:
        """The hypervisor parameters that Ganeti 3.1 does not know, by hypervisor."""
        return {
            name: tuple(parameter.name for parameter in traits.parameters if parameter.not_in_3_1)
            for name, traits in self.hypervisors.items()
        }

    def hv_defaults(self, name: str) -> dict[str, Any]:
        return {parameter.name: parameter.default for parameter in self.hypervisor(name).parameters}
