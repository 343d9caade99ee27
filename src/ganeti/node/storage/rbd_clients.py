# SPDX-License-Identifier: BSD-2-Clause
"""Clients of a Ceph cluster that may still write an image of `rbd`: how they are known, and how they are shut out.

A client takes the image's exclusive lock with its first write, and another client gives it away when it is asked. So a
guest that has not written yet holds no lock, and would get it from the guest that has taken its place. While it answers
it is a *watcher* of the image. One that hangs is no watcher after some seconds; its address is in the image's metadata
(``ganeti.clients``), where it was noted when the guest had opened the image.
"""

import asyncio
from typing import Protocol

import msgspec

from ganeti.model.node_requests import DiskSpec

CLIENTS = "ganeti.clients"
"""Addresses, with commas between."""
_BLOCKED_S = 86400
"""How long a client stays on the blocklist; it has no way back to its lock."""


class Images(Protocol):
    """What `rbd` and `ceph` are asked about the image of a disk; both raise `BlockDeviceError`."""

    def name_of(self, disk: DiskSpec) -> str: ...

    async def rbd(self, disk: DiskSpec, *words: str) -> str: ...

    async def ceph(self, disk: DiskSpec, *words: str) -> str: ...


class _Lock(msgspec.Struct, frozen=True):
    id: str
    locker: str
    address: str


class _Watcher(msgspec.Struct, frozen=True):
    address: str


class _Status(msgspec.Struct, frozen=True):
    watchers: list[_Watcher] = []


async def watchers(images: Images, disk: DiskSpec) -> list[str]:
    """Addresses of the clients that have the image open for writing and answer."""
    text = await images.rbd(disk, "status", "--format", "json", images.name_of(disk))
    return sorted({each.address for each in msgspec.json.decode(text, type=_Status).watchers})


async def note(images: Images, disk: DiskSpec) -> None:
    """Keep the addresses of those that have the image open now; raises `BlockDeviceError`."""
    if found := await watchers(images, disk):
        await images.rbd(disk, "image-meta", "set", images.name_of(disk), CLIENTS, ",".join(found))


async def shut_out(images: Images, disk: DiskSpec, noted: str) -> list[str]:
    """Refuse whatever the image's clients still write, then break their locks; gives their addresses.

    *noted* is what the metadata have. Raises `BlockDeviceError`.
    """
    text, watching = await asyncio.gather(
        images.rbd(disk, "lock", "ls", "--format", "json", images.name_of(disk)), watchers(images, disk)
    )
    locks = msgspec.json.decode(text or "[]", type=list[_Lock])
    addresses = sorted({*watching, *(lock.address for lock in locks), *filter(None, noted.split(","))})
    for address in addresses:
        await images.ceph(disk, "osd", "blocklist", "add", address, str(_BLOCKED_S))
    for lock in locks:
        await images.rbd(disk, "lock", "rm", images.name_of(disk), lock.id, lock.locker)
    return addresses
