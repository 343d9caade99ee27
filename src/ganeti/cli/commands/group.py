# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-group."""

from ganeti.base.command import Argument, Command

INFO = Command(
    "gnt-group info",
    "show details of node groups",
    arguments=(Argument("names", "group", 0, None),),
    handler="group_info:info",
    is_job=False,
)
