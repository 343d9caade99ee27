# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-instance that are no operation."""

from ganeti.base.command import Argument, Command
from ganeti.cli.commands.options import CACHE, FILTER, LIST_OPTIONS, UNITS

INSTANCE_LIST = Command(
    "gnt-instance list",
    "list instances",
    arguments=(Argument("names", "instance-name", 0, None),),
    handler="listing:objects",
    is_job=False,
    environment=True,
    options=(*LIST_OPTIONS, UNITS, FILTER, CACHE),
)
