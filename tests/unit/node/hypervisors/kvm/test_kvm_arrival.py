# SPDX-License-Identifier: BSD-2-Clause
"""Whether a guest that came by migration stays on the target, by what QEMU says of it there."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.contract.hypervisor_world import NodeOnDisk

from ganeti.base.errors import HypervisorError
from ganeti.base.paths import Paths
from ganeti.node.hypervisors.kvm import keys, launch, process, record
from ganeti.node.hypervisors.kvm.migration import Migrations
from ganeti.node.hypervisors.kvm.places import Places

NAME = "web1.example.com"


class Arriving:
    """A guest on its target, in one state of QEMU."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
        known = SimpleNamespace(name=NAME, started=False, was_running=True, hvparams={"user_shutdown": False})
        self.state, self.asked, self.is_started = state, list[str](), False
        self.migrations = Migrations(NodeOnDisk(root), Places(Paths(str(root))))
        monkeypatch.setattr(process, "find", lambda places, name: SimpleNamespace(name=name))
        monkeypatch.setattr(record, "read", lambda places, name: known)
        monkeypatch.setattr(launch, "mark_started", lambda places, made: setattr(self, "is_started", True))
        monkeypatch.setattr(keys, "remove", self._removed)
        monkeypatch.setattr(Migrations, "_qmp", lambda migrations, name: contextlib.nullcontext(self))

    async def _removed(self, *args: Any) -> None:
        """It has no keys."""

    async def execute(self, command: str, arguments: Any = None) -> Any:
        self.asked.append(command)
        return {"status": self.state}

    def finalize(self) -> None:
        asyncio.run(self.migrations.finalize_target(NAME, success=True))


@pytest.mark.parametrize("state", ["running", "io-error", "shutdown"])
def test_a_guest_that_has_run_on_the_target_stays_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    arriving = Arriving(tmp_path, monkeypatch, state)
    arriving.finalize()
    assert arriving.is_started
    assert ("quit" in arriving.asked) is (state == "shutdown")


def test_a_guest_that_cannot_run_on_the_target_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arriving = Arriving(tmp_path, monkeypatch, "paused")
    with pytest.raises(HypervisorError, match="arrived on the target but does not run there: its state is paused"):
        arriving.finalize()
    assert not arriving.is_started
