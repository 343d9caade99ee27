# SPDX-License-Identifier: BSD-2-Clause
"""The LUXI call by which a job has the state of a node group renewed (ours, internal; S1.54)."""

from typing import Any

from ganeti.calls.luxid_questions import RENEW_GROUP_CALL
from ganeti.luxid.arguments import at_most, strings
from ganeti.luxid.queries.group_states import GroupStates
from ganeti.luxid.server import Handler


class StateCalls:
    """Handlers of the argument lists of LUXI requests."""

    def __init__(self, groups: GroupStates) -> None:
        self._groups = groups

    def table(self) -> dict[str, Handler]:
        return {RENEW_GROUP_CALL: self.renew_group}

    async def renew_group(self, args: list[Any]) -> dict[str, Any]:
        """The uuid of a group; gives its state."""
        (uuid,) = strings(at_most(args, 1, 1), "uuids")
        return await self._groups.renew(uuid)
