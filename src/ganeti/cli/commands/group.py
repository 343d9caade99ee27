# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-group."""

from ganeti.base.command import Argument, Command
from ganeti.cli.commands.options import (
    CACHE,
    IALLOCATOR,
    NO_HEADERS,
    PRIORITY,
    SEPARATOR,
    UNITS,
    option,
)

CAPACITY = Command(
    "gnt-group capacity",
    "show how many more instances fit into node groups",
    arguments=(Argument("groups", "group", 0, None),),
    handler="group_capacity:show",
    op_id="OP_COMPUTE_CAPACITY",
    is_job=False,
    options=(
        NO_HEADERS,
        SEPARATOR,
        UNITS,
        CACHE,
        option(
            "--max-spec",
            field="max_spec",
            kind="keyvalues",
            metavar="memory=SIZE,disk=SIZE,vcpus=N",
            help="largest size; the largest of the group's policy without it",
        ),
        option("-t", "--disk-template", field="default_template", metavar="TEMPLATE", help="kind of the disks"),
        option("--max-cpu-ratio", field="max_cpu_ratio", kind="float", help="virtual to physical processors"),
        option("--max-disk-usage", field="max_disk_usage", kind="float", help="share of a node's disk, up to 1"),
        IALLOCATOR,
        PRIORITY,
    ),
)

INFO = Command(
    "gnt-group info",
    "show details of node groups",
    arguments=(Argument("names", "group", 0, None),),
    handler="group_info:info",
    is_job=False,
)
