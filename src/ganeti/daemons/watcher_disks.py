# SPDX-License-Identifier: BSD-2-Clause
"""What a child of the watcher does for disks with a copy on two nodes: copies that are left behind are opened again.

A node that had lost its power comes back with its copies closed; nothing but this lets them follow again. Groups
without such disks cost one question.
"""

import logging
import time
from typing import Any

from ganeti.base.errors import GanetiError
from ganeti.base.paths import Paths
from ganeti.daemons.watcher_asking import ANSWER_WITHIN_S, WAIT_S, follow
from ganeti.wire.framing_sync import ask

VERIFIED_WITHIN_S = 60.0
REASON = "gnt:watcher"
LOW = 10
_log = logging.getLogger(__name__)


class DiskWork:
    """One round for the disks of one node group."""

    def __init__(self, paths: Paths, uuid: str, *, strict: bool = True) -> None:
        """*strict*: wait for jobs that change instances."""
        self._paths = paths
        self._uuid = uuid
        self._strict = strict

    def run(self) -> None:
        """What cannot be done is told in the log; the next round tries again."""
        try:
            if self._has_copies():
                self._verify()
        except GanetiError as err:
            _log.error("group %s: its disks were not looked at: %s", self._uuid, err)

    def _has_copies(self) -> bool:
        chosen = ["&", ["=", "pnode.group.uuid", self._uuid], ["?", "snodes"], ["?", "disks_active"]]
        return bool(self._luxi("Query", "instance", ["name"], chosen)["data"])

    def _verify(self) -> None:
        opcode = {"OP_ID": "OP_GROUP_VERIFY_DISKS", "group_name": self._uuid, "is_strict": self._strict}
        job_id = int(self._luxi("SubmitJob", [opcode | self._trail("verify-disks")]))
        ended = follow(self._paths.luxi_socket, job_id, ["status", "opresult"], time.monotonic() + VERIFIED_WITHIN_S)
        if ended is None:
            self._luxi("CancelJob", job_id)
            raise GanetiError(f"job {job_id} has not ended within {VERIFIED_WITHIN_S:g} seconds (gnt-job why {job_id})")
        status, results = ended
        if status != "success":
            raise GanetiError(f"job {job_id} ended with {status}: see gnt-job info {job_id}")
        faults, behind, lost = results[0]
        for node, sentence in sorted(faults.items()):
            _log.error("the disks on node %s cannot be looked at: %s", node, sentence)
        for name, disks in sorted(lost.items()):
            where = ", ".join(f"{disk} on {node}" for node, disk in disks)
            _log.error("instance %s has lost %s: see gnt-instance replace-disks or recreate-disks", name, where)
        if behind:
            self._activate(behind)

    def _activate(self, names: list[str]) -> None:
        trail = self._trail("activate-disks")
        jobs = [[{"OP_ID": "OP_INSTANCE_ACTIVATE_DISKS", "instance_name": name} | trail] for name in names]
        for name, (ok, answer) in zip(names, self._luxi("SubmitManyJobs", jobs), strict=True):
            if ok:
                _log.warning("a copy of the disks of %s is behind: job %s opens them again", name, answer)
            else:
                _log.error("a copy of the disks of %s is behind, and they cannot be opened again: %s", name, answer)

    def _trail(self, why: str) -> dict[str, Any]:
        return {"priority": LOW, "reason": [[REASON, why, time.time_ns()]]}

    def _luxi(self, method: str, *arguments: Any) -> Any:
        return ask(self._paths.luxi_socket, ANSWER_WITHIN_S + WAIT_S, method, *arguments)
