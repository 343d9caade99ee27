# SPDX-License-Identifier: BSD-2-Clause
"""What collectors need root for: guests' processes, volumes, file systems behind closed directories, diagnose commands.

`OwnLooks` does it. Where MonD has a user of its own, it asks the node daemon, which has these four things to give
and no other.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.node.collectors import diagnose, lv, storage
from ganeti.node.collectors.diagnose import Diagnosed
from ganeti.node.collectors.programs import output_of
from ganeti.node.collectors.report import UnreadableError
from ganeti.node.hypervisors.interface import Hypervisor, Sighting
from ganeti.node.storage import image_io
from ganeti.node.white_list import fault_of

LVS_TIMEOUT_S = 30.0
LARGEST_OUTPUT_BYTES = 16 * 1024 * 1024
_STORAGE = ("file_storage_dir", "shared_file_storage_dir", "gluster_storage_dir")


SEEN, STATES, VOLUMES, STORAGE, DIAGNOSED, KEY = ("seen", "states", "volumes", "storage", "diagnosed", "key")
"""The calls at `socket_path`."""


def socket_path(paths: Paths) -> str:
    """Where the node daemon answers MonD: in a directory that MonD may enter, the socket for MonD and root alone."""
    return f"{paths.run_dir}/ganeti-noded.looks"


class Looks(Protocol):
    """All raise `GanetiError` for what cannot be had."""

    async def seen(self, hypervisor: str) -> Sequence[Sighting]:
        """The guests of a hypervisor (its name)."""

    async def states(self, hypervisor: str) -> Mapping[str, str]:
        """What guests say of their states, by name."""

    async def volumes(self) -> str:
        """What `lv.COMMAND` prints."""

    async def storage(self) -> list[dict[str, Any]]:
        """The file systems of what the node keeps; without those that hang, which keep no thread but their first."""

    async def diagnosed(self, command: str) -> Diagnosed:
        """The object of a diagnose command; one that may not run, or fails, is of a node that is well."""


def _unless_hung(told: list[dict[str, Any]] | BaseException) -> list[dict[str, Any]]:
    if isinstance(told, BlockDeviceError):
        return []
    if isinstance(told, BaseException):
        raise told
    return told


class OwnLooks:
    """`Looks` by oneself; *ssconf* gives the words of one of the node's ssconf files."""

    def __init__(self, paths: Paths, hypervisors: Sequence[Hypervisor], ssconf: Callable[[str], Sequence[str]]) -> None:
        self._paths, self._ssconf = paths, ssconf
        self._hypervisors = {each.traits.name: each for each in hypervisors}

    async def seen(self, hypervisor: str) -> Sequence[Sighting]:
        found = self._hypervisors.get(hypervisor)
        return found.seen() if found is not None else []

    async def states(self, hypervisor: str) -> Mapping[str, str]:
        found = self._hypervisors.get(hypervisor)
        guests = await found.list_instances() if found is not None else []
        return {guest.name: guest.state for guest in guests}

    async def volumes(self) -> str:
        output = await output_of(lv.COMMAND, timeout_s=LVS_TIMEOUT_S, limit_bytes=LARGEST_OUTPUT_BYTES)
        return output.decode(errors="replace")

    async def storage(self) -> list[dict[str, Any]]:
        kept = [place for key in _STORAGE for place in self._ssconf(key)]
        places = [self._paths.data_dir, self._paths.log_dir, *map(self._paths.under, kept)]
        read = [image_io.read(place, storage.read, [place]) for place in dict.fromkeys(places)]
        found = await asyncio.gather(*read, return_exceptions=True)
        return [each for told in found for each in _unless_hung(told)]

    async def diagnosed(self, command: str) -> Diagnosed:
        directory = self._paths.diagnose_commands_dir
        fault = fault_of(directory, command)
        if fault is not None:
            return diagnose.refused(fault)
        words = [f"{directory}/{command}"]
        try:
            output = await output_of(words, timeout_s=diagnose.TIMEOUT_S, limit_bytes=diagnose.LARGEST_OUTPUT_BYTES)
        except UnreadableError as err:
            return diagnose.refused(str(err))
        return diagnose.read(output)
