# SPDX-License-Identifier: BSD-2-Clause
"""A queue and its locks written down, for tests of what is said about them."""

import asyncio
import functools
from dataclasses import dataclass, field

from ganeti.master import operations
from ganeti.master.locks.owners import Owner
from ganeti.master.query.queue_facts import Ahead, Held, LockWait
from ganeti.master.query.why import explain
from ganeti.master.queue.dependencies import Dependency
from ganeti.master.queue.filters import Admission
from ganeti.master.queue.state import Phase
from ganeti.model.configuration import Configuration
from ganeti.model.objects import Node, NodeGroup
from ganeti.wire.job_file import JobFile, OpcodeEntry, timestamp

operations.load()  # the summaries of opcodes

NOW_S = 1_000_000.0
NODE = "00000000-0000-4000-8000-000000000001"
GROUP = "00000000-0000-4000-8000-000000000002"
NODE_LOCK = f"node/{NODE}"


@dataclass
class FakeJob:
    file: JobFile
    phase: Phase = Phase.QUEUED
    since_s: float = NOW_S - 12
    depends: list[Dependency] = field(default_factory=list)
    held_by: str | None = None
    holds: bool = False
    blockers: list[int | str] = field(default_factory=list)


class FakeFacts:
    """A queue written down."""

    def __init__(self) -> None:
        self.now_s = NOW_S
        self.slots: list[int] = []
        self.most_running = 20
        self.held_back = False
        self.unwritable = None
        self.stuck_jobs = {}
        self.admission = Admission(())
        self.jobs: dict[int, FakeJob] = {}
        self.files: dict[int, JobFile] = {}
        self.order: list[int] = []
        self.waits: dict[int, LockWait | None] = {}
        """None: WConfD is silent."""
        self.view = Configuration()
        self.view.put("nodes", NODE, Node(uuid=NODE, name="node1", group=GROUP, primary_ip="", secondary_ip=""))
        self.view.put("nodegroups", GROUP, NodeGroup(uuid=GROUP, name="default"))

    def stuck(self, job):
        return self.stuck_jobs.get(job.file.id)

    def unfinished(self, job_id):
        return self.jobs.get(job_id)

    def ended(self, job_id):
        return self.files.get(job_id)

    def ready_order(self):
        return self.order

    def waiting_owner(self, job):
        return owner(job.file.id)

    async def lock_wait(self, asker):
        return self.waits.get(asker.name, LockWait())

    def job(self, job_id, phase=Phase.QUEUED, *, opcodes=({},), **more):
        ops = [entry(**opcode) for opcode in opcodes]
        job = self.jobs[job_id] = FakeJob(JobFile(id=job_id, ops=ops), phase, **more)
        if phase in (Phase.ANNOUNCED, Phase.STARTED, Phase.ASKING):
            self.slots.append(job_id)
        return job

    def running(self, job_id, **opcode):
        executing = {"status": "running", "exec_timestamp": timestamp(NOW_S - 130), **opcode}
        return self.job(job_id, Phase.STARTED, opcodes=[executing])

    def ended_job(self, job_id, status, result=None):
        file = JobFile(id=job_id, ops=[entry(status=status, result=result)], end_timestamp=timestamp(NOW_S - 180))
        file.start_timestamp = timestamp(NOW_S - 185)
        self.files[job_id] = file

    def parked(self, job_id, *, holders=(), ahead=(), wants=None, **more):
        self.waits[job_id] = LockWait(
            [Held(*wanted(lock), lock, owner(who), state, NOW_S - 130) for lock, who, state in holders],
            [Ahead(lock, owner(who), priority) for lock, who, priority in ahead],
            wants or {NODE_LOCK: "exclusive"},
        )
        return self.job(job_id, Phase.PARKED, **more)

    def told(self, job_id):
        return ["  " * depth + text for depth, text in asyncio.run(explain(job_id, self))]


def wanted(held):
    return (NODE_LOCK if held == "node/[lockset]" else held), "exclusive"


@functools.cache
def owner(name):
    return Owner(name, "/lock")


def entry(op_id="OP_INSTANCE_STARTUP", name="web1", priority=0, submitted=0, **more):
    given = {"OP_ID": op_id, "instance_name": name, "priority": submitted}
    return OpcodeEntry(input=given, priority=priority, **more)
