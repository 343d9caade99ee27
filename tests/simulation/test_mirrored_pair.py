# SPDX-License-Identifier: BSD-2-Clause
"""Mirrored disks through kills, cuts, losses of power and failovers by force, seed after seed."""

from __future__ import annotations

from contextlib import nullcontext
from unittest import mock

import pytest
from tests.fakes.thoroughness import examples
from tests.simulation.mirrored_cluster import play
from tests.simulation.mirrored_pair import Violation

from ganeti.mirrord.copying import Copying
from ganeti.mirrord.disk import Disk as MirroredDisk
from ganeti.mirrord.link import Link
from ganeti.mirrord.storage_daemon import Job
from ganeti.model.objects import Disk


def test_one_writer_is_left_and_both_copies_are_equal() -> None:
    """No write is lost that both copies had, nor to a failover when the configuration knew that a copy lacks it."""
    for seed in range(1, examples(120, quick=15, campaign=5000) + 1):
        play(seed)


def test_a_failover_by_force_that_raises_no_generation_is_found() -> None:
    """The rule is broken on purpose: both nodes take their copy for the newest one."""
    with mock.patch.object(Disk, "promoted", lambda disk: disk), pytest.raises(Violation):
        for seed in range(1, 60):
            play(seed)


async def _note_nothing(self: MirroredDisk) -> None:
    """The loss shows at the next look at the mirror job."""


async def _only_cut(self: Link, daemon: object) -> None:
    """The storage daemon carries out what it has read."""
    await self.cut()


async def _take_a_ready_job_for_equal(self: Copying, job: Job) -> bool:
    """QEMU says ready, and parts are still to be copied."""
    if not job.is_held:
        await self._daemon.hold()
    return job.is_held


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (MirroredDisk, "note_loss", _note_nothing),
        (Copying, "loss_on_its_way", lambda copying: nullcontext()),
        (Link, "finish", _only_cut),
        (Copying, "_has_all", _take_a_ready_job_for_equal),
    ],
)
def test_a_rule_that_is_broken_on_purpose_is_found(owner: type, name: str, broken: object) -> None:
    with (
        mock.patch.object(owner, name, broken),
        pytest.raises(Violation),
    ):
        for seed in range(1, 60):
            play(seed)
