# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's copy of the configuration: following it outlives whatever WConfD answers."""

import asyncio

from tests.fakes.sample_cluster import configuration

from ganeti.base.errors import GanetiError, TransportError
from ganeti.runtime import config_follower
from ganeti.runtime.config_follower import ConfigFollower


class Refusing:
    """A client whose stream fails a few times before it begins."""

    def __init__(self) -> None:
        self.failures = [TransportError("away"), GanetiError("The call failed by a fault of its own")]

    async def events(self, position):
        if self.failures:
            raise self.failures.pop()
        yield {"event": "snapshot", "position": [1, 5], "config": configuration().to_plain()}
        await asyncio.get_running_loop().create_future()


def test_an_answer_that_is_an_error_does_not_end_the_following(monkeypatch):
    monkeypatch.setattr(config_follower, "_PAUSE_S", 0.0)

    async def go():
        follower = ConfigFollower(Refusing())
        task = asyncio.ensure_future(follower.run())
        reached = await follower.reached((1, 5), 5.0)
        task.cancel()
        return reached

    assert asyncio.run(go())
