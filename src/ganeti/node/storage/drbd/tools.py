# SPDX-License-Identifier: BSD-2-Clause
"""DRBD's own tools, for the kernel module of version 8.4 and that of version 9: what each is asked, in which order.

The argument lists are those of ``drbdadm --dry-run`` (`tests/contract/test_drbd_tools.py`). In version 8.4 a device is
reached by its minor and a connection by its addresses; in version 9 both by the resource and the ids of its nodes.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.node.storage.drbd import parameters, states
from ganeti.node.storage.drbd.places import Link
from ganeti.node.storage.drbd.states import Device
from ganeti.node.storage.image_io import in_thread
from ganeti.ports.node_world import NodeWorld

TOOL_S = 60.0
META_INDEX = "0"
"""Each device has a volume of 128 MiB for DRBD's own data: the first place in it."""
_VERSION = re.compile(r"version: (\d+)\.(\d+)\.(\S+)")
_VERSION_CODE = re.compile(r"^DRBD_KERNEL_VERSION_CODE=0x([0-9a-f]{6})$", re.MULTILINE)
_REMOTE = re.compile(r"_remote_host\s*(?:\{\s*address\s+)?(ipv[46])\s+(\S+?);")
_BACKING = re.compile(r'^\s*disk\s+"?(/[^";\s]+)', re.MULTILINE)
_TWO = re.compile(r"allow-two-primaries(?:\s+(\w+))?\s*;")
_NO_META = "No valid meta data found"
_SECRET = re.compile(r"(shared-secret[= ]+)\S+")


class Tools(ABC):
    """One version's."""

    metadata: ClassVar[str]
    digest: ClassVar[str]

    def __init__(self, world: NodeWorld, version: str) -> None:
        self.world = world
        self.version = version

    @abstractmethod
    async def devices(self) -> dict[int, Device]:
        """All that are configured here, by minor."""

    @abstractmethod
    def new_words(self, link: Link) -> list[list[str]]:
        """Make the device, without disk and connection."""

    @abstractmethod
    def attach_words(self, link: Link, data: str, meta: str, params: Mapping[str, Any]) -> list[list[str]]: ...

    @abstractmethod
    def connect_words(self, link: Link, params: Mapping[str, Any]) -> list[list[str]]: ...

    @abstractmethod
    def disconnect_words(self, link: Link, remote: str) -> list[list[str]]: ...

    @abstractmethod
    def resync_words(self, link: Link, params: Mapping[str, Any]) -> list[str]:
        """Set how fast the copies of a connected device are made equal."""

    @abstractmethod
    def two_primaries_words(self, link: Link, remote: str, *, allowed: bool) -> list[str]: ...

    @abstractmethod
    def role_words(self, link: Link, role: str, *, force: bool = False) -> list[str]: ...

    @abstractmethod
    def create_metadata_words(self, link: Link, meta: str) -> list[str]: ...

    async def device(self, link: Link) -> Device | None:
        return (await self.devices()).get(link.minor)

    async def setup(self, *words: str) -> str:
        return await self._run("drbdsetup", *words)

    async def setup_all(self, commands: list[list[str]]) -> None:
        for words in commands:
            await self.setup(*words)

    async def take_role(self, link: Link, role: str, *, force: bool = False) -> None:
        await self.setup(*self.role_words(link, role, force=force))

    async def connection(self, link: Link) -> tuple[str, bool]:
        """The other end of the connection, as an address with port or empty, and whether two primaries are allowed."""
        text = await self.setup("show", link.resource)
        found, two = _REMOTE.search(text), _TWO.search(text)
        return f"{found[1]}:{found[2]}" if found else "", two is not None and two[1] != "no"

    async def backing(self, link: Link) -> str:
        """The volume with the data of a device that has its disk; empty where the tool does not tell."""
        found = _BACKING.search(await self.setup("show", link.resource))
        return found[1] if found else ""

    async def metadata_state(self, link: Link, meta: str) -> str | None:
        """Of a device that is down: what its own data say of its disk; None where there are none.

        Both formats tell ``Consistent``, never ``UpToDate``, ``Outdated`` or ``Inconsistent``; some versions of the
        tool add ``/DUnknown`` for the other node's.
        """
        try:
            text = await self._run("drbdmeta", str(link.minor), self.metadata, meta, META_INDEX, "dstate")
        except BlockDeviceError as err:
            if _NO_META in str(err):
                return None
            raise
        return text.strip().partition("/")[0]

    async def create_metadata(self, link: Link, meta: str) -> None:
        await self._run("drbdmeta", *self.create_metadata_words(link, meta))

    async def apply_activity_log(self, link: Link, meta: str) -> None:
        """After a crash, mark what may differ; before each attach, as drbdadm does."""
        await self._run("drbdmeta", str(link.minor), self.metadata, meta, META_INDEX, "apply-al")

    async def _run(self, *words: str) -> str:
        try:
            return (await self.world.run(words, timeout_s=TOOL_S, env={"LC_ALL": "C"})).stdout
        except CommandError as err:
            raise BlockDeviceError(_SECRET.sub(r"\1…", str(err))) from err


class Version8(Tools):
    """8.4."""

    metadata, digest = "v08", "md5"

    async def devices(self) -> dict[int, Device]:
        text: str | None = await in_thread(read_proc, self.world)
        return states.read_proc(text or "")

    def new_words(self, link: Link) -> list[list[str]]:
        return [["new-resource", link.resource], ["new-minor", link.resource, str(link.minor), "0"]]

    def attach_words(self, link: Link, data: str, meta: str, params: Mapping[str, Any]) -> list[list[str]]:
        options = [*parameters.disk_options(params), *parameters.resync_options(params)]
        return [["attach", str(link.minor), data, meta, META_INDEX, *options]]

    def connect_words(self, link: Link, params: Mapping[str, Any]) -> list[list[str]]:
        options = parameters.net_options(params, link.secret, self.digest)
        return [["connect", link.resource, link.local, link.remote, *options]]

    def disconnect_words(self, link: Link, remote: str) -> list[list[str]]:
        return [["disconnect", _own_end(link, remote), remote]]

    def resync_words(self, link: Link, params: Mapping[str, Any]) -> list[str]:
        return ["disk-options", str(link.minor), *parameters.resync_options(params)]

    def two_primaries_words(self, link: Link, remote: str, *, allowed: bool) -> list[str]:
        return ["net-options", _own_end(link, remote), remote, f"--allow-two-primaries={'yes' if allowed else 'no'}"]

    def role_words(self, link: Link, role: str, *, force: bool = False) -> list[str]:
        return [role, str(link.minor), *(["--force"] if force else [])]

    def create_metadata_words(self, link: Link, meta: str) -> list[str]:
        return ["--force", str(link.minor), self.metadata, meta, META_INDEX, "create-md"]


class Version9(Tools):
    """9.x, with one peer for each device."""

    metadata, digest = "v09", "sha256"

    async def devices(self) -> dict[int, Device]:
        return states.read_status(await self.setup("status", "--json", "--verbose"))

    def new_words(self, link: Link) -> list[list[str]]:
        return [
            ["new-resource", link.resource, str(link.own_id), "--auto-promote=no"],
            ["new-minor", link.resource, str(link.minor), "0"],
        ]

    def attach_words(self, link: Link, data: str, meta: str, params: Mapping[str, Any]) -> list[list[str]]:
        return [["attach", str(link.minor), data, meta, META_INDEX, *parameters.disk_options(params)]]

    def connect_words(self, link: Link, params: Mapping[str, Any]) -> list[list[str]]:
        peer = [link.resource, str(link.peer_id)]
        options = parameters.net_options(params, link.secret, self.digest)
        return [
            ["new-peer", *peer, f"--_name={link.peer_name}", *options],
            ["new-path", *peer, link.local, link.remote],
            self.resync_words(link, params),
            ["connect", *peer],
        ]

    def disconnect_words(self, link: Link, remote: str) -> list[list[str]]:
        peer = [link.resource, str(link.peer_id)]
        return [["disconnect", *peer], ["del-peer", *peer]]

    def resync_words(self, link: Link, params: Mapping[str, Any]) -> list[str]:
        return ["peer-device-options", link.resource, str(link.peer_id), "0", *parameters.resync_options(params)]

    def two_primaries_words(self, link: Link, remote: str, *, allowed: bool) -> list[str]:
        word = "yes" if allowed else "no"
        return ["net-options", link.resource, str(link.peer_id), f"--allow-two-primaries={word}"]

    def role_words(self, link: Link, role: str, *, force: bool = False) -> list[str]:
        return [role, link.resource, *(["--force"] if force else [])]

    def create_metadata_words(self, link: Link, meta: str) -> list[str]:
        return ["--force", str(link.minor), self.metadata, meta, META_INDEX, "create-md", "1"]


def _own_end(link: Link, remote: str) -> str:
    """The address of this end of a connection to *remote*, whose port is the same."""
    return f"{link.local.rpartition(':')[0]}:{remote.rpartition(':')[2]}"


def read_proc(world: NodeWorld) -> str | None:
    """None where the kernel module is not loaded."""
    try:
        with open(world.paths.under("/proc/drbd"), encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as err:
        raise BlockDeviceError(f"/proc/drbd cannot be read: {err.strerror}") from err


def read_helper(world: NodeWorld) -> str | None:
    """What the kernel module runs when something happens to a device; None where it does not tell."""
    try:
        with open(world.paths.under("/sys/module/drbd/parameters/usermode_helper"), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return None


def version_in(text: str) -> str:
    """The version of the kernel module, told by ``/proc/drbd`` or by ``drbdadm --version``; empty where none is loaded.

    Raises `BlockDeviceError` for one that is not known here.
    """
    if found := _VERSION.match(text):
        version = ".".join(found.groups())
    elif (code := _VERSION_CODE.search(text)) and int(code[1], 16):
        version = ".".join(str(part) for part in int(code[1], 16).to_bytes(3, "big"))
    else:
        return ""
    if not version.startswith(("8.4.", "9.")):
        raise BlockDeviceError(f"The kernel module drbd has version {version}: 8.4 or 9 is needed")
    return version


async def tools_of(world: NodeWorld) -> Tools:
    """For the kernel module of this node, which drbdadm loads where it is not; raises `BlockDeviceError`."""
    text = await in_thread(read_proc, world)
    if text is None:
        try:
            text = (await world.run(["drbdadm", "--version"], timeout_s=TOOL_S)).stdout
        except CommandError as err:
            raise BlockDeviceError(f"DRBD cannot be used on {world.node_name}: {err}") from err
    version = version_in(text)
    if not version:
        raise BlockDeviceError(
            f"The kernel module drbd is not loaded on {world.node_name}: install it, and load it (modprobe drbd)"
        )
    return (Version9 if version.startswith("9") else Version8)(world, version)
