# SPDX-License-Identifier: BSD-2-Clause
"""The interface of a hypervisor on its node, and the registry of all of them.

One hypervisor is one file or folder beside this module; it registers by subclassing. The contract suite
(`tests/contract/test_hypervisor.py`) runs over the registry.

Migration, as the job drives it (names of node calls in `node/actions/instances.py`):

    source  migration_info                      what the target must copy (runtime record)
    target  accept(spec, disks, info, …)        start an incoming guest; gives the address, port and one-time key
    source  migrate(name, target, …)            begin; returns at once
    source  migration_status(name)              poll: active, pre-switchover, device, completed, failed, cancelled
    source  continue_switchover(name)           at pre-switchover, once disks are handed over
    target  finalize_target(name, success)      running for good, or killed and cleaned up
    source  finalize_source(name, success)      the old process and its files go, or the guest runs on here
    source  cancel_migration(name)              back to running here; harmless when nothing is going on
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

import msgspec

from ganeti.base.errors import HypervisorError
from ganeti.model.node_calls.disk_transfer import DiskDoor
from ganeti.model.node_calls.hotplug import HotplugObstacles, MirrorProgress
from ganeti.model.node_calls.instances import Console
from ganeti.model.node_calls.migration import MigrationStatus, MigrationTarget
from ganeti.model.node_calls.node import NodeCapacity
from ganeti.model.node_requests import AttachedDisk, DiskSpec, InstanceSpec
from ganeti.model.parameters import defaults
from ganeti.model.traits import HypervisorTraits
from ganeti.model.uid_pool import Ranges
from ganeti.node.backups.sources import ByteSource
from ganeti.ports.node_world import NodeWorld


class RunningInstance(msgspec.Struct, frozen=True, kw_only=True):
    """One guest found on this node."""

    name: str
    memory_mib: int
    vcpus: int
    state: str
    """``running``, ``paused``, ``shutdown`` (ended by itself, process still there), ``incoming``, ``postmigrate``."""
    cpu_time_s: float = 0.0


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """A guest as the kernel and files show it, without a word to the guest."""

    name: str
    started_s: float
    """Since 1970."""
    cpu_time_s: float = 0.0
    resident_bytes: int = 0
    pid: int = 0
    """Of its process; 0 where it has none."""


class Adopted(msgspec.Struct, frozen=True, kw_only=True):
    """An instance of this node, as far as it matters for taking its running guest over from another Ganeti."""

    name: str
    uuid: str
    network_port: int | None = None
    tags: list[str] = []
    disks: list[tuple[dict[str, Any], str]] = []
    """In the form of `config.data`, each with its path on this node; empty where only the driver reaches it."""


class Adoption(ABC):
    """Taking guests of Ganeti 3.0 or 3.1 over as they run, and giving them back. Every step may be repeated."""

    @abstractmethod
    async def check(self, wanted: Sequence[Adopted]) -> list[str]:
        """Sentences about guests that run here and cannot be taken over; nothing is changed."""

    @abstractmethod
    async def take(self, wanted: Sequence[Adopted]) -> list[str]:
        """Take over those that run here; gives their names. Raises `HypervisorError` before anything is changed."""

    @abstractmethod
    async def check_back(self, wanted: Sequence[Adopted]) -> list[str]:
        """Sentences about guests that run here and that Ganeti 3.0 could not manage; nothing is changed."""

    @abstractmethod
    async def give_back(self, wanted: Sequence[Adopted]) -> list[str]:
        """Have Ganeti 3.0 know the guests that run here; gives their names. Raises `HypervisorError`."""


class GuestSnapshots(ABC):
    """What a running guest has to do with snapshots of its disks."""

    @abstractmethod
    async def freeze(self, name: str) -> bool:
        """Have the guest's agent write everything to the disks and write no more; False where none answers."""

    @abstractmethod
    async def thaw(self, name: str) -> None: ...

    @abstractmethod
    async def take(self, name: str, disk: DiskSpec, snapshot: str) -> None:
        """Make a snapshot in the image of a disk that the guest has open; raises `HypervisorError`."""

    @abstractmethod
    async def remove(self, name: str, disk: DiskSpec, snapshot: str) -> None: ...


class FrozenViews(ABC):
    """The disks of a running guest as they were at one moment, for a backup. All methods may be repeated."""

    @abstractmethod
    async def open(self, spec: InstanceSpec, *, mark: str, since: str) -> list[bool]:
        """Hold all disks as they are now, and count under *mark* what changes from now on; the guest runs on.

        The guest may be frozen meanwhile, so this takes no longer than it must. Gives for each disk whether changes
        *since* an earlier mark were counted. Raises `HypervisorError`; `close` follows in each case.
        """

    @abstractmethod
    async def changed(self, name: str, disk: int) -> list[tuple[int, int]] | None:
        """The chunks (first, count) that were counted of a disk that is held; None where that cannot be read."""

    @abstractmethod
    async def close(self, name: str, *, kept: str) -> None:
        """End what is held, and all counting but that under the mark *kept*; a guest that has ended has nothing."""

    @abstractmethod
    def reading(self, name: str, disk: int) -> AbstractAsyncContextManager[ByteSource]:
        """A disk as it is held; raises `HypervisorError`, `BlockDeviceError`."""


class Cautious:
    """A hypervisor whose guests may have to do without something that a node lacks."""

    def cautions(self) -> list[str]:
        """Sentences saying what guests of a node that runs them lack there, such as a guard of the kernel's."""
        return []


class ChecksProcessors(ABC):
    """A hypervisor whose parameters must fit the number of virtual CPUs."""

    @abstractmethod
    async def check_vcpus(self, hvparams: dict[str, Any], vcpus: int, *, starts: bool) -> None:
        """With *starts* also whether this node could run such a guest now; raises `HypervisorError`."""


class Hypervisor(Cautious, ABC):
    """All methods may be repeated: starting what runs, stopping what does not, cleaning up twice do no harm."""

    traits: ClassVar[HypervisorTraits]
    registry: ClassVar[dict[str, type["Hypervisor"]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "traits" in cls.__dict__:
            Hypervisor.registry[cls.traits.name] = cls

    def __init__(self, world: NodeWorld) -> None:
        self.world = world

    @abstractmethod
    async def start(self, spec: InstanceSpec, disks: Sequence[AttachedDisk], *, paused: bool = False) -> None:
        """Start a guest; on failure nothing of it is left. Raises `HypervisorError`."""

    @abstractmethod
    async def stop(self, name: str, *, timeout_s: float, force: bool = False, may_write: bool = True) -> None:
        """Ask the guest to power off, wait up to *timeout_s*, then end it; 0 or *force* ends it at once.

        Where it may not write, it is ended at once and writes nothing more, not even what its emulator holds back.

        Afterwards no process, tap, socket or file of the guest is left.
        """

    @abstractmethod
    async def reboot(self, spec: InstanceSpec, disks: Sequence[AttachedDisk], *, hard: bool) -> None: ...

    @abstractmethod
    async def list_instances(self) -> list[RunningInstance]:
        """All guests of this hypervisor on this node, also those it does not know from the configuration."""

    def seen(self) -> list[Sighting]:
        """All guests that run, cheap enough to be asked every few seconds by one who may not talk to them."""
        return []

    async def info(self, name: str) -> RunningInstance | None:
        for running in await self.list_instances():
            if running.name == name:
                return running
        return None

    @abstractmethod
    async def capacity(self) -> NodeCapacity: ...

    @abstractmethod
    async def verify(self, hvparams: dict[str, Any]) -> list[str]:
        """Sentences saying why this node could not run guests now; empty when it could."""

    @abstractmethod
    async def check_parameters(self, hvparams: dict[str, Any], *, user_ids: Ranges | None = None) -> None:
        """Check filled parameters against this node (files there, values it knows); raises `HypervisorError`.

        *user_ids* is the cluster's pool where it is to become another one together with these parameters.
        """

    def as_helper(self, hvparams: dict[str, Any], *, address: str | None) -> dict[str, Any]:
        """Filled parameters with which a guest boots from its first disk, whatever it boots from otherwise.

        *address* is told to it where it has a NIC for communication: nobody gives it out by DHCP.
        """
        return hvparams

    @abstractmethod
    def console(self, spec: InstanceSpec) -> Console: ...

    def snapshots(self) -> GuestSnapshots | None:
        """None where guests have nothing to do with snapshots of their disks."""
        return None

    def adoption(self) -> "Adoption | None":
        """How guests of Ganeti 3.0 and 3.1 are taken over and given back; None where there are none to be."""
        return None

    async def migration_info(self, name: str) -> dict[str, Any]:
        raise _cannot(self, "migrate")

    async def accept(
        self,
        spec: InstanceSpec,
        disks: Sequence[AttachedDisk],
        info: dict[str, Any],
        address: str,
    ) -> MigrationTarget:
        """Start the incoming side, listening on *address* (this node's address for migration)."""
        raise _cannot(self, "migrate")

    async def migrate(self, name: str, target: MigrationTarget, *, live: bool) -> None:
        raise _cannot(self, "migrate")

    async def migration_status(self, name: str) -> MigrationStatus:
        raise _cannot(self, "migrate")

    async def continue_switchover(self, name: str) -> None:
        raise _cannot(self, "migrate")

    async def cancel_migration(self, name: str) -> MigrationStatus:
        """Return to running here; gives the status found, ``completed`` when it is too late to return."""
        raise _cannot(self, "migrate")

    async def finalize_target(self, name: str, *, success: bool) -> None:
        raise _cannot(self, "migrate")

    async def finalize_source(self, name: str, *, success: bool) -> None:
        raise _cannot(self, "migrate")

    async def balloon(self, name: str, memory_mib: int) -> None:
        raise _cannot(self, "change the memory of a running instance")

    @property
    def devices(self) -> "RunningDevices":
        """What changes devices of guests that run."""
        return RunningDevices(self.traits.name)

    async def resize_disk(self, name: str, disk: AttachedDisk, size_mib: int) -> None:
        """Let a running guest see that a disk is larger; where only QEMU may enlarge it, do that."""
        raise _cannot(self, "change the size of a disk that is in use")


class RunningDevices:
    """Changes of guests while they run; a hypervisor without such changes has this one.

    A guest that does not run has nothing to change. All raise `HypervisorError` for what a guest or its emulator
    refuses; what has changed until then stays, and the same call completes it.
    """

    def __init__(self, hypervisor: str) -> None:
        self._hypervisor = hypervisor

    async def hotplug_obstacles(self, name: str) -> HotplugObstacles:
        """Say what of a running guest cannot change; raises `HypervisorError` when it does not run."""
        del name
        reason = f"the hypervisor {self._hypervisor} cannot change devices of a running guest"
        return HotplugObstacles(nics=reason, disks=reason)

    async def change_nics(self, spec: InstanceSpec) -> None:
        """Give a guest the NICs of *spec*."""
        raise self._cannot(spec)

    async def change_disks(self, spec: InstanceSpec, disks: Sequence[AttachedDisk]) -> None:
        """Give a guest the disks of *spec*."""
        raise self._cannot(spec)

    async def change_parameters(self, spec: InstanceSpec, names: Sequence[str]) -> list[str]:
        """Give a guest those of the parameters *names* of *spec* (``hv/NAME``, ``be/NAME``) that it can take over.

        Gives the names of those that it has now.
        """
        del spec, names
        return []

    def frozen_views(self) -> FrozenViews | None:
        """None where disks can be read only while their guest is stopped."""
        return None

    async def sign_of_life(self, name: str, words: str) -> str:
        """What a guest shows of itself: its agent answers, or its console has *words*; empty for nothing yet."""
        del words
        raise HypervisorError(f"The hypervisor {self._hypervisor} sees no sign of life of {name}")

    async def forget_signs(self, name: str) -> None:
        """Remove what the console of a guest has shown, which may run or not."""
        del name

    async def copy_disks(self, name: str, paths: Sequence[str]) -> None:
        """Write into files, in the order of the disks, what all of them hold at one moment; the guest runs on.

        The files are there, and only root can read them. Whatever fails, `end_copies` follows.
        """
        del paths
        raise HypervisorError(f"The hypervisor {self._hypervisor} cannot copy disks of {name} while it runs")

    async def end_copies(self, name: str) -> None:
        """End what is left of `copy_disks`; nothing going on is no error."""
        del name

    async def mirror_disks(self, spec: InstanceSpec, targets: Sequence[AttachedDisk]) -> list[MirrorProgress]:
        """Copy each disk of a guest to its target, or tell how far that is."""
        raise self._cannot(spec)

    async def hold_copies(self, spec: InstanceSpec, targets: Sequence[AttachedDisk]) -> None:
        """Let a guest's writes wait with all targets equal to its disks, until they are exchanged or given up."""
        del targets
        raise self._cannot(spec)

    async def exchange_disks(self, spec: InstanceSpec, targets: Sequence[AttachedDisk]) -> None:
        """Have a guest use the targets alone, which are equal to its disks."""
        raise self._cannot(spec)

    async def give_up_exchange(self, spec: InstanceSpec) -> None:
        """End the copying; without any there is nothing to do."""
        del spec

    async def receive_disks(self, spec: InstanceSpec, address: str) -> DiskDoor:
        """Have an incoming guest take the content of its disks on *address*, from the guest that it will be."""
        del address
        raise self._cannot(spec)

    async def disks_received(self, spec: InstanceSpec) -> None:
        """Let nobody write the disks of an incoming guest any more."""
        raise self._cannot(spec)

    async def send_disks(self, spec: InstanceSpec, door: DiskDoor) -> list[MirrorProgress]:
        """Send the disks of a guest, or tell how far that is."""
        del door
        raise self._cannot(spec)

    async def hand_over_disks(self, spec: InstanceSpec) -> None:
        """Send the rest, with the guest stopped at its switchover."""
        raise self._cannot(spec)

    async def stop_sending(self, spec: InstanceSpec) -> None:
        """End the sending; without any there is nothing to do."""
        del spec

    def _cannot(self, spec: InstanceSpec) -> HypervisorError:
        return HypervisorError(f"The hypervisor {self._hypervisor} cannot change devices of {spec.name} while it runs")


def check_name(name: str) -> None:
    """Refuse names that are no file names; raises `HypervisorError`."""
    if not name or "/" in name or name.startswith(".") or "\0" in name:
        raise HypervisorError(f"'{name}' cannot be the name of an instance: it must be a host name")


def refuse_another(spec: InstanceSpec, uuid: str) -> None:
    """Raise `HypervisorError` where the guest of that name is another instance's, by *uuid*.

    A node that was away comes back with guests of instances that were removed meanwhile: one would be taken for the new
    instance of that name, and write to disks that nobody knows of.
    """
    if uuid and uuid != spec.uuid:
        raise HypervisorError(
            f"A guest {spec.name} runs on this node that is left from another instance of that name (UUID {uuid}): end "
            "it there first"
        )


def filled_parameters(hypervisor: Hypervisor, hvparams: dict[str, Any]) -> dict[str, Any]:
    """Check parameters by their declarations and add what is missing at its default.

    Raises `HypervisorError` for unknown names, `TypeEnforcementError` for values.
    """
    known = {parameter.name: parameter for parameter in hypervisor.traits.parameters}
    for name in hvparams:
        if name not in known:
            raise HypervisorError(f"Unknown hypervisor parameter '{name}': there are {', '.join(known)}")
    given = {name: known[name].accept(value) for name, value in hvparams.items()}
    return defaults(hypervisor.traits.parameters) | given


def _cannot(hypervisor: Hypervisor, what: str) -> Exception:
    return HypervisorError(f"The hypervisor {hypervisor.traits.name} cannot {what}")
