# SPDX-License-Identifier: BSD-2-Clause
"""How a command says which instances it acts on: by names, or by what they have in common.

`ganeti.cli.commands.instance.power` finds them, asks where they are several, and submits one job for each.
"""

from typing import Final

from ganeti.base.command import Argument, Option

SELECTED: Final = Argument("names", "name", 0, None)
_KINDS: Final = {
    "instance": "the arguments are instances (as without it)",
    "all": "every instance",
    "node": "the arguments are nodes: instances that use them",
    "primary": "the arguments are nodes: instances that run there",
    "secondary": "the arguments are nodes: instances mirrored there",
    "node-group": "the arguments are node groups: instances that run there",
    "tags": "the arguments are tags of instances",
    "node-tags": "the arguments are tags of their nodes",
    "pri-node-tags": "the arguments are tags of primary nodes",
    "sec-node-tags": "the arguments are tags of secondary nodes",
}
SELECTORS: Final = (
    Option(("--force-multiple",), "force_multiple", "flag", "do not ask about several instances"),
    *(Option((f"--{kind}",), "selector", "flag", help, kind) for kind, help in _KINDS.items()),
)
