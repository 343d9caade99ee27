# SPDX-License-Identifier: BSD-2-Clause
"""The LUXI calls by which jobs learn, and tell, how many more instances fit (ours, internal; S1.41, S1.64)."""

from typing import Any

import msgspec

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.calls.luxid_questions import KEEP_CAPACITY_CALL, KNOWN_CAPACITY_CALL
from ganeti.luxid.arguments import at_most
from ganeti.luxid.placement.capacities import Capacities
from ganeti.luxid.server import Handler
from ganeti.master.locks.owners import Owner
from ganeti.model.capacity import Capacity


class CapacityCalls:
    """Handlers of the argument lists of LUXI requests."""

    def __init__(self, capacities: Capacities) -> None:
        self._capacities = capacities

    def table(self) -> dict[str, Handler]:
        return {KNOWN_CAPACITY_CALL: self.known_capacity, KEEP_CAPACITY_CALL: self.keep_capacity}

    async def known_capacity(self, args: list[Any]) -> dict[str, Capacity]:
        """A client, what it asks about each group, and whether what was counted before may be its answer."""
        client, questions, cached = at_most(args, 3, 3)
        asked = _read(KNOWN_CAPACITY_CALL, questions, dict[str, dict[str, Any]])
        return await self._capacities.known(Owner.from_wire(client), asked, cached=bool(cached))

    async def keep_capacity(self, args: list[Any]) -> list[str]:
        """A client, and what it had counted; gives the groups of which that is kept."""
        client, counted = at_most(args, 2, 2)
        found = _read(KEEP_CAPACITY_CALL, counted, dict[str, Capacity])
        return self._capacities.keep(Owner.from_wire(client), found)


def _read(call: str, given: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as err:
        raise PrerequisiteError(f"{call} cannot be answered: {err}", WRONG_INPUT) from err
