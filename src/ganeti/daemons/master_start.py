# SPDX-License-Identifier: BSD-2-Clause
"""How a daemon begins that runs on the master alone: by the configuration that WConfD gives, and the votes of nodes."""

import functools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.node_client import NodeClient
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.daemons.master_checks import check_master, check_node
from ganeti.system.daemonize import Daemon, DaemonRefused
from ganeti.system.event_loop import Background, uncollected
from ganeti.wconfd.master_vote import win_vote

_CONFIGURATION_S = 60.0


@dataclass(frozen=True)
class Mastery:
    """What such a daemon works with until it ends."""

    wconfd: WConfdClient
    follower: ConfigFollower
    nodes: NodeClient
    background: Background


@asynccontextmanager
async def as_master(daemon: Daemon) -> AsyncIterator[Mastery]:
    """Follow the configuration while the body runs; raises `DaemonRefused` where this node is not the master."""
    paths = daemon.environment.paths
    background = Background()
    wconfd = WConfdClient(paths.wconfd_socket)
    follower = ConfigFollower(wconfd)
    nodes = NodeClient(paths, lambda: follower.configuration)
    async with AsyncExitStack() as ending:
        ending.push_async_callback(wconfd.close)
        ending.push_async_callback(background.cancel)
        ending.push_async_callback(nodes.close)
        background.start(follower.run(), "following the configuration")
        # WConfD does not begin here any more once the others have another master, which is soon in our ssconf.
        named = functools.partial(check_node, daemon.environment, by_ssconf=not daemon.options.no_voting)
        with uncollected():
            is_filled = await follower.filled(_CONFIGURATION_S, named)
        if not is_filled:
            raise DaemonRefused("ganeti-wconfd gives no configuration: is it running?")
        check_master(daemon.environment, follower.configuration)
        if not daemon.options.no_voting:
            await win_vote(follower.configuration, nodes)
        yield Mastery(wconfd, follower, nodes, background)
