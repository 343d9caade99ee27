# SPDX-License-Identifier: BSD-2-Clause
"""The log of an opcode: which line ends a step whose progress was told."""

from __future__ import annotations

from typing import Any, cast

from ganeti.master.queue.job_log import JobLog
from ganeti.wire.job_file import JobFile, OpcodeEntry


class World:
    def now_s(self) -> float:
        return 1000.0

    def save_soon(self, job: Any) -> None: ...


def lines(*, told: bool) -> list[str]:
    entry = OpcodeEntry(input={})
    log = JobLog(JobFile(id=1, ops=[entry]), entry, cast(Any, World()))
    log.progress("disks are copied", 50, 101)
    log.info("Disk 0 is copied: 16 MiB")
    if told:
        log.step_told()
    log.info("Finalizing")
    log.end_progress(done=True)
    return [line for *_, line in entry.log]


def test_a_step_whose_end_was_told_gets_no_line_at_the_end_of_the_job() -> None:
    assert lines(told=True) == ["Disk 0 is copied: 16 MiB", "Finalizing"]
    assert lines(told=False) == ["Disk 0 is copied: 16 MiB", "Finalizing", "disks are copied: done"]
