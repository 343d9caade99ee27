# SPDX-License-Identifier: BSD-2-Clause
"""What `rbd` and `ceph` are asked about an image, each with a time limit (`ceph_silence`)."""

from functools import partial

import msgspec

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage import rbd_clients
from ganeti.node.storage.ceph_silence import CephSilence
from ganeti.ports.node_world import NodeWorld

NODE, INCOMING = "ganeti.node", "ganeti.incoming"
"""Keys of an image's metadata."""
_LONG_S = 1800.0
"""How long removing and reverting may take, which touch each object of an image."""


class CephQuestions:
    """Those of one node; all raise `BlockDeviceError`."""

    def __init__(self, world: NodeWorld) -> None:
        self.silence = CephSilence()
        self._world = world

    def name_of(self, disk: DiskSpec) -> str:
        return name_of(disk)

    async def ceph(self, disk: DiskSpec, *words: str) -> str:
        return await self.silence.ask(place_of(disk)[0], partial(self._run, "ceph", *_client(disk), *words))

    async def rbd(self, disk: DiskSpec, *words: str, patient: bool = False) -> str:
        question = partial(self._run, "rbd", *words, *_client(disk))
        return await self.silence.ask(place_of(disk)[0], question, patient=patient)

    async def rbd_long(self, disk: DiskSpec, *words: str) -> str:
        """What takes the longer the larger the image is."""
        question = partial(self._run, "rbd", *words, *_client(disk))
        probe = partial(self._run, "rbd", "info", name_of(disk), *_client(disk))
        return await self.silence.ask_long(place_of(disk)[0], question, probe, _LONG_S)

    async def _run(self, *words: str, limit_s: float) -> str:
        return (await self._world.run(words, timeout_s=limit_s)).stdout

    async def metadata(self, disk: DiskSpec, *, patient: bool = False) -> dict[str, str]:
        text = await self.rbd(disk, "image-meta", "list", "--format", "json", name_of(disk), patient=patient)
        found = msgspec.json.decode(text, type=dict[str, str]) if text.strip() else {}
        return {key: value for key, value in found.items() if key in (NODE, INCOMING, rbd_clients.CLIENTS)}

    async def forget(self, disk: DiskSpec, key: str, noted: dict[str, str]) -> None:
        if key in noted:
            await self.rbd(disk, "image-meta", "remove", name_of(disk), key)


def user_of(disk: DiskSpec) -> str:
    return str(disk.params.get("user-id") or "")


def _client(disk: DiskSpec) -> list[str]:
    user = user_of(disk)
    return ["--id", user] if user else []


def place_of(disk: DiskSpec) -> tuple[str, str]:
    match disk.logical_id:
        case [str(pool), str(image)] if (
            pool and image and not any(set(word) & set("/@:, ") or word.startswith("-") for word in (pool, image))
        ):
            return pool, image
    raise BlockDeviceError(f"Logical id {disk.logical_id} names no image: it must be [pool, image]")


def name_of(disk: DiskSpec) -> str:
    return "/".join(place_of(disk))
