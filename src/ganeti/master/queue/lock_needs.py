# SPDX-License-Identifier: BSD-2-Clause
"""Which locks a job's next opcode begins with, as far as can be said without a process for it (S2.6)."""

from ganeti.master.operation import decode
from ganeti.model.locks import BGL, EXCLUSIVE, SHARED, LockPlan
from ganeti.model.view import ConfigView
from ganeti.wire.job_file import JobFile


def with_big_lock(plan: LockPlan) -> LockPlan:
    """Every operation holds the big lock, shared unless it says otherwise (protocols, section 3.1)."""
    return plan if BGL in plan.exclusive else plan.union(LockPlan.of(shared=[BGL]))


def handed_back(job: JobFile) -> LockPlan:
    """The locks that a job handed back could not have at once; none for others."""
    wants = job.wants or []
    return LockPlan.of(
        shared=[lock for lock, state in wants if state == SHARED],
        exclusive=[lock for lock, state in wants if state == EXCLUSIVE],
    )


def next_locks(job: JobFile, view: ConfigView) -> LockPlan:
    """What the next opcode of *job* wants to hold. Raises what the opcode's own checks raise (`GanetiError`)."""
    operation = decode(job.ops[job.current_index()].input)
    return with_big_lock(operation.locks(view)).union(handed_back(job))
