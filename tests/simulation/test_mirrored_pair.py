# SPDX-License-Identifier: BSD-2-Clause
"""Mirrored disks through kills, cuts, losses of power and failovers by force, seed after seed."""

from __future__ import annotations

from unittest import mock

import pytest
from tests.fakes.thoroughness import examples
from tests.simulation.mirrored_cluster import play
from tests.simulation.mirrored_pair import Violation

from ganeti.mirrord.admission import Admission
from ganeti.mirrord.copying import Copying
from ganeti.mirrord.disk import Disk as MirroredDisk
from ganeti.mirrord.record import Record
from ganeti.mirrord.storage_daemon import Status
from ganeti.model.objects import Disk
from ganeti.node.storage.mirror.requests import State


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
    """The loss shows at the next look."""


async def _only_ask(self: Admission, *, at_its_pace: bool = False) -> None:
    """The storage daemon carries out what it has read."""


async def _count_no_loss(self: Copying) -> None:
    """Whoever asks the other node meanwhile does not learn of it."""
    self.in_sync, self.status = False, None
    await self._note()


async def _settle_nothing(self: Copying) -> None:
    """What is written down goes on while another node becomes the primary."""


def _always_as_marked(self: Record, peer: State) -> bool:
    """A copy that was opened anew is taken for the one that was lost."""
    return True


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (MirroredDisk, "note_loss", _note_nothing),
        (Admission, "shut_out", _only_ask),
        (Copying, "note_loss", _count_no_loss),
        (Copying, "settle", _settle_nothing),
        (Record, "is_as_marked", _always_as_marked),
        (Status, "is_equal", Status.works),
    ],
)
def test_a_rule_that_is_broken_on_purpose_is_found(owner: type, name: str, broken: object) -> None:
    with mock.patch.object(owner, name, broken), pytest.raises(Violation):
        for seed in range(1, 200):
            play(seed)


def test_a_restarted_one_that_trusts_no_copy_is_found() -> None:
    """It notes no loss of which the storage daemon tells before it has looked."""

    def begin(self: Copying, *others: object) -> None:
        original(self, *others)  # type: ignore[arg-type]
        self._trusted = False

    original = Copying.__init__
    with mock.patch.object(Copying, "__init__", begin), pytest.raises(Violation):
        for seed in range(1, 200):
            play(seed)
