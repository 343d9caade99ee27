# SPDX-License-Identifier: BSD-2-Clause
"""What DRBD says of its devices: ``/proc/drbd`` of version 8.4, and ``drbdsetup status --json`` of version 9."""

from dataclasses import dataclass
from typing import Any

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, BlockDeviceError
from ganeti.node.collectors import drbd as proc_drbd
from ganeti.node.collectors.report import UnreadableError

PRIMARY, SECONDARY = "Primary", "Secondary"
UP_TO_DATE, DISKLESS, INCONSISTENT, OUTDATED = "UpToDate", "Diskless", "Inconsistent", "Outdated"
BEHIND = (INCONSISTENT, OUTDATED)
"""A copy that lacks something, or of which the other node has said so."""
CONNECTED, ESTABLISHED = "Connected", "Established"
_NO_DISK = (DISKLESS, "Failed", "Attaching", "Detaching", "Negotiating")
_SYNCING = frozenset(
    ("StartingSyncS", "StartingSyncT", "WFBitMapS", "WFBitMapT", "WFSyncUUID", "SyncSource", "SyncTarget")
) | {"PausedSyncS", "PausedSyncT", "Ahead", "Behind"}
_TALKING = _SYNCING | {CONNECTED, ESTABLISHED, "VerifyS", "VerifyT"}
_WAITING = ("Unconnected", "WFConnection", "WFReportParams", "Connecting")


@dataclass(frozen=True)
class Device:
    """One device of this node; *connection* is the state of replication, or why there is none."""

    minor: int
    role: str
    connection: str
    disk: str
    peer_disk: str
    peer_role: str = "Unknown"
    percent: float | None = None
    seconds_left: int | None = None

    @property
    def is_primary(self) -> bool:
        return self.role == PRIMARY

    @property
    def has_disk(self) -> bool:
        return self.disk not in _NO_DISK

    @property
    def talks(self) -> bool:
        """Whether the other node answers."""
        return self.connection in _TALKING

    @property
    def waits(self) -> bool:
        return self.connection in _WAITING

    @property
    def syncs(self) -> bool:
        return self.connection in _SYNCING

    @property
    def has_good_peer(self) -> bool:
        """Whether the other node's copy has everything."""
        return self.talks and self.peer_disk == UP_TO_DATE

    @property
    def is_whole(self) -> bool:
        """Whether both copies are complete and equal."""
        return self.disk == UP_TO_DATE and self.peer_disk == UP_TO_DATE and self.talks and not self.syncs


def read_proc(text: str) -> dict[int, Device]:
    """Devices of version 8.4 by minor; unconfigured ones are left out. Raises `BlockDeviceError`."""
    try:
        found = proc_drbd.read(text, {})["deviceInfos"]
        return {each["minor"]: _of_proc(each) for each in found if "localRole" in each}
    except UnreadableError as err:
        raise BlockDeviceError(f"/proc/drbd cannot be read: {err}") from err


def _of_proc(found: dict[str, Any]) -> Device:
    progress = found.get("syncStatus")
    hours, minutes, seconds = (int(part) for part in progress["timeToFinish"].split(":")) if progress else (0, 0, 0)
    return Device(
        minor=found["minor"],
        role=found["localRole"],
        connection=found["connectionState"],
        disk=found["localState"],
        peer_disk=found["remoteState"],
        peer_role=found["remoteRole"],
        percent=float(progress["percentage"]) if progress else None,
        seconds_left=hours * 3600 + minutes * 60 + seconds if progress else None,
    )


class _PeerDevice(msgspec.Struct, rename="kebab"):
    replication_state: str = ""
    peer_disk_state: str = "DUnknown"
    percent_in_sync: float = 100.0
    percent_resync_done: float | None = None
    estimated_seconds_to_finish: float | None = None


class _Connection(msgspec.Struct, rename="kebab"):
    connection_state: str
    peer_role: str = "Unknown"
    peer_devices: list[_PeerDevice] = msgspec.field(default_factory=list, name="peer_devices")


class _Volume(msgspec.Struct, rename="kebab"):
    minor: int
    disk_state: str


class _Resource(msgspec.Struct, rename="kebab"):
    name: str
    role: str
    devices: list[_Volume] = []
    connections: list[_Connection] = []


def read_status(text: str) -> dict[int, Device]:
    """Devices of version 9 by minor; raises `BlockDeviceError`."""
    try:
        resources = msgspec.json.decode(text or "[]", type=list[_Resource])
    except UNREADABLE_JSON as err:
        raise BlockDeviceError(f"What drbdsetup status prints cannot be read: {err}") from err
    return {volume.minor: _of_status(resource, volume) for resource in resources for volume in resource.devices}


def _of_status(resource: _Resource, volume: _Volume) -> Device:
    connection = resource.connections[0] if resource.connections else _Connection("StandAlone")
    peer = connection.peer_devices[0] if connection.peer_devices else _PeerDevice()
    state = connection.connection_state
    if state == CONNECTED and peer.replication_state not in ("", "Off", ESTABLISHED):
        state = peer.replication_state
    syncs = state in _SYNCING
    done = peer.percent_in_sync if peer.percent_resync_done is None else peer.percent_resync_done
    left = peer.estimated_seconds_to_finish
    return Device(
        minor=volume.minor,
        role=resource.role,
        connection=state,
        disk=volume.disk_state,
        peer_disk=peer.peer_disk_state,
        peer_role=connection.peer_role,
        percent=done if syncs else None,
        seconds_left=int(left) if syncs and left is not None else None,
    )
