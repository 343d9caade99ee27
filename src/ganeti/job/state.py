# SPDX-License-Identifier: BSD-2-Clause
"""Asking LuxiD, from a job, to renew what it keeps of the cluster's state."""

from typing import Any

from ganeti.base.paths import Paths
from ganeti.calls.luxi_client import LuxiClient
from ganeti.calls.luxid_questions import RENEW_GROUP_CALL

_PATIENCE_S = 60.0


class State:
    """Implements `StatePort`."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    async def renew_group(self, uuid: str) -> dict[str, Any]:
        """Asked again by itself where LuxiD was restarted meanwhile: what it forgot then, it has not kept either."""
        client = LuxiClient(self._paths)
        return dict(await client.call(RENEW_GROUP_CALL, uuid, patience_s=_PATIENCE_S, only_asks=True))
