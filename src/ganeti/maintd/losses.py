# SPDX-License-Identifier: BSD-2-Clause
"""Notes in the configuration that a copy of a mirrored disk was lost, as soon as the node with the other one says so.

The node's guest waits for the answer: from then on no failover takes the copy that is behind.
"""

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from ganeti.base.errors import GanetiError
from ganeti.master.operations.changes import NoteGenerations
from ganeti.model.objects import TERM, Disk
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.wire.diagnose_report import MISPLACED, RefusedReport
from ganeti.wire.loss_report import LossReport, read_loss_report

_log = logging.getLogger(__name__)


class LossReceiver:
    """*commit* makes a change durably."""

    def __init__(
        self,
        view: Callable[[], ConfigView],
        commit: Callable[[Change], Awaitable[object]],
        key: Callable[[], bytes],
    ) -> None:
        self._view, self._commit, self._key = view, commit, key
        self.refused: Counter[str] = Counter()

    async def hear(self, body: bytes) -> str:
        """Take a node's report; gives why it is refused, or nothing once the configuration knows.

        Raises `GanetiError` where the configuration does not take it now.
        """
        try:
            report = read_loss_report(body, time.time(), self._key())
            disk = self._disk(report)
        except RefusedReport as refusal:
            self.refused[refusal.kind] += 1
            _log.warning("a report of a lost copy is refused: it %s", refusal)
            return f"The report {refusal}"
        if disk.generation is None or disk.generation >= report.generation:
            return ""
        try:
            await self._commit(NoteGenerations(generations={disk.uuid: report.generation}))
        except GanetiError as err:
            _log.warning("disk %s: the loss of a copy that %s reports is not recorded: %s", disk.uuid, report.node, err)
            raise
        _log.warning("disk %s: %s continues without the other copy", disk.uuid, report.node)
        return ""

    def _disk(self, report: LossReport) -> Disk:
        """Raises `RefusedReport` where that node may not say this."""
        view = self._view()
        node, disk = view.uuid_by_name("nodes", report.node), view.get("disks", report.disk)
        if not isinstance(disk, Disk) or node is None or node not in disk.nodes:
            raise RefusedReport(MISPLACED, f"is of {report.node}, which has no copy of disk {report.disk}")
        if report.generation // TERM > (disk.generation or 0) // TERM:
            raise RefusedReport(MISPLACED, f"says that {report.node} was made primary of disk {report.disk}")
        return disk
