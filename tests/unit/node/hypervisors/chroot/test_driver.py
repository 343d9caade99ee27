# SPDX-License-Identifier: BSD-2-Clause
"""A guest of `chroot` whose script does not answer, on a node too busy to call it in time."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.contract.hypervisor_world import NodeOnDisk, driver, instance

from ganeti.base.errors import CommandError
from ganeti.node.hypervisors.root_filesystem import RootFilesystem
from ganeti.node.hypervisors.started_guests import StartedGuests, started


@pytest.mark.parametrize("processes", [[4711], []])
def test_a_guest_whose_script_does_not_answer_runs_while_it_has_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: list[int]
) -> None:
    spec, world = instance("chroot"), NodeOnDisk(tmp_path)
    StartedGuests(f"{world.paths.run_dir}/chroot-hypervisor").write(started(spec, world.now_s()))

    async def too_late(*argv: Any, **options: Any) -> None:
        raise CommandError("setsid did not end within 10 seconds and was stopped")

    monkeypatch.setattr(world, "run", too_late)
    monkeypatch.setattr(RootFilesystem, "is_mounted", True)
    monkeypatch.setattr(RootFilesystem, "processes", lambda self: processes)
    hypervisor = driver("chroot", world)
    assert bool(asyncio.run(hypervisor.info(spec.name))) == bool(processes)
    assert len(asyncio.run(hypervisor.list_instances())) == len(processes)
