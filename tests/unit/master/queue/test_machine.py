# SPDX-License-Identifier: BSD-2-Clause
"""The queue machine, one transition at a time: event in, effects out."""

import pytest

from ganeti.base.errors import GanetiError, JobQueueFull, PrerequisiteError
from ganeti.master import operations
from ganeti.master.queue import events as ev
from ganeti.master.queue.dependencies import resolve
from ganeti.master.queue.machine import InvalidTransition, Phase, QueueMachine
from ganeti.master.queue.submission import check_priority, read_opcodes, refuse_if_full
from ganeti.wire.job_file import REDACTED, RUNNING, WAITING, JobFile, OpcodeEntry

operations.load()
DUMMY = {"OP_ID": "OP_TEST_DUMMY"}


def job(job_id: int, *, priority: int = 0, **more: object) -> JobFile:
    return JobFile(id=job_id, ops=[OpcodeEntry(input={**DUMMY, **more}, priority=priority)])


@pytest.fixture
def machine() -> QueueMachine:
    return QueueMachine("own", ev.Limits(running=1, active=3, deaths=2))


def names(effects: list[ev.Effect]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


def started(machine: QueueMachine, file: JobFile) -> JobFile:
    machine.submit([file], 1.0)
    machine.handle(ev.Granted(file.id), 1.0)
    machine.handle(ev.Greeted(file.id, "lock", 77), 2.0)
    return file


@pytest.mark.requirement("S2.34", "S2.37")
def test_start(machine):
    assert machine.submit([job(1)], 1.0) == [ev.Announce(1), ev.AskLocks(1, 0)]
    assert machine.jobs[1].file.livelock is None, "nothing is promised before it has its locks"
    effects = machine.handle(ev.Granted(1), 1.0)
    assert effects == [ev.WriteJob(machine.jobs[1].file), ev.StartProcess(1, 1)]
    assert machine.jobs[1].file.livelock == "own" and machine.jobs[1].file.start_timestamp == [1, 0]
    assert names(machine.handle(ev.Greeted(1, "lock", 77), 2.0)) == ["WriteJob", "Confirm", "Announce"]
    assert (machine.jobs[1].file.livelock, machine.jobs[1].file.process_id) == ("lock", 77)


def test_the_best_goes_first_when_a_slot_is_free(machine):
    first = started(machine, job(1))
    assert names(machine.submit([job(2), job(3, priority=-10)], 1.0)) == ["Announce", "Announce"]
    first.ops[0].status = "success"
    effects = machine.handle(ev.Changed(1, first), 3.0)
    assert [effect.job_id for effect in effects if isinstance(effect, ev.AskLocks)] == [3]


@pytest.mark.requirement("S2.40")
def test_a_broken_pipe_before_the_confirmation_is_the_jobs_end(machine):
    machine.submit([job(1)], 1.0)
    machine.handle(ev.Granted(1), 1.0)
    effects = machine.handle(ev.StartFailed(1, "it fell over"), 2.0)
    assert names(effects) == ["WriteJob", "ReleaseOwner", "Log", "Announce", "Forget"]
    assert effects[0].durable and effects[0].file.status == "error"
    assert "it fell over" in effects[0].file.ops[0].result[1][0]


def test_a_lost_spawner_queues_the_job_again(machine):
    machine.submit([job(1)], 1.0)
    machine.handle(ev.Granted(1), 1.0)
    machine.held_back = True
    assert names(machine.handle(ev.SpawnerLost(1), 2.0)) == ["WriteJob", "WithdrawLocks", "Log", "Announce"]
    assert machine.jobs[1].phase is Phase.QUEUED and machine.jobs[1].file.livelock is None
    machine.held_back = False
    assert names(machine.resume(3.0)) == ["AskLocks"]


def test_death_without_records_ends_the_job_and_frees_what_it_held(machine):
    file = started(machine, job(1))
    file.ops[0].status = RUNNING
    effects = machine.handle(ev.Died(1, file, 0), 3.0)
    assert ev.ReleaseOwner(1, 1) in effects and machine.ended[1].status == "error"
    assert file.ops[0].result == ["OpExecError", ["Job 1 died while OP_TEST_DUMMY was running"]]


def test_death_with_records_starts_successors_but_not_for_ever(machine):
    file = started(machine, job(1))
    file.ops[0].status = RUNNING
    assert ev.StartProcess(1, 2) in machine.handle(ev.Died(1, file, 3), 3.0)
    machine.handle(ev.Greeted(1, "lock2", 78), 4.0)
    effects = machine.handle(ev.Died(1, file, 3), 5.0)
    assert machine.ended[1].status == "error" and ev.ReleaseOwner(1, 2) in effects
    assert "verify" in file.ops[0].result[1][0]


def test_death_after_the_last_word_changes_nothing(machine):
    file = started(machine, job(1))
    file.ops[0].status, file.ops[0].result = "success", 7
    assert names(machine.handle(ev.Died(1, file, 5), 3.0)) == ["Announce", "Forget"]
    assert machine.ended[1].status == "success"


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (RUNNING, ev.Answer(False, "Job no longer waiting, can't cancel (informed it anyway)")),
        (WAITING, ev.AwaitCancel(1)),
    ],
)
def test_cancelling_a_started_job(machine, status, answer):
    file = started(machine, job(1))
    file.ops[0].status = status
    assert machine.handle(ev.CancelAsked(1), 3.0) == [ev.SendSignal(1, 77), answer]


def test_priority_of_a_queued_job(machine):
    started(machine, job(1))
    machine.submit([job(2), job(3)], 1.0)
    effects = machine.handle(ev.PriorityAsked(3, -20), 2.0)
    assert effects[-1] == ev.Answer(True, "Priorities of pending opcodes for job 3 have been changed to -20")
    assert ev.AskLocks(3, -20) in machine.handle(ev.Died(1, machine.jobs[1].file, 0), 3.0)


def test_an_impossible_event_tells_the_story(machine):
    machine.submit([job(1)], 1.0)
    machine.handle(ev.Granted(1), 1.0)
    with pytest.raises(InvalidTransition, match=r"job 1: Died while announced .*submitted.*gets a process"):
        machine.handle(ev.Died(1, machine.jobs[1].file, 0), 2.0)


def test_a_job_whose_secrets_were_lost_is_not_run(machine):
    file = job(1, osparams_secret={"key": REDACTED})
    machine.recover([ev.Found(file, secrets_lost=True)], 1.0)
    assert machine.ended[1].status == "error" and "submit it again" in file.ops[0].result[1][0]


def test_dependencies_known_from_the_archive(machine):
    assert "AskLocks" in names(machine.submit([job(5, depends=[[2, ["success"]]])], 1.0, {2: "success"}))
    machine.submit([job(6, depends=[[2, ["error"]]])], 1.0, {2: "success"})
    assert machine.ended[6].status == "error"
    machine.submit([job(7, depends=[[3, []]])], 1.0, {})
    assert machine.ended[7].status == "error"


def test_what_a_job_depended_on_does_not_keep_it_from_being_undone(machine):
    """It died, its successor could not be started yet, and the job it once waited for is gone."""
    dead = job(5, depends=[[3, ["success"]]])
    dead.attempt, dead.deaths = 2, 1
    assert "StartProcess" in names(machine.recover([ev.Found(dead)], 1.0))
    assert machine.jobs[5].file.attempt == 2


def test_the_queue_has_an_end(machine):
    machine.submit([job(1), job(2)], 1.0)
    refuse_if_full(machine, 1)
    with pytest.raises(JobQueueFull, match="2 jobs are unfinished"):
        refuse_if_full(machine, 2)


@pytest.mark.parametrize(
    ("depends", "earlier", "resolved"),
    [
        ([[-1, ["success"]]], [4, 5], [[5, ["success"]]]),
        ([["-2", []]], [4, 5], [[4, []]]),
        ([["12", []]], None, [[12, []]]),
        (None, None, None),
    ],
)
def test_relative_ids(depends, earlier, resolved):
    assert resolve(depends, earlier) == resolved


@pytest.mark.parametrize(
    ("depends", "earlier"),
    [([[-1, []]], None), ([[-3, []]], [4, 5]), ([[-1, []]], [None]), ([[0, []]], [1]), ([[True, []]], []), ([[1]], [])]
    + [([[word, []]], [4, 5]) for word in ("--5", "\u00b2", "-", "", "1.0", "9" * 500, 10**40, None, [])]
    + [([[1, [status]]], []) for status in (["success"], {}, 5, "done")],
)
def test_dependencies_that_cannot_be(depends, earlier):
    with pytest.raises(GanetiError):
        resolve(depends, earlier)


def test_a_job_may_not_depend_on_one_that_is_not_there():
    with pytest.raises(PrerequisiteError, match="Job 9"):
        read_opcodes([{**DUMMY, "depends": [[9, []]]}], None, lambda job_id: None)


@pytest.mark.requirement("S1.79")
@pytest.mark.parametrize("priority", [-21, 20, "x", True, None])
def test_priorities_that_are_none(priority):
    with pytest.raises(GanetiError):
        check_priority(priority)


def test_the_end_of_a_job_ends_a_chain_as_long_as_the_queue():
    machine = QueueMachine("own", ev.Limits(running=1, active=5000))
    machine.held_back = True
    last = 3000
    machine.submit([job(1), *(job(number, depends=[[number - 1, ["success"]]]) for number in range(2, last + 1))], 1.0)
    effects = machine.handle(ev.CancelAsked(1), 2.0)
    assert not machine.jobs and {machine.status_of(number) for number in range(2, last + 1)} == {"error"}
    assert [effect.file.id for effect in effects if isinstance(effect, ev.Forget)] == list(range(1, last + 1))
    synced = [effect.file.id for effect in effects if isinstance(effect, ev.WriteJob) and effect.durable]
    assert synced == [1], "the others follow from it, whoever restarts in between"
    machine.check()


def test_a_job_that_has_begun_needs_its_dependencies_no_more(machine):
    """They had ended as asked before it began; since then they may be archived, and the archive be emptied."""
    file = job(5, depends=[[4, ["success"]]])
    file.start_timestamp = [1, 0]
    assert ev.AskLocks(5, 0) in machine.recover([ev.Found(file)], 2.0)
    fresh = job(6, depends=[[4, ["success"]]])
    machine.recover([ev.Found(fresh)], 2.0)
    assert fresh.status == "error"


@pytest.mark.parametrize("status", ["success", "error", "canceled"])
def test_what_a_job_that_failed_may_not_have_claimed_is_given_up(machine, status):
    """It may have ended while WConfD was away: LuxiD lives, so nobody would find those locks to be of the dead."""
    file = started(machine, job(1))
    file.ops[0].status = status
    assert (ev.WithdrawLocks(1) in machine.handle(ev.Changed(1, file), 3.0)) == (status != "success")


def of_another_machine(job_id: int, *, begun: int, records: int = 0, **more: object) -> ev.Found:
    file = job(job_id, **more)
    file.ops[0].status, file.livelock, file.process_id, file.start_timestamp = RUNNING, "/theirs", 77, [1, 0]
    file.attempt, file.begun = 2, begun
    return ev.Found(file, records=records, foreign=True)


def test_a_job_that_had_not_begun_with_the_former_master_runs_as_if_nothing_had_happened(machine):
    effects = machine.recover([of_another_machine(1, begun=1)], 5.0)
    assert names(effects) == ["AskLocks"]
    file = machine.jobs[1].file
    assert (file.status, file.livelock, file.process_id, file.attempt) == ("queued", None, None, 3)


def test_a_job_that_had_begun_with_the_former_master_never_runs_again(machine):
    effects = machine.recover([of_another_machine(1, begun=2)], 5.0)
    assert names(effects) == ["WriteJob", "ReleaseOwner", "Log", "Announce", "Forget"]
    (sentence,) = effects[0].file.ops[0].result[1]
    assert "its process ended with the former master" in sentence and machine.ended[1].status == "error"


def test_a_successor_that_ended_with_the_former_master_has_a_successor_even_without_records(machine):
    found = of_another_machine(1, begun=2)
    found.file.deaths = 1
    machine.recover([found], 5.0)
    assert machine.jobs[1].phase is Phase.ANNOUNCED and machine.jobs[1].file.attempt == 3


def test_no_job_starts_until_what_the_former_master_left_half_done_is_undone(machine):
    """Its locks were that master's: whoever came now would meet half of it."""
    machine.resume(1.0, ev.Limits(running=3))
    effects = machine.recover([ev.Found(job(1)), of_another_machine(2, begun=2, records=1)], 5.0)
    assert [(type(each), each.job_id) for each in effects if isinstance(each, ev.StartProcess | ev.AskLocks)] == [
        (ev.StartProcess, 2)
    ]
    machine.check()
    assert names(machine.handle(ev.SpawnerLost(2), 6.0))[-1] == "StartProcess", "it comes first, whatever else waits"
    assert machine.submit([job(3, priority=-10)], 7.0) == [ev.Announce(3)]
    machine.handle(ev.Greeted(2, "lock", 78), 8.0)
    undone = machine.jobs[2].file
    undone.ops[0].status = "error"
    effects = machine.handle(ev.Changed(2, undone), 9.0)
    assert [effect.job_id for effect in effects if isinstance(effect, ev.AskLocks)] == [3, 1]
