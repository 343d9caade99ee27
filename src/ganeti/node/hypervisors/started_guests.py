# SPDX-License-Identifier: BSD-2-Clause
"""What guests were started with, one file each: for hypervisors whose guests do not tell it themselves."""

import contextlib
import os

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, HypervisorError
from ganeti.model.node_requests import InstanceSpec
from ganeti.node.hypervisors.interface import check_name
from ganeti.system.boot import boot_identity
from ganeti.system.files import write_atomically

_ENDING = ".started"


class StartedGuest(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uuid: str
    memory_mib: int
    vcpus: int
    started_s: float
    """Since 1970."""
    hypervisor: str = ""
    """Where two of them share a directory."""
    boot: str
    """Of the node; what another boot has started does not run."""
    pid: int = 0
    pid_start: str = ""
    """The process that runs it, and when that began (`process_start`); none for a guest without one."""
    init_script: str = ""
    """Of a chroot."""
    switch_ports: list[str] = []
    """Devices of its NICs that are ports of a switch, which forgets them only when told."""


def started(spec: InstanceSpec, now_s: float) -> StartedGuest:
    """The record of a guest that starts now."""
    return StartedGuest(
        name=spec.name,
        uuid=spec.uuid,
        memory_mib=int(spec.beparams["maxmem"]),
        vcpus=int(spec.beparams["vcpus"]),
        started_s=now_s,
        boot=boot_identity(),
    )


class StartedGuests:
    """All below one directory."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def all(self) -> list[StartedGuest]:
        try:
            names = sorted(name.removesuffix(_ENDING) for name in os.listdir(self.directory) if name.endswith(_ENDING))
        except FileNotFoundError:
            return []
        found = (self.read(name) for name in names)
        return [guest for guest in found if guest is not None]

    def read(self, name: str) -> StartedGuest | None:
        """Give the record of a guest; None where this boot has started none. Raises `HypervisorError`."""
        path = self.path(name)
        try:
            with open(path, "rb") as source:
                guest = msgspec.json.decode(source.read(), type=StartedGuest)
        except FileNotFoundError:
            return None
        except UNREADABLE_JSON as err:
            raise HypervisorError(f"The file {path} cannot be read: {err}") from err
        return guest if guest.boot == boot_identity() else None

    def write(self, guest: StartedGuest) -> None:
        """Raises `HypervisorError`."""
        path = self.path(guest.name)
        try:
            os.makedirs(self.directory, mode=0o755, exist_ok=True)
            write_atomically(path, msgspec.json.encode(guest), mode=0o600, durable=False)
        except OSError as err:
            raise HypervisorError(f"Cannot write {path}: {err.strerror}") from err

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(name))

    def path(self, name: str) -> str:
        check_name(name)
        return f"{self.directory}/{name}{_ENDING}"
