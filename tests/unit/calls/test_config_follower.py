# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's copy of the configuration: following it outlives whatever WConfD answers."""

import asyncio

import pytest
from tests.fakes.sample_cluster import configuration

from ganeti.base.errors import GanetiError, TransportError
from ganeti.calls import config_follower
from ganeti.calls.config_follower import ConfigFollower


class Refusing:
    """A client whose stream fails a few times before it begins."""

    def __init__(self) -> None:
        self.failures = [TransportError("away"), GanetiError("The call failed with an internal error")]

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


def test_who_waits_for_a_configuration_looks_whether_it_should_still(monkeypatch):
    """WConfD does not begin on a former master: LuxiD ends as soon as ssconf names another one."""
    monkeypatch.setattr(config_follower, "_LOOK_EVERY_S", 0.01)
    looks = []

    def look() -> None:
        looks.append("look")
        if len(looks) == 3:
            raise GanetiError("another node is the master")

    async def go():
        await ConfigFollower(Refusing()).filled(60.0, look)

    with pytest.raises(GanetiError, match="another node"):
        asyncio.run(go())
    assert len(looks) == 3
