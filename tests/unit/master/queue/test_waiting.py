# SPDX-License-Identifier: BSD-2-Clause
"""Jobs without a process: they wait for locks, slots, filters and their turn; and who goes first (S1.78 to S1.90)."""

import pytest

from ganeti.master.queue import events as ev
from ganeti.master.queue.filters import Admission
from ganeti.master.queue.machine import Phase, QueueMachine
from ganeti.model.objects import FilterRule
from ganeti.wire.job_file import RUNNING, JobFile, OpcodeEntry, decode, encode

DUMMY = {"OP_ID": "OP_TEST_DUMMY"}


def job(job_id: int, *priorities: int, **more: object) -> JobFile:
    return JobFile(
        id=job_id, ops=[OpcodeEntry(input={**DUMMY, **more}, priority=priority) for priority in priorities or (0,)]
    )


def of_kind(effects: list[ev.Effect], kind: type) -> list[int]:
    return [effect.job_id for effect in effects if isinstance(effect, kind)]


def machine_of(slots: int) -> QueueMachine:
    return QueueMachine("own", ev.Limits(running=slots, active=5000))


def start(machine: QueueMachine, file: JobFile) -> JobFile:
    machine.submit([file], 1.0)
    machine.handle(ev.Granted(file.id), 1.0)
    machine.handle(ev.Greeted(file.id, f"lock-{file.id}", 77), 1.0)
    return file


def finish(machine: QueueMachine, file: JobFile, now_s: float = 2.0) -> list[ev.Effect]:
    for op in file.ops:
        op.status = "success"
    return machine.handle(ev.Changed(file.id, file), now_s)


def rule(action: object, predicates: list[object], priority: int = 0) -> FilterRule:
    uuid = f"00000000-0000-4000-8000-{priority:012d}"
    return FilterRule(uuid=uuid, watermark=0, priority=priority, predicates=predicates, action=action)


def test_a_thousand_jobs_that_wait_for_a_lock_have_no_slot_and_go_by_priority_as_granted():
    machine = machine_of(2)
    machine.submit([job(number) for number in range(1, 1001)], 1.0)
    for number in range(1, 1001):
        machine.handle(ev.Refused(number, (2000,)), 1.0)
    assert not machine.slots and {each.phase for each in machine.jobs.values()} == {Phase.PARKED}
    assert of_kind(machine.handle(ev.Granted(700), 2.0), ev.StartProcess) == [700]
    machine.check()


def test_a_refusal_gives_the_slot_to_the_next():
    machine = machine_of(1)
    assert of_kind(machine.submit([job(1), job(2)], 1.0), ev.AskLocks) == [1]
    assert of_kind(machine.handle(ev.Refused(1, (9,)), 1.0), ev.AskLocks) == [2]
    assert machine.jobs[1].file.status == "queued" and machine.jobs[1].blockers == (9,)


def test_a_grant_without_a_slot_is_kept_and_used_at_once():
    machine = machine_of(1)
    machine.submit([job(1)], 1.0)
    machine.handle(ev.Refused(1, (9,)), 1.0)
    running = start(machine, job(2))
    assert machine.handle(ev.Granted(1), 2.0) == []
    assert machine.jobs[1].holds
    assert of_kind(finish(machine, running), ev.StartProcess) == [1], "without asking again"


def test_grants_beyond_what_will_soon_have_slots_are_given_back():
    machine = machine_of(2)
    waiting = [job(number) for number in range(1, 5)]
    machine.submit(waiting, 1.0)
    for number in range(1, 5):
        machine.handle(ev.Refused(number, (9,)), 1.0)
    running = [start(machine, job(11)), start(machine, job(12))]
    given_back = [of_kind(machine.handle(ev.Granted(number), 2.0), ev.WithdrawLocks) for number in range(1, 5)]
    assert given_back == [[], [], [3], [4]]
    assert machine.ready_order() == [1, 2, 3, 4]
    assert of_kind(finish(machine, running[0]), ev.StartProcess) == [1]
    machine.check()


def test_a_job_that_is_cancelled_while_it_waits_gives_up_its_request():
    machine = machine_of(1)
    machine.submit([job(1)], 1.0)
    machine.handle(ev.Refused(1, (9,)), 1.0)
    effects = machine.handle(ev.CancelAsked(1), 2.0)
    assert ev.WithdrawLocks(1) in effects and effects[-1] == ev.Answer(True, "Dequeued job 1")
    assert machine.ended[1].status == "canceled"
    assert machine.handle(ev.Granted(1), 2.0) == [ev.WithdrawLocks(1)], "a grant that was on its way"


def test_priority_of_a_waiting_request_moves_it_in_the_lock_queue():
    machine = machine_of(1)
    machine.submit([job(1)], 1.0)
    machine.handle(ev.Refused(1, (9,)), 1.0)
    effects = machine.handle(ev.PriorityAsked(1, -10), 2.0)
    assert ev.MoveRequest(1, -10) in effects and machine.jobs[1].file.priority == -10


def test_priority_of_a_started_job_is_told_to_its_process():
    machine = machine_of(1)
    file = start(machine, job(1, 0, 0))
    file.ops[0].status = RUNNING
    assert machine.handle(ev.PriorityAsked(1, 5), 2.0)[0] == ev.TellPriority(1, 5)
    file.ops[1].status = RUNNING
    assert machine.handle(ev.PriorityAsked(1, 5), 2.0) == [
        ev.Answer(False, "Job 1 has no opcode left that waits for its turn")
    ]


def test_priority_of_a_job_that_gets_its_process_is_written_for_that():
    """Nobody could be told by a signal; the process reads the file when it is confirmed."""
    machine = machine_of(1)
    machine.submit([job(1)], 1.0)
    machine.handle(ev.Granted(1), 1.0)
    effects = machine.handle(ev.PriorityAsked(1, -10), 2.0)
    assert effects[0] == ev.WriteJob(machine.jobs[1].file, durable=True) and effects[-1].ok
    assert machine.jobs[1].file.priority == -10
    assert not [each for each in effects if isinstance(each, ev.TellPriority | ev.MoveRequest)]
    machine.jobs[1].file.deaths = 1
    assert not machine.handle(ev.PriorityAsked(1, 5), 2.0)[-1].ok, "a successor only undoes"


def test_a_job_rejected_while_it_gets_its_process_does_not_get_another_one():
    machine = machine_of(1)
    machine.submit([job(1)], 1.0)
    machine.handle(ev.Granted(1), 1.0)
    machine.set_admission(Admission([rule("REJECT", [])]), 2.0)
    assert machine.jobs[1].phase is Phase.ANNOUNCED, "it has its place"
    effects = machine.handle(ev.SpawnerLost(1), 3.0)
    assert machine.status_of(1) == "canceled" and of_kind(effects, ev.WithdrawLocks) == [1]
    machine.check()


def test_who_waits_for_a_start_hears_when_it_was_in_vain():
    """Else a client that cancels would wait seconds for a process that will not come."""
    machine = machine_of(1)
    machine.submit([job(1)], 1.0)
    machine.handle(ev.Granted(1), 1.0)
    machine.held_back = True
    assert ev.Announce(1) in machine.handle(ev.SpawnerLost(1), 2.0)


@pytest.mark.requirement("S1.84", "S1.90", "S1.85")
def test_long_waiting_raises_the_priority_up_to_where_it_just_waits():
    machine = machine_of(1)
    machine.submit([job(1)], 0.0)
    machine.handle(ev.Refused(1, (9,)), 0.0)
    raised_at_s = []
    asked_s = []
    now_s = 0.0
    while now_s < 12 * 3600:
        now_s = machine.next_alarm_s()
        for effect in machine.tick(now_s):
            if isinstance(effect, ev.WriteJob):
                raised_at_s.append(now_s)
                assert not effect.durable, "promised to nobody; syncs of thousands would keep LuxiD from its clients"
            elif isinstance(effect, ev.AskLocks):
                assert effect.priority == machine.jobs[1].file.priority
                asked_s.append(now_s)
        machine.check()
    assert machine.jobs[1].file.priority == -20 and len(raised_at_s) == 20
    steps = [after - before for before, after in zip([0.0, *raised_at_s], raised_at_s, strict=False)]
    assert all(1800 <= length < 1800 + 80 for length in steps)
    first = [after - before for before, after in zip([0.0, *asked_s], asked_s, strict=False)][:8]
    assert 4.7 < first[0] < 5.3 and first[:5] == sorted(first[:5]) and 71 < first[-1] < 79


@pytest.mark.requirement("S1.81")
def test_between_two_opcodes_only_a_better_job_goes_first():
    machine = machine_of(1)
    file = start(machine, job(5, 0, 0))
    file.ops[0].status = "success"
    assert machine.may_continue(5)
    machine.submit([job(6)], 1.0)
    assert machine.may_continue(5), "the same priority came later"
    machine.submit([job(7, -10)], 1.0)
    assert not machine.may_continue(5)
    back = job(5, 0, 0)
    back.ops[0].status = "success"
    effects = machine.handle(ev.HandedBack(5, back), 2.0)
    assert of_kind(effects, ev.AskLocks) == [7] and machine.ready_order() == [5, 6]
    assert machine.jobs[5].file.attempt == 2, "the next process has a lock file of its own"


@pytest.mark.requirement("S1.82")
def test_the_first_unprocessed_opcode_decides_the_place():
    machine = machine_of(1)
    start(machine, job(1))
    first_done = job(2, -10, 10)
    first_done.ops[0].status = "success"
    machine.submit([first_done, job(3)], 1.0)
    assert machine.ready_order() == [3, 2]


@pytest.mark.requirement("S1.89")
def test_a_job_handed_back_with_a_better_priority_takes_the_place_of_that():
    """S1.89: whoever defers himself may name another priority."""
    machine = machine_of(1)
    start(machine, job(1))
    machine.submit([job(2, -10)], 1.0)
    back = job(1, -20)
    back.wants = [("node/x", "exclusive")]
    assert of_kind(machine.handle(ev.HandedBack(1, back), 2.0), ev.AskLocks) == [1]


@pytest.mark.parametrize(
    "parameters",
    [
        {"osparams_secret": {"key": "s3cret"}},
        {"operation": {"OP_ID": "OP_X", "osparams_secret": {"key": "s3cret"}}},
        {"instances": [{}, {"osparams_secret": {"key": "s3cret"}}]},
    ],
    ids=["on top", "planned", "one of many"],
)
def test_secrets_survive_being_handed_back(parameters):
    machine = machine_of(1)
    start(machine, job(1, 0, **parameters))
    written = decode(encode(machine.jobs[1].file))
    assert "s3cret" not in str(written.ops[0].input)
    machine.handle(ev.HandedBack(1, written), 2.0)
    found = machine.jobs[1].file.ops[0].input
    assert {name: found[name] for name in parameters} == parameters


def test_a_paused_job_stays_queued_and_goes_on_when_the_rule_is_gone():
    machine = machine_of(2)
    machine.submit([job(1)], 1.0)
    machine.handle(ev.Refused(1, (9,)), 1.0)
    pause = Admission([rule("PAUSE", [["jobid", ["<", "id", 3]]])])
    assert ev.WithdrawLocks(1) in machine.set_admission(pause, 2.0)
    assert of_kind(machine.submit([job(2), job(3)], 2.0), ev.AskLocks) == [3]
    assert machine.jobs[2].held_by is not None and "pauses" in machine.jobs[2].held_by
    machine.check()
    assert of_kind(machine.set_admission(Admission([]), 3.0), ev.AskLocks) == [1]
    machine.check()


def test_a_rejected_job_is_canceled_at_once_with_those_that_need_it():
    machine = machine_of(1)
    running = start(machine, job(1))
    machine.submit([job(2), job(3, depends=[[2, ["success"]]])], 1.0)
    machine.set_admission(Admission([rule("REJECT", [["jobid", ["==", "id", 2]]])]), 2.0)
    assert machine.ended[2].status == "canceled" and machine.ended[3].status == "error"
    machine.submit([job(2)], 2.0)
    assert machine.ended[2].status == "canceled"
    assert running.status == "queued" and 1 in machine.jobs


def test_a_rate_limit_lets_only_so_many_have_a_process():
    machine = machine_of(10)
    machine.set_admission(Admission([rule(["RATE_LIMIT", 2], [])]), 0.0)
    assert of_kind(machine.submit([job(number) for number in range(1, 6)], 1.0), ev.AskLocks) == [1, 2]
    machine.handle(ev.Refused(1, (99,)), 1.0)
    assert machine.jobs[3].phase is Phase.ASKING, "who waits for locks does not count"
    assert machine.jobs[4].held_by is not None
    machine.check()
    machine.handle(ev.CancelAsked(2), 2.0)
    assert machine.jobs[4].phase is Phase.ASKING
    assert of_kind(machine.set_admission(Admission([]), 3.0), ev.AskLocks) == [5]
    machine.check()


@pytest.mark.parametrize("phase", ["asking", "parked", "queued"])
def test_what_a_restart_of_wconfd_forgot_is_asked_for_again(phase):
    machine = machine_of(1)
    machine.submit([job(1)], 1.0)
    if phase == "parked":
        machine.handle(ev.Refused(1, (9,)), 1.0)
    elif phase == "queued":
        machine.handle(ev.Refused(1, (9,)), 1.0)
        start(machine, job(2))
        machine.handle(ev.Granted(1), 1.0)
    assert of_kind(machine.handle(ev.RequestLost(1), 2.0), ev.AskLocks) == ([1] if phase == "parked" else [])


def test_a_request_repeated_too_late_does_not_wait_behind_its_own_process():
    machine = machine_of(1)
    start(machine, job(1))
    assert machine.handle(ev.Refused(1, (1,)), 2.0) == [ev.WithdrawLocks(1)]


@pytest.mark.requirement("S1.90")
def test_a_job_that_puts_itself_off_has_a_pause_that_grows_and_lets_others_go():
    machine = machine_of(1)
    pauses_s, now_s = [], 10.0
    start(machine, job(1))
    for turn in range(4):
        back = job(1)
        back.attempt = turn + 1
        back.ops[0].start_timestamp = [1, 0]
        assert of_kind(machine.handle(ev.HandedBack(1, back), now_s), ev.AskLocks) == []
        machine.check()
        at_s = machine.next_alarm_s()
        pauses_s.append(at_s - now_s)
        assert of_kind(machine.tick(at_s), ev.AskLocks) == [1]
        machine.handle(ev.Granted(1), at_s)
        machine.handle(ev.Greeted(1, "lock", 77), at_s)
        now_s = at_s
    assert 4.7 < pauses_s[0] < 5.3 and pauses_s == sorted(pauses_s)
