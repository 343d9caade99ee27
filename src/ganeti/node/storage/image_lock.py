# SPDX-License-Identifier: BSD-2-Clause
"""The image lock: at most one node may write a disk image that several nodes reach.

Invariant: a node lets a guest write IMAGE only while ``IMAGE.lock`` names that node, or, during a migration, while
``IMAGE.lock.incoming`` does (that guest waits, or has just been switched to while the other one stopped for good).
Both files are made whole or not at all: they are written beside and hard-linked into place, which fails where the
name exists, on network file systems too (`flock` does not reach over those). A node that takes ``IMAGE.lock`` looks for
a foreign ``.incoming`` *afterwards* and steps back if there is one; a node that takes ``.incoming`` has seen the lock
held.

    free ──take──► held by A ──take for migration by B──► held by A, incoming B
                                   │ arrived: rename incoming over lock ──► held by B
                                   │ did not arrive: unlink incoming    ──► held by A

A lock that this node holds from before its last power-on is its own to take again. The lock of a dead node is taken
over only by `steal`, after the caller made sure that nothing writes there any more.
"""

import os
from collections.abc import Callable

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, BlockDeviceError
from ganeti.node.storage import image_io


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """What a lock file says."""

    node: str
    owner: str
    """Name of the instance."""
    boot: str
    source: str = ""
    """In ``.incoming``: the node that the guest comes from."""
    reason: str = ""
    """Why it was taken from another, if it was."""


class ImageLock:
    """The lock of one image, as one node sees it."""

    def __init__(self, image: str, *, node: str, boot: str, log: Callable[[str], None]) -> None:
        self.path = f"{image}.lock"
        self.incoming_path = f"{image}.lock.incoming"
        self._image = image
        self._node = node
        self._boot = boot
        self._log = log

    def take(self, owner: str) -> None:
        """Hold the image alone. Raises `BlockDeviceError` naming the holder when another node has it."""
        mine = Holder(node=self._node, owner=owner, boot=self._boot)
        for _ in range(10):
            holder = self._read(self.path)
            incoming = self._read(self.incoming_path)
            if incoming is not None and incoming.node != self._node and (holder is None or holder.node != self._node):
                raise self._busy(incoming, "is being moved to")
            if holder is None and incoming is not None:
                # The guest had arrived here and the source let go: what is left is to say so.
                self._promote(incoming, owner)
                continue
            if holder is None:
                if self._link(mine, self.path):
                    self._step_back_for_incoming()
                    return
                continue
            if holder.node != self._node or holder.owner != owner:
                if incoming is not None and incoming.node == self._node and incoming.owner == owner:
                    raise BlockDeviceError(
                        f"Disk image {self._image} is still held by node {holder.node}: its migration to this node is "
                        "not finished"
                    )
                raise self._busy(holder, "is in use on")
            if holder.boot != self._boot:
                self._log(f"image lock of {self._image} taken again for {owner}: this node has restarted since")
                self._replace(mine)
            return
        raise BlockDeviceError(f"The lock of disk image {self._image} changes all the time: try again")

    def take_incoming(self, owner: str) -> None:
        """Be the second holder while *owner* is migrated here."""
        holder = self._read(self.path)
        if holder is not None and holder.owner != owner:
            raise self._busy(holder, "is in use on")
        if holder is not None and holder.node == self._node:
            return
        source = holder.node if holder is not None else ""
        mine = Holder(node=self._node, owner=owner, boot=self._boot, source=source)
        if self._link(mine, self.incoming_path):
            return
        incoming = self._read(self.incoming_path)
        if incoming is not None and (incoming.node != self._node or incoming.owner != owner):
            raise self._busy(incoming, "is being moved to")

    def settle(self, owner: str, *, arrived: bool) -> None:
        """End a migration on its target: hold alone, or step back. Harmless when there was none."""
        incoming = self._read(self.incoming_path)
        if incoming is None or incoming.node != self._node:
            if arrived:
                self.take(owner)
            return
        if not arrived:
            self._unlink(self.incoming_path)
            return
        holder = self._read(self.path)
        if holder is not None and holder.node not in (incoming.source, self._node):
            raise self._busy(holder, "is in use on")
        self._replace(Holder(node=self._node, owner=owner, boot=self._boot))
        self._unlink(self.incoming_path)

    def release(self, owner: str | None = None) -> bool:
        """Give back what this node holds, for *owner* alone if one is named; the locks of others stay.

        Gives whether this node still holds the image, for another one.
        """
        is_held = False
        for path in (self.incoming_path, self.path):
            holder = self._read(path)
            if holder is not None and holder.node == self._node:
                if owner in (None, holder.owner):
                    self._unlink(path)
                else:
                    is_held = True
        self._unlink(self._draft)
        return is_held

    def steal(self, owner: str, reason: str) -> None:
        """Take the image from any other holder; the caller makes sure that nothing writes there any more."""
        before = [holder for path in (self.path, self.incoming_path) if (holder := self._read(path)) is not None]
        others = sorted({holder.node for holder in before if holder.node != self._node})
        self._replace(Holder(node=self._node, owner=owner, boot=self._boot, reason=reason))
        self._unlink(self.incoming_path)
        if others:
            self._log(f"image lock of {self._image} taken from {', '.join(others)} for {owner}: {reason}")

    def foreign(self) -> Holder | None:
        """Give another node that holds the image, if one does."""
        for path in (self.path, self.incoming_path):
            holder = self._read(path)
            if holder is not None and holder.node != self._node:
                return holder
        return None

    def taken_from_here(self) -> Holder | None:
        """Give another node that holds the image alone; none while a guest comes here, or leaves."""
        holder, incoming = self._read(self.path), self._read(self.incoming_path)
        if holder is None or holder.node == self._node or (incoming is not None and incoming.node == self._node):
            return None
        return holder

    def discard(self) -> None:
        """Remove all traces, with the image."""
        for path in (self.incoming_path, self.path, self._draft):
            self._unlink(path)

    @property
    def _draft(self) -> str:
        return f"{self._image}.lock.new-{self._node}"

    def _step_back_for_incoming(self) -> None:
        incoming = self._read(self.incoming_path)
        if incoming is not None and incoming.node != self._node:
            self._unlink(self.path)
            raise self._busy(incoming, "is being moved to")

    def _promote(self, incoming: Holder, owner: str) -> None:
        if incoming.owner != owner:
            raise self._busy(incoming, "is being moved to")
        if self._link(Holder(node=self._node, owner=owner, boot=self._boot), self.path):
            self._unlink(self.incoming_path)

    def _read(self, path: str) -> Holder | None:
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as err:
            if image_io.is_absence(err):
                return None
            raise
        try:
            return msgspec.json.decode(data, type=Holder)
        except UNREADABLE_JSON as err:
            raise BlockDeviceError(
                f"The image lock {path} cannot be read: if nothing uses the image, remove that file"
            ) from err

    def _write_draft(self, holder: Holder) -> str:
        # One left by a daemon that was killed may be a second name of the lock itself: it must not be written to.
        self._unlink(self._draft)
        descriptor = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
        try:
            os.write(descriptor, msgspec.json.encode(holder))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return self._draft

    def _link(self, holder: Holder, path: str) -> bool:
        """Make *path* say *holder*; False when the name exists."""
        draft = self._write_draft(holder)
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        finally:
            self._unlink(draft)
        _sync_directory(path)
        return True

    def _replace(self, holder: Holder) -> None:
        os.replace(self._write_draft(holder), self.path)
        _sync_directory(self.path)

    def _unlink(self, path: str) -> None:
        image_io.unlink(path)

    def _busy(self, holder: Holder, how: str) -> BlockDeviceError:
        return BlockDeviceError(
            f"Disk image {self._image} {how} node {holder.node} by instance {holder.owner}: stop it there first, or "
            "fail the instance over if that node is dead"
        )


def _sync_directory(path: str) -> None:
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
