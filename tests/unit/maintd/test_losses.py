# SPDX-License-Identifier: BSD-2-Clause
"""A node tells that the other copy of a mirrored disk is lost: what the configuration knows, and who may say so."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest
from tests.fakes.sample_cluster import configuration

from ganeti.base.errors import TransportError
from ganeti.maintd.losses import LossReceiver
from ganeti.master.operations.changes import NoteGenerations
from ganeti.model.objects import TERM, Disk
from ganeti.ports.config import Change
from ganeti.wire.loss_report import LossReport, write_loss_report

KEY = b"the key of the cluster"


class Noted:
    """A disk with copies on node1 and node2, and what is committed."""

    def __init__(self) -> None:
        self.config = configuration()
        nodes = [self.config.uuid_by_name("nodes", name) or "" for name in ("node1", "node2")]
        self.config.put("disks", "disk", Disk(uuid="disk", dev_type="mirror", generation=TERM + 5, nodes=nodes))
        self.committed: list[dict[str, int]] = []
        self.fails = False
        self.losses = LossReceiver(lambda: self.config, self._commit, lambda: KEY)

    async def _commit(self, change: Change) -> None:
        if self.fails:
            raise TransportError("WConfD does not answer")
        assert isinstance(change, NoteGenerations)
        self.committed.append(change.generations)

    def hear(self, generation: int, node: str = "node1", disk: str = "disk", key: bytes = KEY, age_s: float = 0) -> str:
        report = LossReport(node, disk, generation)
        return asyncio.run(self.losses.hear(write_loss_report(report, time.time() - age_s, key)))


def test_a_newer_generation_is_in_the_configuration_before_the_node_is_answered() -> None:
    noted = Noted()
    assert noted.hear(TERM + 6) == "" and noted.committed == [{"disk": TERM + 6}]
    assert noted.hear(TERM + 5) == "" and noted.hear(7) == "", "it is known, or of a former primary"
    assert len(noted.committed) == 1


def test_what_is_not_noted_is_told_to_the_node() -> None:
    noted = Noted()
    noted.fails = True
    with pytest.raises(TransportError, match="WConfD does not answer"):
        noted.hear(TERM + 6)


def test_a_report_that_is_not_its_nodes_to_give_is_refused() -> None:
    noted = Noted()
    assert "no copy of disk disk" in noted.hear(TERM + 6, node="node3")
    assert "no copy of disk other" in noted.hear(TERM + 6, disk="other")
    assert "made primary" in noted.hear(2 * TERM)
    assert "not signed" in noted.hear(TERM + 6, key=b"another key")
    assert "seconds ago" in noted.hear(TERM + 6, age_s=1000)
    assert asyncio.run(noted.losses.hear(msgspec.json.encode([1]))) != ""
    assert noted.committed == [] and noted.losses.refused.total() == 6
