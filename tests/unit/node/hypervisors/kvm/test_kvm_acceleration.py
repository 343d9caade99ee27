# SPDX-License-Identifier: BSD-2-Clause
"""Whether hardware virtualisation is used: asked once a boot and binary, a bad answer asked again after an hour."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.errors import CommandError, HypervisorError
from ganeti.base.paths import Paths
from ganeti.node.hypervisors.kvm import acceleration
from ganeti.node.hypervisors.kvm.emulator import Emulator
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.ports.node_world import Completed

QEMU = Emulator(
    path="/usr/bin/kvm",
    identity="one",
    version=[7, 2, 22],
    machines={},
    capabilities=[],
    cpu_models=[],
    devices=[],
    sandbox=True,
    spice=False,
)


class Machine:
    """A node whose QEMU ends with a given status; None hangs."""

    def __init__(self, root: Path, status: int | None) -> None:
        self.paths = Paths(str(root))
        self.node_name = "node1"
        self.status = status
        self.runs = 0
        self.time_s = 1000.0

    def now_s(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self.time_s += seconds

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        cwd: str | None = None,
        log_path: str | None = None,
        check: bool = True,
    ) -> Completed:
        self.runs += 1
        if self.status is None:
            raise CommandError("it did not end")
        return Completed(tuple(argv), self.status, "", "qemu: no luck")

    async def spawn(self, argv: Sequence[str], *, pass_fds: Sequence[int] = (), log_path: str = "/dev/null") -> int:
        raise NotImplementedError

    def log(self, sentence: str) -> None:
        raise NotImplementedError


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kvm"
    path.touch()
    monkeypatch.setattr(acceleration, "DEVICE", str(path))
    return path


def choose(machine: Machine, **hvparams: Any) -> str:
    return asyncio.run(acceleration.choose(machine, Places(machine.paths), QEMU, {"kvm_flag": "", **hvparams}))


def test_the_probe_decides_and_is_asked_once(tmp_path: Path, device: Path) -> None:
    machine = Machine(tmp_path, 65)
    assert choose(machine) == "kvm"
    machine.time_s += 1e6
    assert choose(machine, kvm_flag="enabled") == "kvm"
    assert machine.runs == 1


@pytest.mark.parametrize(("status", "reason"), [(1, "no luck"), (None, "did not end within 8 s")])
def test_what_does_not_work_is_refused_with_the_remedy(
    tmp_path: Path, device: Path, status: int | None, reason: str
) -> None:
    machine = Machine(tmp_path, status)
    for _ in range(2):
        with pytest.raises(HypervisorError, match=rf"{reason}.*kvm_flag=disabled"):
            choose(machine)
    assert machine.runs == 1
    machine.time_s += 3601
    machine.status = 65
    assert choose(machine) == "kvm"


def test_emulation_needs_no_probe(tmp_path: Path, device: Path) -> None:
    machine = Machine(tmp_path, 1)
    assert choose(machine, kvm_flag="disabled") == "tcg"
    assert machine.runs == 0


def test_without_the_device_nothing_is_booted(tmp_path: Path, device: Path) -> None:
    device.unlink()
    machine = Machine(tmp_path, 65)
    with pytest.raises(HypervisorError, match="kvm_intel or kvm_amd"):
        choose(machine)
    assert machine.runs == 0


def test_the_rom_starts_at_the_reset_vector() -> None:
    image = acceleration.rom()
    assert len(image) == 0x10000
    assert image[0xFFF0:0xFFF5] == bytes.fromhex("ea000000f0")  # jump to f000:0000
    assert image[0] == 0xFA
