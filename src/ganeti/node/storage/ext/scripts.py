# SPDX-License-Identifier: BSD-2-Clause
"""The scripts of a provider of external storage, with their environment and what they print (protocols, section 9)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.base.names import file_name_fault, shown
from ganeti.model.node_requests import DiskSpec
from ganeti.model.traits import KERNELSPACE
from ganeti.node.storage import providers
from ganeti.node.storage.image_io import in_thread
from ganeti.ports.node_world import NodeWorld

QUICK_S = 60.0
LONG_S = 1800.0
_LONG = ("create", "grow", "remove", "snapshot")
_LOGGED = ("create", "grow", "remove", "setinfo", "snapshot")
"""Their output goes to a file; of the others it is read."""
_ARGUMENTS = {"verify": ["parameters"]}
"""Which checks are asked for, as the script of this name of an OS definition is asked."""
_SERVING = ("attach", "open")
"""These may start what serves the volume from then on."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""As services have it: Ganeti runs these scripts with the environment of its daemon, and tools of storage are often in
/usr/local."""
NOT_OF_PROVIDERS = ("access",)
"""Disk parameters that the provider is not told."""


class ScriptFailedError(BlockDeviceError):
    """A script ran and said no."""


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """What attaching a volume gives: its block device, empty for none, and URIs by hypervisor."""

    path: str = ""
    uris: dict[str, str] = {}


@dataclass(frozen=True)
class Provider:
    """A provider that can be used."""

    world: NodeWorld
    name: str
    directory: str
    parameters: frozenset[str]

    def has(self, script: str) -> bool:
        return os.access(f"{self.directory}/{script}", os.X_OK)

    async def run(self, script: str, disk: DiskSpec, **variables: str) -> str:
        """Run *script* for the volume of *disk*; gives what it prints.

        Raises `ScriptFailedError` where it says no, and `BlockDeviceError` where it cannot be run to its end.
        """
        limit_s = LONG_S if script in _LONG else QUICK_S
        log_path, before = None, 0
        if script in _LOGGED:
            directory = f"{self.world.paths.log_dir}/extstorage"
            await in_thread(os.makedirs, directory, mode=0o750, exist_ok=True)
            log_path = f"{directory}/{self.name}-{script}-{volume_of(disk)}.log"
            before = await in_thread(_length, log_path)
        try:
            done = await self.world.run(
                [f"{self.directory}/{script}", *_ARGUMENTS.get(script, ())],
                timeout_s=limit_s,
                env=environment(disk, variables),
                cwd=self.directory,
                log_path=log_path,
                check=False,
                leaves_background=script in _SERVING,
            )
        except CommandError as err:
            raise BlockDeviceError(f"Provider {self.name}, volume {volume_of(disk)}: {err}") from err
        if done.status != 0:
            said = done.output if log_path is None else await in_thread(_tail, log_path, before)
            last = " ".join(line.strip() for line in said.splitlines()[-3:])
            where = f" (log: {log_path})" if log_path else ""
            raise ScriptFailedError(
                f"Provider {self.name}: the script {script} for volume {volume_of(disk)} ended with status "
                f"{done.status}: {last or 'it said nothing'}{where}"
            )
        return done.stdout

    async def attach(self, disk: DiskSpec) -> Places:
        """Make the volume reachable on this node; may be repeated."""
        said = await self.run("attach", disk)
        first, *rest = said.splitlines() or [""]
        uris: dict[str, str] = {}
        for line in rest:
            hypervisor, colon, uri = line.strip().partition(":")
            if colon and uri:
                uris[hypervisor] = uri
        path = first.strip()
        if not path and not uris:
            raise BlockDeviceError(f"Provider {self.name}: attach names neither a device nor a URI for {disk.uuid}")
        if path and not path.startswith("/"):
            raise BlockDeviceError(f"Provider {self.name}: attach names '{shown(path)}', which is no absolute path")
        return Places(path=path, uris=uris)


def find_provider(world: NodeWorld, disk: DiskSpec) -> Provider:
    """The provider of *disk*; raises `BlockDeviceError` for one that cannot be used, or knows a parameter not."""
    name = disk.logical_id[0] if len(disk.logical_id) == 2 else None
    if not isinstance(name, str) or file_name_fault(name) or file_name_fault(str(disk.logical_id[1])):
        raise BlockDeviceError(f"Logical id {disk.logical_id} names no volume: it must be [provider, name]")
    found = next((each for each in providers.find_all(world.paths) if each.name == name), None)
    if found is None:
        raise BlockDeviceError(
            f"Node {world.node_name} has no provider {name}: install it below one of the directories that "
            "gnt-storage diagnose shows"
        )
    if found.fault:
        raise BlockDeviceError(f"Provider {name} on node {world.node_name} cannot be used: {found.fault}")
    known = frozenset(parameter for parameter, _ in found.parameters)
    if unknown := sorted(set(own_parameters(disk)) - known):
        there = ", ".join(sorted(known)) or "none"
        raise BlockDeviceError(f"Provider {name} has no parameter {unknown[0]}: there are {there}")
    return Provider(world, name, found.path, known)


def volume_of(disk: DiskSpec) -> str:
    return str(disk.logical_id[1])


def own_parameters(disk: DiskSpec) -> dict[str, str]:
    return {key: str(value) for key, value in disk.params.items() if key not in NOT_OF_PROVIDERS}


def environment(disk: DiskSpec, variables: Mapping[str, str]) -> dict[str, str]:
    """What a script is told of a volume; sizes are in MiB."""
    told = {"VOL_NAME": volume_of(disk), "VOL_UUID": disk.uuid}
    if disk.name:
        told["VOL_CNAME"] = disk.name
    told |= {f"EXTP_{key.upper()}": value for key, value in own_parameters(disk).items()}
    told |= {"EXTP_PROVIDER": str(disk.logical_id[0]), "EXTP_ACCESS": str(disk.params.get("access", KERNELSPACE))}
    return {"PATH": PATH} | told | dict(variables)


def _length(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _tail(path: str, before: int) -> str:
    """The end of a log that had *before* bytes when the script began."""
    try:
        with open(path, "rb") as file:
            file.seek(max(before, os.fstat(file.fileno()).st_size - 4096))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
