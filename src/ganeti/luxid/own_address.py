# SPDX-License-Identifier: BSD-2-Clause
"""The cluster's address comes up where the master's daemons start: after a loss of power nobody else has it."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from logging import getLogger

from ganeti.base.errors import GanetiError, NodeTimeoutError, NodeUnreachableError
from ganeti.base.paths import Paths
from ganeti.master.operations.cluster.master_ip import taking
from ganeti.model.objects import Cluster
from ganeti.ports.nodes import NodesPort, ask

TRIES = 30
PAUSE_S = 2.0
_log = getLogger(__name__)


async def take_address(
    paths: Paths, cluster: Cluster, nodes: NodesPort, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Have this node, the master, take the cluster's address; harmless where it has it.

    Taken down on purpose it stays so. The node daemon may start later than this one: it is waited for. What else goes
    wrong is told in the log, and the next round of the watcher tries again. A script of the site's own is left to that
    round, too: it alone knows whether it has the address.
    """
    if cluster.use_external_mip_script or os.path.exists(paths.given_up_address_file):
        return
    for left in reversed(range(TRIES)):
        try:
            await ask(nodes, cluster.master_node, taking(cluster))
            return
        except (NodeUnreachableError, NodeTimeoutError) as err:
            if not left:
                _log.error("the master IP %s cannot be brought up: %s", cluster.master_ip, err)
            else:
                await pause(PAUSE_S)
        except GanetiError as err:
            _log.error("the master IP %s cannot be brought up: %s", cluster.master_ip, err)
            return
