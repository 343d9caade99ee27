# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-instance that are no operation."""

from ganeti.base.command import Argument, Command
from ganeti.cli.commands.options import CACHE, FIELDS, FILTER, LIST_OPTIONS, NO_HEADERS, SEPARATOR, UNITS

INSTANCE_LIST = Command(
    "gnt-instance list",
    "list instances",
    arguments=(Argument("names", "instance-name", 0, None),),
    handler="listing:instances",
    is_job=False,
    environment=True,
    options=(*LIST_OPTIONS, UNITS, FILTER, CACHE),
)

INSTANCE_LIST_FIELDS = Command(
    "gnt-instance list-fields",
    "list the fields of 'list'",
    arguments=(FIELDS,),
    handler="listing:instance_fields",
    is_job=False,
    options=(NO_HEADERS, SEPARATOR),
)
