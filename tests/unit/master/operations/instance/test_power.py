# SPDX-License-Identifier: BSD-2-Clause
"""Stopping a guest: whoever waits hears what for."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operations.instance.power.guest_power import stop_on_primary
from ganeti.master.operations.instance.power.startup import StartInstance
from ganeti.model.node_requests import InstanceSpec


class SlowGuest(FakeContext):
    """A guest that shuts down after *shutdown_s* of a clock that only those who sleep move; a node ends it in time."""

    def __init__(self, shutdown_s: float) -> None:
        super().__init__(configuration(), catalogue())
        self.shutdown_s = shutdown_s
        self.ended = asyncio.Event()
        self.ends_s = 0.0
        self.shares: list[tuple[str, float, float]] = []
        self.nodes.call = self.call  # type: ignore[method-assign]

    async def call(self, node_uuid: str, call: str, /, *, deadline_s: float | None = None, **arguments: Any) -> None:
        self.story.append(call)
        if call == "instance_shutdown":
            self.ends_s = self.time_s + self.shutdown_s
            await self.ended.wait()

    async def sleep(self, seconds: float) -> None:
        self.time_s += seconds
        if self.time_s >= self.ends_s > self.time_s - seconds and self.shutdown_s < 120.0:
            self.ended.set()
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(0)

    def info(self, text: str) -> None:
        super().info(text)
        if "is powered off" in text and "shut down within" in text:
            self.ended.set()

    def progress(self, text: str, done: float, total: float) -> None:
        self.shares.append((text, done, total))


@pytest.mark.parametrize(
    ("shutdown_s", "said"),
    [
        (1.0, []),
        (
            70.0,
            [
                "* waiting for web1 to shut down; it is powered off in 118 s",
                "* waiting for web1 to shut down; it is powered off in 88 s",
                "* waiting for web1 to shut down; it is powered off in 58 s",
            ],
        ),
        (1000.0, ["* web1 has not shut down within 120 s: it is powered off"]),
    ],
)
def test_who_waits_for_a_guest_hears_what_for_and_how_long(shutdown_s, said):
    ctx = SlowGuest(shutdown_s)
    add_instance(ctx.config.config, "web1")
    view = ctx.config.view()
    spec = instance_spec(view, ctx.catalogue, view.find_instance("web1"))
    asyncio.run(stop_on_primary(ctx, spec, timeout_s=120.0))
    assert ctx.lines[-len(said) :] == said if said else not ctx.lines
    assert all(
        text == "waiting for web1 to shut down, 120 s at most" and total == 120.0 for text, _, total in ctx.shares
    )
    assert [done for _, done, _ in ctx.shares] == sorted(done for _, done, _ in ctx.shares)
    assert bool(ctx.shares) == bool(said) and ctx.story == ["instance_shutdown", "instance_disks_shutdown"]


def started(**given: Any) -> InstanceSpec:
    """What the node is told of an instance with values of its own that is started so."""
    ctx = FakeContext(configuration(), catalogue())
    config = ctx.config.config
    own = {"hvparams": {"kernel": "/own"}, "beparams": {"maxmem": 512, "minmem": 256}}
    config.put("instances", "uuid-web1", replace(add_instance(config, "web1", admin_state="down"), **own))
    return StartInstance(instance_name="web1", **given).check(config, None, ctx).spec


def test_parameters_for_one_start() -> None:
    spec = started(hvparams={"kernel": "/other"}, beparams={"memory": "1g"})
    assert (spec.hvparams["kernel"], spec.beparams["maxmem"], spec.beparams["minmem"]) == ("/other", 1024, 1024)
    spec = started(hvparams={"kernel": "default"}, beparams={"memory": "default"})
    assert (spec.hvparams["kernel"], spec.beparams["maxmem"], spec.beparams["minmem"]) == ("/boot/k", 128, 128)
    with pytest.raises(PrerequisiteError, match="Minimum memory"):
        started(beparams={"maxmem": 64})
