# SPDX-License-Identifier: BSD-2-Clause
"""The disk template `drbd`: a volume on each of two nodes, kept equal by DRBD as long as both nodes use the disk.

When a disk is made, the primary's copy becomes the valid one there and then; the other copy gets its content when both
are connected. After that no copy is ever declared valid, except where a node is dead and its disks are taken from it.
"""

import os
from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disks import FAULTY, GOOD, SYNCING, UNCERTAIN, DiskStatus, Replication
from ganeti.model.node_calls.node import StorageSpace
from ganeti.model.node_requests import AttachedDisk, DiskSpec
from ganeti.model.templates import PAIRED, TEMPLATES
from ganeti.node.storage import devices
from ganeti.node.storage.drbd import places
from ganeti.node.storage.drbd.owners import make_way, own_device
from ganeti.node.storage.drbd.parameters import PARAMETERS
from ganeti.node.storage.drbd.places import Link, link_of, volumes
from ganeti.node.storage.drbd.replaced import ReplacedVolumes
from ganeti.node.storage.drbd.snapshots import ReplicatedSnapshots
from ganeti.node.storage.drbd.states import BEHIND, INCONSISTENT, PRIMARY, UP_TO_DATE, Device
from ganeti.node.storage.drbd.tools import Tools, read_helper, tools_of
from ganeti.node.storage.image_io import in_thread
from ganeti.node.storage.interface import DiskTemplate, Replicates
from ganeti.node.storage.lvm.driver import LogicalVolumes
from ganeti.node.storage.lvm.volumes import MIB
from ganeti.ports.node_world import NodeWorld

_CONNECT_S = 10.0
"""How long a primary waits for the other node before it writes alone."""
_POLL_S = 0.2


class ReplicatedVolumes(DiskTemplate, Replicates):
    traits = replace(
        TEMPLATES[PAIRED],
        parameters=PARAMETERS,
        keys=("vg", "metavg"),
        naming=places.logical_id,
        parts=places.parts,
        has_secret=True,
        diskless_primary=True,
        quick_snapshots=True,
    )

    def __init__(self, world: NodeWorld) -> None:
        super().__init__(world)
        self.volumes = LogicalVolumes(world)
        self._tools: Tools | None = None

    async def create(self, disk: DiskSpec) -> None:
        link = link_of(disk, self.world.node_name)
        state = await self._make_volumes(disk, link)
        if disk.primary == self.world.node_name and state == INCONSISTENT:
            await self._declare_valid(disk, link)

    async def remove(self, disk: DiskSpec) -> None:
        await self.deactivate(disk)
        await self.forget_replaced(disk)
        for volume in reversed(volumes(disk)):
            await self.volumes.remove(volume)

    async def activate(self, disk: DiskSpec, owner: str, *, for_migration: bool = False) -> AttachedDisk:
        link = link_of(disk, self.world.node_name)
        device, tools = await self._up(disk, link, owner, two_primaries=for_migration), await self.tools()
        if not device.is_primary:
            device = await _connected(self.world, tools, link, device)
            if device.peer_role == PRIMARY and not for_migration:
                raise BlockDeviceError(
                    f"Disk {disk.index} is in use on node {link.peer_name} by instance {owner}: see that it ends there"
                )
            await self._promote(disk, link, device)
        return AttachedDisk(spec=disk, path=_path(self.world, link))

    async def deactivate(self, disk: DiskSpec) -> None:
        link = link_of(disk, self.world.node_name)
        try:
            tools = await self.tools()
        except BlockDeviceError:  # without its kernel module nothing is open
            return
        device = await own_device(tools, disk, link)
        if device is None:
            return
        if device.is_primary:
            await tools.take_role(link, "secondary")
        await tools.setup("down", link.resource)

    async def become_secondary(self, disk: DiskSpec) -> None:
        if self.world.node_name not in disk.copies:
            return
        link = link_of(disk, self.world.node_name)
        tools = await self.tools()
        device = await own_device(tools, disk, link)
        if device is not None and device.is_primary:
            await tools.take_role(link, "secondary")
        if device is None and await self.volumes.find(volumes(disk)[0]) is None:
            return
        await self._up(disk, link, "", two_primaries=False)

    async def settle_migration(self, disk: DiskSpec, owner: str, *, arrived: bool) -> None:
        if not arrived:
            await self.become_secondary(disk)

    async def steal(self, disk: DiskSpec, owner: str, reason: str) -> None:
        """A copy that was never complete stays what it is: nobody could use what it holds."""
        link = link_of(disk, self.world.node_name)
        device = await self._up(disk, link, owner, two_primaries=False, connect=False)
        if device.disk == INCONSISTENT:
            raise BlockDeviceError(
                f"The copy of disk {disk.index} on {self.world.node_name} is incomplete, so it cannot be used: bring "
                "the other node back"
            )
        if not device.is_primary:
            tools = await self.tools()
            remote, _ = await tools.connection(link)
            if remote:
                await tools.setup_all(tools.disconnect_words(link, remote))
            await tools.take_role(link, "primary", force=True)
        self.world.log(f"disk {_path(self.world, link)} taken from {link.peer_name} for {owner}: {reason}")

    async def renew(self, disk: DiskSpec) -> None:
        """A guest that has the disk open here goes on with the other copy meanwhile."""
        link = link_of(disk, self.world.node_name)
        tools = await self.tools()
        device = await make_way(tools, disk, link)
        if device is not None and device.is_primary and not device.has_good_peer:
            raise BlockDeviceError(
                f"The copy of disk {disk.index} on {self.world.node_name} cannot be made anew: it is the only good one"
            )
        complete = await _is_complete(self, disk, link)
        if device is not None and device.has_disk:
            await tools.setup("detach", str(link.minor))
        await self.snapshots().remove_all(disk)
        replaced = ReplacedVolumes(self.volumes, volumes(disk))
        await replaced.make_way(complete=complete)
        try:
            await self._make_volumes(disk, link)
        except BlockDeviceError:
            if complete:  # what was set aside by an earlier call may be behind by now
                await replaced.put_back()
                if device is not None:
                    await self._attach(disk, link, "")
            raise
        if device is not None:
            await self._attach(disk, link, "")

    async def forget_replaced(self, disk: DiskSpec) -> None:
        await ReplacedVolumes(self.volumes, volumes(disk)).forget()

    def snapshots(self) -> ReplicatedSnapshots:
        return ReplicatedSnapshots(self.volumes, self.world.node_name, self.tools)

    async def find(self, disk: DiskSpec) -> DiskStatus | None:
        if self.world.node_name not in disk.copies:
            return None
        link = link_of(disk, self.world.node_name)
        data, meta = [await self.volumes.find(volume) for volume in volumes(disk)]
        device = await own_device(await self.tools(), disk, link)
        if data is None and device is None:
            return None
        faulty = any(each is None or each.ldisk_status == FAULTY for each in (data, meta))
        status = DiskStatus(
            dev_path=f"/dev/drbd{link.minor}",
            major=places.MAJOR,
            minor=link.minor,
            size_mib=None if data is None else data.size_mib,
            ldisk_status=FAULTY if faulty else GOOD,
        )
        if device is None:
            stored = None if faulty else await self.stored_state(disk, link)
            if stored is None:  # its making was cut short
                return structs.replace(status, is_degraded=True, ldisk_status=FAULTY)
            stale = stored in BEHIND
            return structs.replace(status, is_degraded=stale, ldisk_status=UNCERTAIN if stale else GOOD)
        return structs.replace(
            status,
            sync_percent=device.percent,
            estimated_time_s=device.seconds_left,
            is_degraded=not device.is_whole,
            ldisk_status=FAULTY if faulty else _health(device),
        )

    async def grow(self, disk: DiskSpec, amount_mib: int, *, in_use: bool = False) -> None:
        """The device itself grows on the primary, which is told last, when both volumes have."""
        data, _ = volumes(disk)
        await self.volumes.grow(data, amount_mib)
        link, tools = link_of(disk, self.world.node_name), await self.tools()
        device = await own_device(tools, disk, link)
        if device is not None and device.is_primary:
            await tools.setup("resize", str(link.minor))

    async def wipe(self, disk: DiskSpec, offset_mib: int, size_mib: int) -> None:
        link = link_of(disk, self.world.node_name)
        device = await own_device(await self.tools(), disk, link)
        if offset_mib < 0 or size_mib < 0 or offset_mib + size_mib > disk.size_mib:
            end = offset_mib + size_mib
            raise BlockDeviceError(
                f"Disk {disk.index} cannot be wiped from {offset_mib} to {end} MiB: it has not so many"
            )
        if device is None:
            await self.volumes.wipe(volumes(disk)[0], offset_mib, size_mib)
        elif device.is_primary:
            await in_thread(devices.write_zeros, _path(self.world, link), offset_mib * MIB, size_mib * MIB)

    async def space(self, setting: str) -> StorageSpace:
        return structs.replace(await self.volumes.space(setting), type=self.traits.storage_type)

    async def verify(self, setting: str) -> list[str]:
        found = await self.volumes.verify(setting)
        try:
            await self.tools()
        except BlockDeviceError as err:
            found.append(str(err))
        return found

    async def list_owned(self, setting: str) -> Sequence[str]:
        """Its volumes are those of the template of volumes."""
        return []

    async def replication(self) -> Replication:
        tools = await self.tools()
        helper = await in_thread(read_helper, self.world)
        return Replication(version=tools.version, helper=helper, minors=sorted(await tools.devices()))

    async def tools(self) -> Tools:
        """Those of the kernel module, of which a machine has one version until it restarts."""
        if self._tools is None:
            self._tools = await tools_of(self.world)
        return self._tools

    async def _make_volumes(self, disk: DiskSpec, link: Link) -> str:
        """The volumes, with DRBD's own data; gives the state these tell."""
        await make_way(await self.tools(), disk, link)
        for volume in volumes(disk):
            await self.volumes.create(volume)
        state = await self.stored_state(disk, link)
        if state is None:
            await (await self.tools()).create_metadata(link, await self.volumes.stored_path(volumes(disk)[1]))
            return INCONSISTENT
        return state

    async def _declare_valid(self, disk: DiskSpec, link: Link) -> None:
        """Of a new disk, the primary's copy: what it holds now is the disk."""
        tools = await self.tools()
        device = await tools.device(link)
        if device is None or not device.has_disk:
            await self._attach(disk, link, "", new=device is None)
        await tools.take_role(link, "primary", force=True)
        await tools.take_role(link, "secondary")
        await tools.setup("down", link.resource)

    async def _up(self, disk: DiskSpec, link: Link, owner: str, *, two_primaries: bool, connect: bool = True) -> Device:
        """Let the device have its disk and its connection, whatever it has by now; its role stays."""
        tools = await self.tools()
        device = await make_way(tools, disk, link)
        if device is None or not device.has_disk:
            await self._attach(disk, link, owner, new=device is None)
        if connect and link.remote:
            await self._connect(disk, link, two_primaries=two_primaries)
        device = await tools.device(link)
        if device is None:
            raise BlockDeviceError(f"Device {_path(self.world, link)} was not made: see the kernel's log")
        return device

    async def _attach(self, disk: DiskSpec, link: Link, owner: str, *, new: bool = False) -> None:
        """Give the device its disk; a *new* device is made first."""
        data, meta = [os.path.realpath((await self.volumes.activate(volume, owner)).path) for volume in volumes(disk)]
        tools = await self.tools()
        if new:
            await tools.setup_all(tools.new_words(link))
        await tools.apply_activity_log(link, meta)
        await tools.setup_all(tools.attach_words(link, data, meta, disk.params))

    async def _connect(self, disk: DiskSpec, link: Link, *, two_primaries: bool) -> None:
        """To the node that has the other copy; a connection to another node is ended first."""
        tools = await self.tools()
        device = await tools.device(link)
        remote, two_allowed = await tools.connection(link)
        alone = device is None or not (device.talks or device.waits)
        if remote and (remote != link.remote or alone):
            await tools.setup_all(tools.disconnect_words(link, remote))
        if remote != link.remote or alone:
            await tools.setup_all(tools.connect_words(link, disk.params))
            two_allowed = False
        if two_allowed != two_primaries:
            await tools.setup(*tools.two_primaries_words(link, link.remote, allowed=two_primaries))

    async def _promote(self, disk: DiskSpec, link: Link, device: Device) -> None:
        tools = await self.tools()
        try:
            await tools.take_role(link, "primary")
        except BlockDeviceError as err:
            if device.disk != UP_TO_DATE and not device.talks:
                raise BlockDeviceError(
                    f"The copy of disk {disk.index} on {self.world.node_name} is behind that of node {link.peer_name}, "
                    f"which does not answer: bring that node back ({err})"
                ) from err
            raise BlockDeviceError(
                f"Disk {disk.index} cannot be written on {self.world.node_name} (its copy is {device.disk}, the other "
                f"node is {device.connection}): {err}"
            ) from err

    async def stored_state(self, disk: DiskSpec, link: Link) -> str | None:
        """What DRBD's own data say of this copy while it is down."""
        tools = await self.tools()
        if (device := await own_device(tools, disk, link)) is not None and device.has_disk:
            return device.disk
        return await tools.metadata_state(link, await self.volumes.stored_path(volumes(disk)[1]))


def _path(world: NodeWorld, link: Link) -> str:
    return world.paths.under(f"/dev/drbd{link.minor}")


def _health(device: Device) -> int:
    """Of this node's copy; one that is behind and gets nothing is not good, and is not lost either."""
    if not device.has_disk:
        return FAULTY
    if device.disk in BEHIND:
        return SYNCING if device.syncs else UNCERTAIN
    return GOOD


async def _connected(world: NodeWorld, tools: Tools, link: Link, device: Device) -> Device:
    """Wait until the other node has answered, or does not in time."""
    end_s = world.now_s() + _CONNECT_S
    while device.waits and world.now_s() < end_s:
        await world.sleep(_POLL_S)
        device = await tools.device(link) or device
    return device


async def _is_complete(driver: ReplicatedVolumes, disk: DiskSpec, link: Link) -> bool:
    """Whether this node's copy has all that was written as long as it followed."""
    for volume in volumes(disk):
        found = await driver.volumes.find(volume)
        if found is None or found.ldisk_status == FAULTY:
            return False
    return await driver.stored_state(disk, link) not in (None, INCONSISTENT)
