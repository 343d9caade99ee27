# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster upgrade, as far as one installed version allows: to itself, and with a sentence to any other.

Where 3.1 keeps several versions side by side and switches a link, this release is replaced as a package.
"""

from __future__ import annotations

import re

from ganeti.cli.failures import Failure, UsageError
from ganeti.cli.invocation import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation

_VERSION = re.compile(r"\d+\.\d+")


def upgrade(call: Invocation) -> int:
    """Say that there is nothing to do, or which version there is."""
    wanted, resume = call.get("to"), call.get("resume")
    if bool(wanted) == bool(resume):
        raise UsageError("gnt-cluster upgrade needs either --to VERSION or --resume", 1)
    if resume:
        raise Failure("No upgrade was begun, so there is none to resume")
    if not _VERSION.fullmatch(wanted):
        raise UsageError(f"--to: '{wanted}' is not a version, such as 3.1", 1)
    from ganeti.base import version

    installed = ".".join(version.RELEASE.split(".")[:2])
    if wanted != installed:
        raise Failure(
            f"Version {wanted} is not installed, {installed} is: install the package of that version on every node, "
            "the master last, which restarts the daemons"
        )
    out(f"The cluster is at version {installed} already")
    return 0
