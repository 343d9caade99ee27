# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-node about out-of-band programs."""

from ganeti.base.command import Argument, Command
from ganeti.cli.commands.options import (
    ASSUME_YES,
    NO_HEADERS,
    PRINT_JOBID,
    PRIORITY,
    SEPARATOR,
    SUBMIT,
    flag,
    option,
)

_NODES = Argument("node_names", "node-name", 0, None)
_TIMEOUT = option("--oob-timeout", field="timeout", kind="int", metavar="SECONDS", help="how long a program may take")

NODE_POWER = Command(
    "gnt-node power",
    "switch nodes on or off by their out-of-band programs, or ask whether they are on",
    arguments=(Argument("action", "on|off|cycle|status"), _NODES),
    handler="node_power:power",
    op_id="OP_OOB_COMMAND",
    is_job=False,
    options=(
        SUBMIT,
        PRINT_JOBID,
        flag("--auto-promote", field="auto_promote", help="promote other nodes if candidates become too few"),
        PRIORITY,
        flag(
            "--ignore-status", field="ignore_status", help="switch off what is not marked offline, and do not mark it"
        ),
        ASSUME_YES,
        NO_HEADERS,
        SEPARATOR,
        _TIMEOUT,
        option(
            "--power-delay",
            field="power_delay",
            kind="float",
            metavar="SECONDS",
            help="between one node switched on and the next",
        ),
    ),
)

NODE_HEALTH = Command(
    "gnt-node health",
    "ask the out-of-band programs of nodes for their health",
    arguments=(_NODES,),
    handler="node_power:health",
    op_id="OP_OOB_COMMAND",
    is_job=False,
    options=(NO_HEADERS, SEPARATOR, PRIORITY, _TIMEOUT),
)
