# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-os."""

from ganeti.base.command import Command
from ganeti.cli.commands.options import NO_HEADERS, PRIORITY

OS_LIST = Command(
    "gnt-os list",
    "list the operating systems that can be installed, with their variants",
    handler="os_list:list_valid",
    op_id="OP_OS_DIAGNOSE",
    is_job=False,
    options=(NO_HEADERS, PRIORITY),
)
