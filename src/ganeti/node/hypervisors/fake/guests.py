# SPDX-License-Identifier: BSD-2-Clause
"""The files that are the guests of ``fake``."""

import contextlib
import os

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, HypervisorError
from ganeti.system.boot import boot_identity
from ganeti.system.files import write_atomically

UNDER_WAY = ("active", "pre-switchover")


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    status: str
    began_s: float
    live: bool
    was_running: bool


class Guest(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uuid: str
    memory_mib: int
    maximum_mib: int
    vcpus: int
    state: str
    boot: str
    started_s: float
    disk_paths: list[str] = []
    macs: list[str] = []
    """Of its NICs, in their order."""
    migration: Migration | None = None
    resumes: bool = True
    """For an incoming guest: whether it ran on the source."""

    @property
    def moving(self) -> bool:
        return self.migration is not None and self.migration.status in UNDER_WAY


class Guests:
    """All guests below one directory; those of another boot do not exist."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def all(self) -> list[Guest]:
        try:
            names = sorted(name for name in os.listdir(self.directory) if not name.startswith("."))
        except FileNotFoundError:
            return []
        found = (self.read(name) for name in names)
        return [guest for guest in found if guest is not None]

    def required(self, name: str) -> Guest:
        guest = self.read(name)
        if guest is None:
            raise HypervisorError(f"The instance {name} does not run on this node")
        return guest

    def read(self, name: str) -> Guest | None:
        try:
            with open(self._path(name), "rb") as source:
                guest = msgspec.json.decode(source.read(), type=Guest)
        except FileNotFoundError:
            return None
        except UNREADABLE_JSON as err:
            raise HypervisorError(f"The file {self._path(name)} cannot be read: {err}") from err
        return guest if guest.boot == boot_identity() else None

    def write(self, guest: Guest) -> None:
        path = self._path(guest.name)
        try:
            os.makedirs(self.directory, exist_ok=True)
            write_atomically(path, msgspec.json.encode(guest), mode=0o644, durable=False)
        except OSError as err:
            raise HypervisorError(f"Cannot write {path}: {err.strerror}") from err

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def _path(self, name: str) -> str:
        if not name or "/" in name or name.startswith("."):
            raise HypervisorError(f"'{name}' cannot be the name of an instance: it must be a host name")
        return f"{self.directory}/{name}"
