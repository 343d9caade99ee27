# SPDX-License-Identifier: BSD-2-Clause
"""Which shared images this node holds, for the look that finds out whether another node has taken one of them.

One small file for each image lies in ``run/ganeti/held-images`` from the taking of its lock to the release. It says all
that the look needs, so that a node that nobody reaches looks, too.
"""

import hashlib
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.model.node_requests import DiskSpec
from ganeti.model.parameters import Parameter
from ganeti.node.storage import image_io
from ganeti.node.storage.image_io import in_thread
from ganeti.node.storage.image_lock import ImageLock
from ganeti.ports.node_world import NodeWorld
from ganeti.system.boot import boot_identity
from ganeti.system.files import read_if_there, write_atomically

LOST_LOCK = Parameter(
    "lost_lock_timeout",
    "int",
    60,
    "seconds within which a node ends a guest whose image lock another node has taken; 0: it does not",
    minimum=0,
    maximum=86400,
)


def limit_of(disk: DiskSpec) -> int:
    """In seconds."""
    return int(disk.params.get(LOST_LOCK.name, LOST_LOCK.default))


class HeldImage(msgspec.Struct, frozen=True, kw_only=True):
    image: str
    owner: str
    """Name of the instance."""
    limit_s: int
    """How long a guest may go on after another node has taken the image; 0: for ever."""
    boot: str
    client: str = ""
    """Name of the client that asks about the image, where it is kept by a cluster."""


class HeldImages:
    """Those of one node; what an earlier power-on has left does not count."""

    def __init__(self, paths: Paths, kind: str = "images") -> None:
        self.directory = f"{paths.run_dir}/held-{kind}"

    def note(self, image: str, owner: str, limit_s: int, client: str = "") -> None:
        held = HeldImage(image=image, owner=owner, limit_s=limit_s, boot=boot_identity(), client=client)
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        write_atomically(self._file(image), msgspec.json.encode(held), mode=0o600, durable=False)

    def forget(self, image: str) -> None:
        try:
            os.unlink(self._file(image))
        except FileNotFoundError:
            return

    def holds(self, image: str) -> bool:
        return any(self._read([os.path.basename(self._file(image))]))

    def all(self) -> list[HeldImage]:
        try:
            names = sorted(os.listdir(self.directory))
        except FileNotFoundError:
            return []
        return list(self._read(names))

    def _read(self, names: Sequence[str]) -> Iterator[HeldImage]:
        for name in names:
            try:
                held = msgspec.json.decode(read_if_there(f"{self.directory}/{name}") or b"", type=HeldImage)
            except UNREADABLE_JSON:
                continue  # being written, or removed
            if held.boot == boot_identity():
                yield held

    def _file(self, image: str) -> str:
        return f"{self.directory}/{hashlib.sha256(os.fsencode(image)).hexdigest()[:32]}"


@dataclass(frozen=True)
class LostImage:
    """An image that another node has taken while this one had it in use."""

    owner: str
    """Name of the instance."""
    why: str


@dataclass(frozen=True)
class LostImages:
    """What one look has found."""

    images: Sequence[LostImage]
    limit_s: float = math.inf
    """Within which the guest of a lost image must have ended, the shortest of all in use; infinite without any."""


async def look(world: NodeWorld) -> LostImages:
    """Read the locks of all images in use here, asking nobody; what cannot be read is told in the log."""
    held_images = [held for held in await in_thread(HeldImages(world.paths).all) if held.limit_s]
    found = []
    for held in held_images:
        lock = ImageLock(held.image, node=world.node_name, boot=held.boot, log=world.log)
        try:
            holder = await image_io.read(image_io.storage_of(held.image), lock.taken_from_here)
        except (OSError, BlockDeviceError) as err:
            world.log(f"the image lock of {held.image} cannot be looked at: {err}")
            continue
        if holder is not None:
            found.append(LostImage(held.owner, f"node {holder.node} holds the image lock of {held.image}"))
    return LostImages(found, min((held.limit_s for held in held_images), default=math.inf))
