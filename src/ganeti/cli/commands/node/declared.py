# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-node that are no operation."""

from ganeti.base.command import Argument, Command
from ganeti.cli.commands.options import CACHE, FILTER, LIST_OPTIONS, NO_HEADERS, NODE_GROUP, SEPARATOR, UNITS

NODE_LIST = Command(
    "gnt-node list",
    "list nodes",
    arguments=(Argument("names", "node-name", 0, None),),
    handler="listing:nodes",
    is_job=False,
    environment=True,
    options=(
        *LIST_OPTIONS,
        UNITS,
        FILTER,
        CACHE,
        NODE_GROUP,
    ),
)

NODE_INFO = Command(
    "gnt-node info",
    "show details of nodes",
    aliases=("show",),
    arguments=(Argument("names", "node-name", 0, None),),
    handler="node.info:info",
    is_job=False,
    options=(NODE_GROUP,),
)

NODE_JOIN = Command(
    "gnt-node join",
    "take this machine into the cluster whose master waits with 'gnt-node token'",
    arguments=(Argument("master", "master"), Argument("token", "token", 0, 1)),
    handler="node.setup:join_cluster",
    is_job=False,
    needs_root=True,
    needs_master=False,
)

NODE_MINORS = Command(
    "gnt-node list-drbd",
    "list the DRBD minors of a node",
    arguments=(Argument("node", "node-name"),),
    handler="node.minors:list_minors",
    is_job=False,
    options=(NO_HEADERS, SEPARATOR),
)
