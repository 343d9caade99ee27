# SPDX-License-Identifier: BSD-2-Clause
"""A start where a guest of that name runs already."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.contract import hypervisor_world
from tests.contract.hypervisor_world import NodeOnDisk

from ganeti.base.errors import HypervisorError
from ganeti.node.hypervisors.kvm import driver
from ganeti.node.hypervisors.kvm.driver import KvmHypervisor


@pytest.mark.parametrize("is_own", [True, False])
def test_only_the_instances_own_guest_counts_as_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_own: bool
) -> None:
    spec = hypervisor_world.instance("kvm")
    known: Any = SimpleNamespace(uuid=spec.uuid if is_own else "0d6f4f6e-5f0e-4d2c-9b67-6f1c2f3f4a55", started=True)

    async def describe(self: KvmHypervisor, guest: Any) -> Any:
        return SimpleNamespace(state="running")

    monkeypatch.setattr(driver.process, "find", lambda places, name: SimpleNamespace(name=name, pid=1))
    monkeypatch.setattr(driver.record, "read", lambda places, name: known)
    monkeypatch.setattr(driver.record, "read_note", lambda places, name: None)
    monkeypatch.setattr(KvmHypervisor, "_describe", describe)
    kvm = KvmHypervisor(NodeOnDisk(tmp_path))
    if is_own:
        asyncio.run(kvm.start(spec, []))
        return
    with pytest.raises(HypervisorError, match="left from another instance of that name"):
        asyncio.run(kvm.start(spec, []))
