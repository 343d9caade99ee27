# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-network."""

from ganeti.base.command import Argument, Command

INFO = Command(
    "gnt-network info",
    "show details of networks",
    arguments=(Argument("names", "network", 0, None),),
    handler="network.info:info",
    is_job=False,
)
