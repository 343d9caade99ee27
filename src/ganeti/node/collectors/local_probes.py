# SPDX-License-Identifier: BSD-2-Clause
"""`Probes` of a process that is root."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.model.templates import TEMPLATES
from ganeti.node.collectors import diagnose, lv, storage
from ganeti.node.collectors.probes import LVS_TIMEOUT_S, Diagnosed
from ganeti.node.collectors.programs import output_of
from ganeti.node.collectors.report import UnreadableError
from ganeti.node.hypervisors.interface import Hypervisor, Sighting
from ganeti.node.storage import image_io
from ganeti.node.white_list import fault_of

LARGEST_OUTPUT_BYTES = 16 * 1024 * 1024
_DIRECTORIES = tuple(dict.fromkeys(each.directory_setting for each in TEMPLATES.values() if each.directory_setting))
"""Files of ssconf that name where guests' images are kept."""


def _unless_hung(told: list[dict[str, Any]] | BaseException) -> list[dict[str, Any]]:
    if isinstance(told, BlockDeviceError):
        return []
    if isinstance(told, BaseException):
        raise told
    return told


class LocalProbes:
    """`Probes` by oneself; *ssconf* gives the words of one of the node's ssconf files."""

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
        kept = [place for key in _DIRECTORIES for place in self._ssconf(key)]
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
