# SPDX-License-Identifier: BSD-2-Clause
"""An opcode whose effects can be counted: did it run, how often, alone under its locks, and half or whole?

Each run writes a line into a trace file the moment it begins to act (no undo takes that back), and holds a `flock` for
each lock it has exclusively, so that two owners of one lock meet. It commits two marks: the first with its undo, the
second settles. Marks are tags of node groups made for the purpose, added without looking whether they are there.
"""

import fcntl
import os
from typing import Any, cast

from msgspec.structs import replace

from ganeti.base.errors import ExecutionError
from ganeti.master.operation import Operation, SubmitJobs, decode, operation
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan, group_lock
from ganeti.model.objects import NodeGroup
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext, UndoChange

OP_ID = "OP_TEST_COUNTED"
GROUPS = [f"00000000-0000-4000-8000-0000000001{number:02d}" for number in range(20)]
BEGUN, CLASH = "begun", "clash"


class PutMark(Change, frozen=True, kw_only=True):
    group: str
    mark: str

    def apply(self, draft: Draft) -> int:
        group = cast(NodeGroup, draft.get("nodegroups", self.group))
        tags = [*group.tags, self.mark]
        draft.put("nodegroups", replace(group, name=group_name(self.group, len(tags)), tags=tags))
        return len(tags)


class TakeMark(Change, frozen=True, kw_only=True):
    group: str
    mark: str

    def apply(self, draft: Draft) -> None:
        group = cast(NodeGroup, draft.get("nodegroups", self.group))
        if self.mark in group.tags:
            tags = [tag for tag in group.tags if tag != self.mark]
            draft.put("nodegroups", replace(group, name=group_name(self.group, len(tags)), tags=tags))


@operation(OP_ID)
class Counted(Operation[Any], frozen=True, kw_only=True, forbid_unknown_fields=True):
    traces: str
    """Directory of the trace and of the files that stand for locks."""
    duration: float = 0.0
    exclusive: list[str] = []
    shared: list[str] = []
    marks: bool = False
    group: int = 0
    """Which of `GROUPS` gets the marks; locked for that, exclusively."""
    fail: bool = False
    submit_jobs: list[list[dict[str, Any]]] = []

    def locks(self, view: ConfigView) -> LockPlan:
        marked = [group_lock(GROUPS[self.group])] if self.marks else []
        return LockPlan.of(exclusive=[*self.exclusive, *marked], shared=self.shared)

    async def execute(self, checked: Any, ctx: OperationContext) -> Any:
        job = ctx.job
        self._tell(f"{BEGUN} {job.job_id} {job.opcode_index} {os.getpid()}")
        held = [self._meet(lock, job.job_id) for lock in self.exclusive]
        try:
            if self.marks:
                await self._mark(ctx)
            await ctx.clock.sleep(self.duration)
        finally:
            for descriptor in held:
                os.close(descriptor)
        if self.fail:
            raise ExecutionError("This is a test failure")
        if self.submit_jobs:
            return SubmitJobs([[decode(opcode) for opcode in ops] for ops in self.submit_jobs])
        return job.job_id

    async def _mark(self, ctx: OperationContext) -> None:
        job = ctx.job
        group = GROUPS[self.group]
        first, second = marks_of(job.job_id, job.opcode_index)
        await ctx.undo.push(UndoChange(f"take mark {first} away", TakeMark(group=group, mark=first)))
        await ctx.config.commit(PutMark(group=group, mark=first))
        await ctx.clock.sleep(self.duration)
        await ctx.config.commit(PutMark(group=group, mark=second), settles=True)

    def _meet(self, lock: str, job_id: int) -> int:
        path = f"{self.traces}/{lock.replace('/', '_')}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._tell(f"{CLASH} {job_id} {lock} {os.getpid()}")
        return descriptor

    def _tell(self, line: str) -> None:
        descriptor = os.open(trace_path(self.traces), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.write(descriptor, line.encode() + b"\n")
        os.close(descriptor)


def group_name(group: str, marks: int) -> str:
    """The name changes with the marks, so that every commit changes an ssconf file too."""
    return f"campaign-{group[-2:]}-{marks}"


def marks_of(job_id: int, index: int) -> tuple[str, str]:
    return f"job{job_id}.{index}.first", f"job{job_id}.{index}.second"


def trace_path(traces: str) -> str:
    return f"{traces}/trace"
