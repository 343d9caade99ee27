# SPDX-License-Identifier: BSD-2-Clause
"""The guests of Xen, as far as a node without Xen has something to say of them (protocols, 5)."""

from typing import Any

from ganeti.node.collectors.report import NEEDS_A_PERSON

NAME, CATEGORY = "inst-status-xen", "instance"
TOOLS = ("xl", "xm")
_NOT_FOUND = "xm: readCreateProcess: posix_spawnp: does not exist (No such file or directory)"
"""The last tool tried; 3.0 says it once for the list of guests and once for their times."""


def without_tools() -> dict[str, Any]:
    """What is reported where neither of `TOOLS` is installed."""
    message = f"Unable to receive the list of instances: {_NOT_FOUND}\n{_NOT_FOUND}"
    return {"instances": [], "status": {"code": NEEDS_A_PERSON, "message": message}}
