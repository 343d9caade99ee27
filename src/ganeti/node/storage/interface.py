# SPDX-License-Identifier: BSD-2-Clause
"""The interface of a disk template on its node, and the registry of all of them.

One template is one file or folder beside this module; it registers by subclassing. The contract suite
(`tests/contract/test_storage.py`) runs over the registry.

At most one copy of an instance may write its disks: `activate` takes the image lock (or what the template has
instead) for this node, `deactivate` gives it back.

Where the traits say more than one node, each of them holds a copy: the node is *primary* after `activate`, *secondary*
after `become_secondary`, and neither after `deactivate`. Both are primary only during a migration, from
``activate(for_migration=True)`` on the source and then on the target, to its end.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disks import DiskStatus, DiskUse, Replication, Snapshot
from ganeti.model.node_calls.node import StorageSpace
from ganeti.model.node_requests import AttachedDisk, DiskSpec
from ganeti.model.traits import TemplateTraits
from ganeti.node.storage.held_images import LostImages
from ganeti.ports.node_world import NodeWorld


class Snapshots(ABC):
    """States of single disks, kept under a name beside the disk. All methods may be repeated."""

    def needs_guest(self, disk: DiskSpec) -> bool:
        """Whether those of a disk that a guest has open are made and removed by its hypervisor."""
        del disk
        return False

    def copies(self, disk: DiskSpec) -> bool:
        """Whether taking one copies the disk, so that nobody may write it meanwhile."""
        del disk
        return False

    @abstractmethod
    async def of(self, disk: DiskSpec) -> list[Snapshot]:
        """All that there are, the oldest first."""

    @abstractmethod
    async def take(self, disk: DiskSpec, name: str) -> None:
        """Keep the disk as it is now; raises `BlockDeviceError`."""

    async def check_revert(self, disk: DiskSpec, name: str) -> None:
        """Raise `BlockDeviceError` where `revert` would refuse since the disk is in use, the primary's copy not
        complete, or the snapshot lost; nothing is changed."""
        del disk, name

    @abstractmethod
    async def revert(self, disk: DiskSpec, name: str) -> None:
        """Give a disk that nobody uses the content it had; the snapshot stays. Raises `BlockDeviceError`.

        Of two copies, each node takes its own back, and the one that is not the primary's gives its up where it has no
        such snapshot; when both are next opened, they are made equal from the primary's.
        """

    @abstractmethod
    async def remove(self, disk: DiskSpec, name: str) -> None:
        """Forget a snapshot; one that is gone is no error."""

    def device(self, disk: DiskSpec, name: str) -> str:
        """Where a snapshot is read; templates whose traits say `quick_snapshots` take part."""
        raise BlockDeviceError(f"Snapshot {name} of disk {disk.index} cannot be read from a device")


class GivesBack(ABC):
    """A template with copies on several nodes that can be made smaller again where one of them has no space."""

    @abstractmethod
    async def ungrow(self, disk: DiskSpec) -> None:
        """Cut a copy that the primary node does not use, which has grown alone, to the size in *disk*."""


class Supersedes(ABC):
    """A template that learns by itself that another node has taken disks in place of this one."""

    traits: ClassVar[TemplateTraits]
    asks_a_cluster: ClassVar[bool] = False
    """Whether `lost` asks others, who may keep it waiting."""

    @abstractmethod
    async def lost(self) -> LostImages:
        """The disks that were taken from this node while it used them; whether guests still run is not looked at."""


class Tracked(ABC):
    """A template that shuts the clients of a dead node out, and so must know them."""

    @abstractmethod
    async def opened(self, disk: DiskSpec) -> None:
        """A guest on this node has the disk open now: note which client it is; raises `BlockDeviceError`."""


class KnowsOwners(ABC):
    """A template that notes which instance of this node has a disk open."""

    @abstractmethod
    async def give_back(self, disk: DiskSpec, owner: str) -> None:
        """Close the disk if instance *owner* has it, or none; another one keeps it."""


class Replicates(ABC):
    """A template whose copies the kernel keeps equal, by devices of its own."""

    @abstractmethod
    async def replication(self) -> Replication:
        """What the kernel module is and has; raises `BlockDeviceError` where there is none."""


class CountsSpindles(ABC):
    """A template whose disks can have physical volumes for themselves."""

    @abstractmethod
    async def spindles(self, setting: str) -> tuple[int, int]:
        """How many physical volumes the place has, and how many a disk can take; raises `BlockDeviceError`."""


class Copies:
    """How the bytes of a disk that nobody uses come to another node; templates whose traits say copyable take part."""

    traits: ClassVar[TemplateTraits]

    async def stored_path(self, disk: DiskSpec) -> str:
        """The file or device with the bytes of a copyable disk, which nobody uses."""
        raise _not_copyable(self)

    async def begin_copy(self, disk: DiskSpec, size: int) -> None:
        """Make room for *size* bytes that come from another node, at `unfinished_path`; all zeros until then."""
        raise _not_copyable(self)

    def unfinished_path(self, disk: DiskSpec) -> str:
        raise _not_copyable(self)

    async def end_copy(self, disk: DiskSpec) -> None:
        """What lies at `unfinished_path` is the disk from now on, durably."""
        raise _not_copyable(self)


class DiskTemplate(Copies, ABC):
    """All methods may be repeated: creating what is there with the same size, removing what is gone do no harm."""

    registry: ClassVar[dict[str, type["DiskTemplate"]]] = {}
    why_no_snapshots: ClassVar[str] = "nothing here makes them"
    """Of a template that has none."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "traits" in cls.__dict__:
            DiskTemplate.registry[cls.traits.name] = cls

    def __init__(self, world: NodeWorld) -> None:
        self.world = world

    @abstractmethod
    async def create(self, disk: DiskSpec) -> None:
        """Make the disk on this node, whole or not at all; raises `BlockDeviceError`, `FileStoragePathError`."""

    @abstractmethod
    async def remove(self, disk: DiskSpec) -> None: ...

    @abstractmethod
    async def activate(self, disk: DiskSpec, owner: str, *, for_migration: bool = False) -> AttachedDisk:
        """Make the disk usable here by instance *owner*; with *for_migration* beside the node it still runs on."""

    @abstractmethod
    async def deactivate(self, disk: DiskSpec) -> None: ...

    async def become_secondary(self, disk: DiskSpec) -> None:
        """Let another node write: a copy that is kept here follows it. Without a copy here, the disk is closed."""
        await self.deactivate(disk)

    async def settle_migration(self, disk: DiskSpec, owner: str, *, arrived: bool) -> None:
        """On the target, end the time of two users: this node alone, or no longer this one. Templates that let only
        one node at a time write take part."""
        del disk, owner, arrived

    async def steal(self, disk: DiskSpec, owner: str, reason: str) -> None:
        """Take the right to write from a node that is dead; the caller has made sure that it is.

        A copy that is kept here becomes the valid one.
        """
        del disk, owner, reason

    async def use_of(self, disk: DiskSpec) -> DiskUse | None:
        """Whether a guest on any node has the disk open for writing; none where that cannot be known."""
        del disk
        return None

    async def hand_over(self, disk: DiskSpec) -> None:
        """On the source, whose guest has stopped for good or nearly so: stop writing to the copies.

        Raises `BlockDeviceError` where the target's copy is not equal. Templates with a copy on each node take part.
        """
        del disk

    async def take_over(self, disk: DiskSpec, owner: str) -> None:
        """On the target, after `hand_over`: what is written here goes to the source's copy too."""
        del disk, owner

    async def take_back(self, disk: DiskSpec) -> None:
        """On the source, where the guest goes on after all; without `hand_over` there is nothing to do."""
        del disk

    async def as_file(self, attached: AttachedDisk) -> AttachedDisk:
        """The same disk with a path, for programs that read or write files."""
        return attached

    async def rename(self, disk: DiskSpec, logical_id: list[Any]) -> None:
        """Give a closed disk another logical id; where that names it already, nothing is done.

        Templates whose logical ids hold the name of the instance take part.
        """
        del disk, logical_id

    async def renew(self, disk: DiskSpec) -> None:
        """Make this node's copy anew, empty: another node has the content, and gives it when both are open.

        A complete copy is kept aside until `forget_replaced`: the other node's may be lost before this one has
        everything. Where there is no room for both, or the new one cannot be made, the old one is the copy again and
        `BlockDeviceError` is raised. Where the traits say `diskless_primary`, a guest may have the disk open here.
        """
        await self.remove(disk)
        await self.create(disk)

    async def forget_replaced(self, disk: DiskSpec) -> None:
        """Remove the copy that `renew` has kept aside, if there is one."""

    def snapshots(self) -> Snapshots | None:
        """None where the template has none."""
        return None

    async def adopt(self, disk: DiskSpec, source: list[Any]) -> None:
        """Let the volume with the logical id *source*, which nobody uses, become *disk*; `rename` takes it back.

        Templates that state an `adoptee` take part.
        """
        del disk, source
        raise BlockDeviceError(f"Disks of template {self.traits.name} cannot be adopted")

    @abstractmethod
    async def find(self, disk: DiskSpec) -> DiskStatus | None:
        """What is there now, or None."""

    @abstractmethod
    async def grow(self, disk: DiskSpec, amount_mib: int, *, in_use: bool = False) -> None:
        """Grow to the size in *disk* plus *amount_mib*; a repeated call finds that done. Raises `BlockDeviceError`.

        A disk *in_use* by a guest of which only its hypervisor may change the size is only looked at: whether there is
        space. The hypervisor's `resize_disk` comes next.
        """

    async def check_new(self, disk: DiskSpec) -> None:
        """Raise `BlockDeviceError` where it is known beforehand that the disk cannot be made here."""

    @abstractmethod
    async def wipe(self, disk: DiskSpec, offset_mib: int, size_mib: int) -> None:
        """Write zeros over a part of the disk, which is not in use; raises `BlockDeviceError`."""

    @abstractmethod
    async def space(self, setting: str) -> StorageSpace:
        """Size and free space of what *setting* names (the cluster's directory, volume group, pool)."""

    @abstractmethod
    async def verify(self, setting: str) -> list[str]:
        """Sentences saying why this node could not use the template now."""

    @abstractmethod
    async def list_owned(self, setting: str) -> Sequence[str]:
        """Names or paths of all disks of this template here, for finding what nobody knows (orphans)."""


def _not_copyable(template: Copies) -> BlockDeviceError:
    return BlockDeviceError(f"Disks of template {template.traits.name} cannot be copied to another node")
