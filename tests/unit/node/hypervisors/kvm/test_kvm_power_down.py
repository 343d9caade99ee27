# SPDX-License-Identifier: BSD-2-Clause
"""A guest has the time to shut down that it was given, though the node's clock is set meanwhile."""

import asyncio
import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.contract.hypervisor_world import NodeOnDisk

from ganeti.node.hypervisors.kvm import driver, record
from ganeti.node.hypervisors.kvm.driver import KvmHypervisor
from ganeti.system.event_loop import Deadline


class Corrected(NodeOnDisk):
    """Each look at its clock finds it an hour later."""

    passed_s = 0.0

    def now_s(self) -> float:
        self.passed_s += 3600.0
        return self.passed_s


class Guest:
    """It needs a moment, and then it is off."""

    name = "web1.example.com"

    def __init__(self) -> None:
        self.looks = iter([False, False, True])
        self.is_off = False

    async def wait_end(self, timeout_s: float) -> bool:
        self.is_off = next(self.looks)
        return self.is_off


class Button:
    async def execute(self, command: str) -> Any:
        return {"status": "running"}


def test_a_guest_that_shuts_down_as_the_clock_is_corrected_is_not_powered_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def describe(kvm: KvmHypervisor, guest: Any) -> Any:
        return SimpleNamespace(state="running")

    monkeypatch.setattr(driver, "Qmp", lambda *args, **options: contextlib.nullcontext(Button()))
    monkeypatch.setattr(record, "read", lambda places, name: SimpleNamespace(hvparams={"user_shutdown": True}))
    monkeypatch.setattr(KvmHypervisor, "_describe", describe)
    world, guest = Corrected(tmp_path), Guest()
    asyncio.run(KvmHypervisor(world)._power_down(guest, 120.0))  # type: ignore[arg-type]
    assert guest.is_off and world.sentences == []


def test_a_time_that_passes_is_over() -> None:
    async def story() -> None:
        deadline = Deadline(0.05)
        assert 0 < deadline.left_s <= 0.05 and not deadline.is_over
        await asyncio.sleep(0.06)
        assert deadline.left_s == 0 and deadline.is_over

    asyncio.run(story())
