# SPDX-License-Identifier: BSD-2-Clause
"""What collectors need root for: guests' processes, volumes, file systems behind closed directories, diagnose commands.

`local_probes` does it. Where MonD has a user of its own, it asks the node daemon, which has these four things to give
and no other.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ganeti.base.paths import Paths
from ganeti.node.hypervisors.interface import Sighting

LVS_TIMEOUT_S = 30.0
SEEN, STATES, VOLUMES, STORAGE, DIAGNOSED, KEY = ("seen", "states", "volumes", "storage", "diagnosed", "key")
"""The calls at `socket_path`."""


def socket_path(paths: Paths) -> str:
    """Where the node daemon answers MonD: in a directory that MonD may enter, the socket for MonD and root alone."""
    return f"{paths.run_dir}/ganeti-noded.probes"


class Diagnosed(NamedTuple):
    """What a diagnose command says, an object; and why it is not what the command has printed, empty where it is."""

    original: dict[str, Any]
    fault: str = ""


class Probes(Protocol):
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
