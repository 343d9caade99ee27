# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-backup that are no operation."""

from ganeti.base.command import Command
from ganeti.cli.commands.options import LIST_OPTIONS, UNITS, option

BACKUP_LIST = Command(
    "gnt-backup list",
    "list exports and the nodes that keep them",
    handler="listing:exports",
    is_job=False,
    options=(
        *LIST_OPTIONS,
        UNITS,
        option("-n", "--node", field="node", help="exports on this node only", metavar="NODE", repeatable=True),
    ),
)
