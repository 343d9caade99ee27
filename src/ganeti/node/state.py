# SPDX-License-Identifier: BSD-2-Clause
"""What the node calls of one node share: the machine it runs on, its drivers, and the calls going on."""

import asyncio
from typing import Protocol
from weakref import WeakValueDictionary

import ganeti.node.hypervisors
import ganeti.node.storage
from ganeti.base.errors import REFUSED_AT_THE_DOOR, BlockDeviceError, HypervisorError, NodeCallError
from ganeti.base.paths import Paths
from ganeti.base.registry import import_all
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.node.hypervisors.interface import Hypervisor
from ganeti.node.ssconf import NewestSsconf
from ganeti.node.storage.interface import DiskTemplate
from ganeti.ports.node_world import NodeWorld
from ganeti.ports.replica import ReplicaPort


class CallsPort(Protocol):
    """The calls this node is carrying out."""

    async def abort(self, job: int, attempt: int) -> int:
        """Refuse attempts up to *attempt* of *job* from now on, end what they are doing here, and wait for that.

        Gives how many calls were ended.
        """
        ...


class DaemonPort(Protocol):
    """What a call may ask of the daemon that serves it."""

    def stop_after_answer(self) -> None:
        """End the daemon once the call being carried out has been answered."""
        ...


class NodeState:
    """One object for the life of the node daemon; drivers are made when first asked for."""

    def __init__(
        self,
        world: NodeWorld,
        calls: CallsPort,
        daemon: DaemonPort,
        replica: ReplicaPort | None = None,
        newest_ssconf: NewestSsconf | None = None,
    ) -> None:
        """*newest_ssconf* is what the copy's publication goes by, too."""
        self.world = world
        self.calls = calls
        self.daemon = daemon
        self.newest_ssconf = newest_ssconf or NewestSsconf()
        self._replica = replica
        self._hypervisors: dict[str, Hypervisor] = {}
        self._templates: dict[str, DiskTemplate] = {}
        self._snapshots: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def paths(self) -> Paths:
        return self.world.paths

    @property
    def replica(self) -> ReplicaPort:
        """This node's copy of configuration and queue; raises `NodeCallError` where none is kept."""
        if self._replica is None:
            raise NodeCallError("This node keeps no copy of the configuration")
        return self._replica

    async def forget_copy(self) -> None:
        """Let go of the copy, if one is open: its files are about to be removed."""
        if self._replica is not None:
            await self._replica.forget()

    def snapshots_of(self, instance_name: str) -> asyncio.Lock:
        """Held while one is taken or removed: a call that the master has given up on still goes on here."""
        return self._snapshots.setdefault(instance_name, asyncio.Lock())

    def hypervisor(self, name: str) -> Hypervisor:
        """Give the driver *name*; raises `HypervisorError` listing those there are."""
        if name not in self._hypervisors:
            import_all(ganeti.node.hypervisors)
            driver = Hypervisor.registry.get(name)
            if driver is None:
                known = ", ".join(sorted(Hypervisor.registry))
                raise HypervisorError(f"Unknown hypervisor '{name}': this node knows {known}", REFUSED_AT_THE_DOOR)
            self._hypervisors[name] = driver(self.world)
        return self._hypervisors[name]

    def hypervisor_of(self, instance: InstanceSpec) -> Hypervisor:
        return self.hypervisor(instance.hypervisor)

    def template(self, name: str) -> DiskTemplate:
        """Give the driver of a disk template; raises `BlockDeviceError` listing those there are."""
        if name not in self._templates:
            import_all(ganeti.node.storage)
            driver = DiskTemplate.registry.get(name)
            if driver is None:
                known = ", ".join(sorted(DiskTemplate.registry))
                raise BlockDeviceError(f"Unknown disk template '{name}': this node knows {known}", REFUSED_AT_THE_DOOR)
            self._templates[name] = driver(self.world)
        return self._templates[name]

    def template_of(self, disk: DiskSpec) -> DiskTemplate:
        return self.template(disk.template)

    def templates(self) -> list[DiskTemplate]:
        import_all(ganeti.node.storage)
        return [self.template(name) for name in sorted(DiskTemplate.registry)]
