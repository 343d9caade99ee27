# SPDX-License-Identifier: BSD-2-Clause
"""Taking instances over from another Ganeti, and giving them back, whose guests must be stopped for it.

Guests that share the node's kernel are known to their Ganeti by where their disks are mounted; two that know nothing of
each other would mount one disk twice.
"""

from collections.abc import Callable, Sequence

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.interface import Adopted, Adoption


class StoppedAdoption(Adoption):
    """*runs* says whether a guest of that name runs on this node, started by this driver or not."""

    def __init__(self, hypervisor: str, runs: Callable[[str], bool]) -> None:
        self._hypervisor, self._runs = hypervisor, runs

    async def check(self, wanted: Sequence[Adopted]) -> list[str]:
        return [
            f"instance {guest.name} runs: guests of the hypervisor {self._hypervisor} are stopped for this "
            f"(gnt-instance shutdown {guest.name}) and started afterwards"
            for guest in wanted
            if self._runs(guest.name)
        ]

    async def take(self, wanted: Sequence[Adopted]) -> list[str]:
        if problems := await self.check(wanted):
            raise HypervisorError("; ".join(problems))
        return []

    async def check_back(self, wanted: Sequence[Adopted]) -> list[str]:
        return await self.check(wanted)

    async def give_back(self, wanted: Sequence[Adopted]) -> list[str]:
        return await self.take(wanted)
