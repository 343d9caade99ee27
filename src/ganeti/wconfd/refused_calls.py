# SPDX-License-Identifier: BSD-2-Clause
"""Calls of 3.1's WConfD that would write past the checks of a commit: known by name, refused with what to do instead.

`docs/design/0099-what-the-requirements-leave-to-us.md` says why.
"""

from typing import Any

from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.calls.serving import Handler

_WHOLE = (
    "the configuration has no lock and is never replaced as a whole while it is served: submit an operation, or "
    "restore a backup (gnt-cluster restore)"
)
_OBJECT = (
    "an object changes by the operation that checks it and holds its lock: submit that one (gnt-cluster modify, "
    "gnt-instance modify and the like)"
)
_RESERVATION = (
    "nothing is reserved before it is used: addresses, ports and names are chosen within the commit that stores them"
)
REASONS = {
    _WHOLE: ("lockConfig", "unlockConfig", "writeConfig", "writeConfigAndUnlock"),
    _OBJECT: (
        "addInstance",
        "addInstanceDisk",
        "attachInstanceDisk",
        "detachInstanceDisk",
        "removeInstance",
        "removeInstanceDisk",
        "setInstancePrimaryNode",
        "setInstanceStatus",
        "updateCluster",
        "updateDisk",
        "updateInstance",
        "updateNetwork",
        "updateNode",
        "updateNodeGroup",
    ),
    _RESERVATION: (
        "addTcpUdpPort",
        "allocateDRBDMinor",
        "allocatePort",
        "commitReleaseTemporaryIp",
        "commitTemporaryIps",
        "computeDRBDMap",
        "generateDRBDSecret",
        "generateIp",
        "generateMAC",
        "listReservedIps",
        "releaseDRBDMinors",
        "releaseIp",
        "reserveIp",
        "reserveLV",
        "reserveMAC",
    ),
}
"""Why each is refused."""


def refused_calls() -> dict[str, Handler]:
    """A handler for each, whatever its arguments."""
    return {name: _refusing(name, reason) for reason, names in REASONS.items() for name in names}


def _refusing(name: str, reason: str) -> Handler:
    async def handle(arguments: list[Any]) -> Any:
        raise PrerequisiteError(f"The call {name} is refused: {reason}", WRONG_STATE)

    return handle
