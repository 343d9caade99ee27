# SPDX-License-Identifier: BSD-2-Clause
"""Rate limits in the queue: who counts, who is woken, and that nobody is forgotten."""

from typing import Any

from ganeti.master.queue import events as ev
from ganeti.master.queue.filters import Admission
from ganeti.master.queue.machine import QueueMachine
from ganeti.model.objects import FilterRule
from ganeti.wire.job_file import JobFile, OpcodeEntry

UUID = "00000001-0000-4000-8000-000000000000"


def job(job_id: int, said: str = "", priority: int = 0) -> JobFile:
    opcode: dict[str, Any] = {"OP_ID": "OP_TEST_DUMMY", "reason": [["gnt:user", said, 1]]}
    return JobFile(id=job_id, ops=[OpcodeEntry(input=opcode, priority=priority)])


def limited(most: int, uuid: str = UUID) -> Admission:
    return Admission([FilterRule(uuid=uuid, action=["RATE_LIMIT", most])])


def asked(effects: list[ev.Effect]) -> list[int]:
    return [effect.job_id for effect in effects if isinstance(effect, ev.AskLocks)]


def start(machine: QueueMachine, job_id: int) -> None:
    machine.handle(ev.Granted(job_id), 1.0)
    machine.handle(ev.Greeted(job_id, f"lock-{job_id}", 77), 1.0)


def run(machine: QueueMachine, *files: JobFile) -> None:
    for file in files:
        assert asked(machine.submit([file], 1.0)) == [file.id]
        start(machine, file.id)


def finish(machine: QueueMachine, job_id: int) -> list[int]:
    file = machine.jobs[job_id].file
    file.ops[0].status = "success"
    started = asked(machine.handle(ev.Changed(job_id, file), 2.0))
    machine.check()
    return started


def machine_of(slots: int) -> QueueMachine:
    return QueueMachine("own", ev.Limits(running=slots, active=5000))


def test_jobs_that_run_when_a_rule_comes_count_for_it():
    machine = machine_of(9)
    run(machine, job(1), job(2))
    machine.set_admission(limited(2), 1.0)
    assert asked(machine.submit([job(3)], 1.0)) == []
    machine.check()
    assert finish(machine, 1) == [3]


def test_jobs_that_run_count_for_the_rule_that_takes_the_place_of_another():
    machine = machine_of(9)
    machine.set_admission(limited(1), 0.0)
    run(machine, job(1))
    machine.set_admission(limited(1, UUID.replace("1", "2")), 1.0)
    assert asked(machine.submit([job(2)], 1.0)) == []
    machine.check()
    assert asked(machine.set_admission(Admission([]), 1.0)) == [2]
    assert not finish(machine, 1)


def test_whoever_is_woken_and_leaves_wakes_the_next():
    machine = machine_of(3)
    run(machine, job(1, "rate-limit:1:k"), job(2))
    assert asked(machine.submit([job(3, "rate-limit:1:k"), job(4, "rate-limit:1:k")], 1.0)) == []
    run(machine, job(5))
    machine.submit([job(6, priority=-10)], 1.0)
    assert finish(machine, 1) == [6]  # and job 3 has its turn as soon as there is a slot
    start(machine, 6)
    machine.handle(ev.CancelAsked(3, False), 2.0)
    machine.check()
    assert finish(machine, 6) == [4]


def test_who_has_a_stricter_limit_keeps_back_nobody_else():
    machine = machine_of(9)
    run(machine, *(job(number, "rate-limit:3:k") for number in (1, 2, 3)))
    assert asked(machine.submit([job(4, "rate-limit:1:k"), job(5, "rate-limit:3:k")], 1.0)) == []
    assert finish(machine, 1) == [5]
    start(machine, 5)
    assert [finish(machine, number) for number in (2, 3, 5)] == [[], [], [4]]


def test_a_job_about_to_get_its_locks_starts_under_a_new_limit_only_if_there_is_room():
    machine = machine_of(9)
    run(machine, job(1))
    assert asked(machine.submit([job(2)], 1.0)) == [2]
    machine.set_admission(limited(1), 1.0)
    machine.check()
    assert ev.StartProcess(2, 1) not in machine.handle(ev.Granted(2), 1.0)
    machine.check()
    assert finish(machine, 1) == [2]
