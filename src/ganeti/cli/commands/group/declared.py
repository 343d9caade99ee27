# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-group."""

from ganeti.base.command import Argument, Command
from ganeti.cli.commands.options import flag

INFO = Command(
    "gnt-group info",
    "show details of node groups",
    arguments=(Argument("names", "group", 0, None),),
    handler="group.info:info",
    is_job=False,
)

SHOW_ISPECS = Command(
    "gnt-group show-ispecs-cmd",
    "print the commands that make groups with the same bounds of instances",
    arguments=(Argument("names", "group", 0, None),),
    options=(flag("--include-defaults", field="include_defaults", help="also the bounds that come from the cluster"),),
    handler="group.policy_command:show_groups",
    is_job=False,
)
