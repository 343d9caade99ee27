# SPDX-License-Identifier: BSD-2-Clause
"""Where ganeti-mirrord keeps its files: ``run/ganeti/mirror``, and beside each image.

control            the socket the node daemon asks by
ID.json            a disk that is in use here (`Opened`), gone with the node's power
ID.pid ID.cmd      its storage daemon, and the socket that one is commanded by
ID.nbd             the disk itself, for the guest's QEMU
ID.file ID.show    the disk as a file, while a program needs one, and the process that shows it
IMAGE.mirror       `Kept`, on the image's own file system
"""

import os
from dataclasses import dataclass

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.node.storage.mirror.requests import Kept, Opened
from ganeti.system.files import read_if_there, write_atomically

DIRECTORY_MODE = 0o711
"""A guest that is another user than root connects to the one socket that is given to it."""
LONGEST_SOCKET_BYTES = 107
_OF_FORMER_RELEASES = ("peer", "qmp")
_ID_LENGTH = 13
"""A UUID without its tail: sockets have short names."""


@dataclass(frozen=True)
class Places:
    paths: Paths

    @property
    def directory(self) -> str:
        return f"{self.paths.run_dir}/mirror"

    @property
    def control(self) -> str:
        return f"{self.directory}/control"

    def make_directory(self) -> None:
        """A daemon's umask would take the passage away, which a guest needs to connect once more. Raises `OSError`."""
        os.makedirs(self.directory, mode=DIRECTORY_MODE, exist_ok=True)
        os.chmod(self.directory, DIRECTORY_MODE)

    def file(self, uuid: str, kind: str) -> str:
        return f"{self.directory}/{identity(uuid)}.{kind}"

    def name(self, uuid: str, kind: str) -> str:
        """Below the directory, which storage daemons run in: sockets have short names, wherever it is."""
        return f"{identity(uuid)}.{kind}"

    def socket(self, uuid: str) -> str:
        """Where the guest's QEMU finds the disk; raises `BlockDeviceError` where no socket can have that name."""
        path = self.file(uuid, "nbd")
        if len(os.fsencode(path)) > LONGEST_SOCKET_BYTES:
            raise BlockDeviceError(f"The path {path} is too long for a socket: use a shorter root directory")
        return path

    def opened(self) -> list[Opened]:
        """The disks in use here."""
        try:
            names = sorted(name for name in os.listdir(self.directory) if name.endswith(".json"))
        except FileNotFoundError:
            return []
        found = [read_if_there(f"{self.directory}/{name}") for name in names]
        return [msgspec.json.decode(data, type=Opened) for data in found if data]

    def is_open(self, uuid: str) -> bool:
        return os.path.exists(self.file(uuid, "json"))

    def write_opened(self, disk: Opened) -> None:
        write_atomically(self.file(disk.uuid, "json"), msgspec.json.encode(disk), mode=0o600)

    def forget(self, uuid: str) -> None:
        for kind in ("nbd", "cmd", "pid", "file", "show", *_OF_FORMER_RELEASES, "json"):
            try:
                os.unlink(self.file(uuid, kind))
            except FileNotFoundError:
                continue


def identity(uuid: str) -> str:
    return uuid[:_ID_LENGTH]


def kept_file(image: str) -> str:
    return f"{image}.mirror"


def read_kept(image: str) -> Kept:
    data = read_if_there(kept_file(image))
    try:
        return msgspec.json.decode(data, type=Kept) if data else Kept()
    except UNREADABLE_JSON as err:
        raise BlockDeviceError(
            f"{kept_file(image)} cannot be read: {err}; if the other node's copy is good, remove it"
        ) from err


def write_kept(image: str, kept: Kept) -> None:
    """Raises `BlockDeviceError`."""
    if not os.path.exists(image):
        raise BlockDeviceError(f"Disk {image} is missing")
    try:
        write_atomically(kept_file(image), msgspec.json.encode(kept), mode=0o600)
    except OSError as err:
        raise BlockDeviceError(
            f"{kept_file(image)} cannot be written: {err.strerror}; see that its file system has room and takes writes"
        ) from err
