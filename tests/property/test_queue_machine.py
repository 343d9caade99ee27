# SPDX-License-Identifier: BSD-2-Clause
"""Named laws of the queue machine over random histories, with crashes of LuxiD between any two effects.

NoJobLost          every submitted job is unfinished or ended, and its file says which
NoneRunTwice       the process of a job's first attempt is confirmed at most once
SlotsRespected     no more jobs are announced or started than there are slots
LastWordIsTheJobs  what a job wrote as its end is what is remembered
DependentsWait     a job is picked only after what it depends on has ended as asked
NobodyForgotten    every job in the queue is ready, asked for, waiting in WConfD, or kept back for a reason it can name
WaitersAreIdle     who waits for locks, or is kept back, has no slot
RulesHoldAtOnce    no process is asked for against the job filters of the moment, however few jobs they were asked about
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.fakes.thoroughness import examples

from ganeti.master.queue import events as ev
from ganeti.master.queue.filters import Admission
from ganeti.master.queue.machine import Phase, QueueMachine
from ganeti.model.objects import FilterRule
from ganeti.wire.job_file import ERROR, FINAL_STATUSES, QUEUED, RUNNING, SUCCESS, JobFile, OpcodeEntry, decode, encode

SLOTS = 2


class Crash(Exception):
    """LuxiD dies between two effects."""


class QueueHistory(RuleBasedStateMachine):
    """The world around the machine: a disk, processes, and clients."""

    @initialize()
    def begin(self) -> None:
        self.life = 0
        self.next_id = 1
        self.disk: dict[int, bytes] = {}
        self.requests: dict[int, str] = {}
        """What WConfD knows of jobs: asked, waiting, held."""
        self.asked: dict[int, int] = {}
        """Processes asked for and not yet there: job, attempt."""
        self.running: dict[int, int] = {}
        """Confirmed processes: job, attempt."""
        self.confirmed: dict[int, list[int]] = {}
        self.records: set[int] = set()
        self.last_word: dict[int, str] = {}
        self.crash_after: int | None = None
        self.now_s = 0.0
        self._new_machine()

    def _new_machine(self) -> None:
        self.life += 1
        self.machine = QueueMachine(f"luxid-{self.life}", ev.Limits(running=SLOTS, active=1000, deaths=3))

    def _read(self, job_id: int) -> JobFile:
        return decode(self.disk[job_id], job_id)

    def _do(self, effects: list[ev.Effect]) -> None:
        """Carry out effects; maybe only some of them, and then crash."""
        for position, effect in enumerate(effects):
            if self.crash_after is not None and position >= self.crash_after:
                self.crash_after = None
                self.restart()
                return
            match effect:
                case ev.WriteJob(file):
                    assert file.id not in self.running, "the file of a running job was written"
                    self.disk[file.id] = encode(file)
                case ev.StartProcess(job_id, attempt):
                    assert job_id not in self.asked and job_id not in self.running
                    self._dependencies_are_met(job_id)
                    self._rules_allow(job_id)
                    self.asked[job_id] = attempt
                case ev.AskLocks(job_id):
                    if self.requests.get(job_id) != "waiting":
                        self.requests[job_id] = "asked"
                case ev.WithdrawLocks(job_id) | ev.ReleaseOwner(job_id):
                    self.requests.pop(job_id, None)
                case ev.Confirm(job_id):
                    attempt = self.asked.pop(job_id)
                    self.running[job_id] = attempt
                    self.confirmed.setdefault(job_id, []).append(attempt)
        self.crash_after = None

    def _dependencies_are_met(self, job_id: int) -> None:
        for entry in self._read(job_id).ops:
            for other, statuses in entry.input.get("depends", []):
                status = self._read(other).status
                assert status in FINAL_STATUSES and (not statuses or status in statuses)

    def _rules_allow(self, job_id: int) -> None:
        job = self.machine.jobs[job_id]
        assert job.file.deaths or self.machine.admission.of(job.file).action == "run", job.story

    # What clients do

    @rule(
        priority=st.sampled_from([-10, 0, 10]),
        depends=st.lists(st.tuples(st.integers(1, 8), st.sampled_from([[], [SUCCESS], [ERROR]])), max_size=2),
    )
    def submit(self, priority: int, depends: list[tuple[int, list[str]]]) -> None:
        job_id, self.next_id = self.next_id, self.next_id + 1
        wanted = [[job_id - back, statuses] for back, statuses in depends if job_id - back >= 1]
        opcodes = [OpcodeEntry(input={"OP_ID": "OP_TEST_DUMMY", "depends": wanted}, priority=priority)]
        file = JobFile(id=job_id, ops=opcodes)
        self.disk[job_id] = encode(file)
        self._do(self.machine.submit([file], float(job_id)))

    @rule(back=st.integers(1, 6), kill=st.booleans())
    def cancel(self, back: int, kill: bool) -> None:
        job_id = self.next_id - back
        effects = self.machine.handle(ev.CancelAsked(job_id, kill), 0.0)
        told = [effect for effect in effects if isinstance(effect, ev.Answer | ev.AwaitCancel)]
        assert len(told) == 1
        self._do(effects)

    @rule(back=st.integers(1, 6), priority=st.integers(-20, 19))
    def change_priority(self, back: int, priority: int) -> None:
        self._do(self.machine.handle(ev.PriorityAsked(self.next_id - back, priority), 0.0))

    # What WConfD does

    def _draw_request(self, data: st.DataObject, state: str) -> int:
        return data.draw(st.sampled_from(sorted(key for key, value in self.requests.items() if value == state)))

    @precondition(lambda self: "asked" in self.requests.values())
    @rule(data=st.data(), free=st.booleans())
    def wconfd_answers(self, data: st.DataObject, free: bool) -> None:
        job_id = self._draw_request(data, "asked")
        self.requests[job_id] = "held" if free else "waiting"
        self._do(self.machine.handle(ev.Granted(job_id) if free else ev.Refused(job_id, (99,)), 0.0))

    @precondition(lambda self: "waiting" in self.requests.values())
    @rule(data=st.data())
    def wconfd_grants(self, data: st.DataObject) -> None:
        job_id = self._draw_request(data, "waiting")
        self.requests[job_id] = "held"
        self._do(self.machine.handle(ev.Granted(job_id), 0.0))

    @rule(back=st.integers(1, 6), free=st.booleans())
    def an_answer_is_late(self, back: int, free: bool) -> None:
        """One that was under way while its request was withdrawn, or told twice: the two connections know no order."""
        job_id = self.next_id - back
        self._do(self.machine.handle(ev.Granted(job_id) if free else ev.Refused(job_id, (99,)), 0.0))

    @rule()
    def wconfd_forgets(self) -> None:
        """A restart without its file of locks: what waits is asked for again."""
        lost = sorted(key for key, value in self.requests.items() if value == "waiting")
        for job_id in lost:
            del self.requests[job_id]
        for job_id in lost:
            self._do(self.machine.handle(ev.RequestLost(job_id), 0.0))

    @rule(seconds=st.sampled_from([1.0, 60.0, 2000.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self._do(self.machine.tick(self.now_s))

    @rule(action=st.sampled_from([None, "PAUSE", "REJECT", ["RATE_LIMIT", 1]]), up_to=st.integers(1, 8))
    def filters_change(self, action: object, up_to: int) -> None:
        rules = []
        if action is not None:
            uuid = "00000000-0000-4000-8000-000000000001"
            predicates = [["jobid", ["<=", "id", up_to]]]
            rules = [FilterRule(uuid=uuid, watermark=0, priority=0, predicates=predicates, action=action)]
        self._do(self.machine.set_admission(Admission(rules), 0.0))

    @precondition(lambda self: self.machine.outdated)
    @rule(most=st.integers(1, 3))
    def filters_are_asked(self, most: int) -> None:
        self._do(self.machine.reconsider(0.0, most))

    # What processes do

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def process_greets(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.asked)))
        self._do(self.machine.handle(ev.Greeted(job_id, f"lock-{job_id}-{self.asked[job_id]}", 1000 + job_id), 0.0))

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), spawner=st.booleans())
    def process_never_comes(self, data: st.DataObject, spawner: bool) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.asked)))
        del self.asked[job_id]
        self.requests.pop(job_id, None)
        event = ev.SpawnerLost(job_id) if spawner else ev.StartFailed(job_id, "it could not be made")
        self._do(self.machine.handle(event, 0.0))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), creates=st.booleans())
    def process_works(self, data: st.DataObject, creates: bool) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.running)))
        file = self._read(job_id)
        file.ops[0].status = RUNNING
        self.disk[job_id] = encode(file)
        if creates and not file.deaths:
            self.records.add(job_id)
        self._do(self.machine.handle(ev.Changed(job_id, self._read(job_id)), 0.0))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), priority=st.sampled_from([None, -20, 5]))
    def process_hands_back(self, data: st.DataObject, priority: int | None) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.running)))
        file = self._read(job_id)
        if file.deaths or job_id in self.records:
            return
        del self.running[job_id]
        self.requests.pop(job_id, None)
        file.ops[0].status = QUEUED
        file.ops[0].priority = file.ops[0].priority if priority is None else priority
        file.livelock = file.process_id = None
        self.disk[job_id] = encode(file)
        self._do(self.machine.handle(ev.HandedBack(job_id, self._read(job_id)), 0.0))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), noticed=st.booleans())
    def process_ends(self, data: st.DataObject, noticed: bool) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[job_id]
        file = self._read(job_id)
        self.requests.pop(job_id, None)
        file.ops[0].status = ERROR if file.deaths else SUCCESS
        file.end_timestamp = [5, 0]
        self.disk[job_id] = encode(file)
        self.records.discard(job_id)
        self.last_word[job_id] = file.status
        if noticed:
            self._do(self.machine.handle(ev.Changed(job_id, self._read(job_id)), 0.0))
        self._do(self.machine.handle(ev.Died(job_id, self._read(job_id), 0), 0.0))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def process_is_killed(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[job_id]
        self._do(self.machine.handle(ev.Died(job_id, self._read(job_id), int(job_id in self.records)), 0.0))

    # What happens to LuxiD

    @rule(after=st.integers(0, 3))
    def crash_soon(self, after: int) -> None:
        """The next event's effects are carried out only so far."""
        self.crash_after = after

    @rule()
    def restart(self) -> None:
        """Processes that were not confirmed end; confirmed ones go on; the disk is all that is left."""
        self.asked.clear()
        self.requests.clear()
        self._new_machine()
        found = []
        for job_id in sorted(self.disk):
            file = self._read(job_id)
            if file.status in FINAL_STATUSES:
                self.machine.remember(job_id, file.status, 0.0)
            else:
                alive = job_id in self.running
                found.append(ev.Found(file, alive, int(job_id in self.records and not alive)))
        self._do(self.machine.recover(found, 0.0))

    # The laws

    @invariant()
    def machine_is_sound(self) -> None:
        self.machine.check()

    @invariant()
    def no_job_lost(self) -> None:
        for job_id in self.disk:
            status = self._read(job_id).status
            assert (job_id in self.machine.jobs) != (job_id in self.machine.ended)
            if job_id in self.machine.ended:
                assert self.machine.ended[job_id].status == status
            elif self.machine.jobs[job_id].phase is not Phase.STARTED:
                assert status not in FINAL_STATUSES

    @invariant()
    def none_run_twice(self) -> None:
        for attempts in self.confirmed.values():
            assert len(set(attempts)) == len(attempts), attempts

    @invariant()
    def last_word_is_the_jobs(self) -> None:
        for job_id, status in self.last_word.items():
            assert self.machine.status_of(job_id) == status

    @invariant()
    def slots_respected(self) -> None:
        assert len(self.machine.slots) <= SLOTS or self.life > 1

    @invariant()
    def nobody_forgotten(self) -> None:
        ready = set(self.machine.ready_order())
        for job_id, job in self.machine.jobs.items():
            if job.phase is Phase.QUEUED:
                assert job_id in ready or job.depends or job.held_by, job.story
            elif job.phase is Phase.ASKING or job.phase is Phase.PARKED:
                assert self.requests.get(job_id) in ("asked", "waiting"), job.story

    @invariant()
    def rules_hold_when_all_were_asked_about(self) -> None:
        if self.machine.outdated:
            return
        for job in self.machine.jobs.values():
            assert job.verdict == self.machine.admission.of(job.file), job.story
            waits = job.phase in (Phase.QUEUED, Phase.ASKING, Phase.PARKED) and not job.file.deaths
            assert not (waits and job.verdict.action == "reject"), job.story
            assert not (waits and job.verdict.action == "pause" and job.phase is not Phase.QUEUED), job.story

    @invariant()
    def waiters_are_idle(self) -> None:
        for job_id, job in self.machine.jobs.items():
            assert job.phase not in (Phase.QUEUED, Phase.PARKED) or job_id not in self.machine.slots


QueueHistory.TestCase.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestQueueHistory = QueueHistory.TestCase
