# SPDX-License-Identifier: BSD-2-Clause
"""Job filters that change while very many jobs wait: asked about slice by slice, holding from the first moment."""

import random

import pytest

from ganeti.master.queue import events as ev
from ganeti.master.queue.filters import Admission
from ganeti.master.queue.machine import Phase, QueueMachine
from ganeti.model.objects import FilterRule
from ganeti.wire.job_file import JobFile, OpcodeEntry

MANY = 200
OPEN = Admission([])


def job(job_id, priority=0, reason=None):
    said = {} if reason is None else {"reason": [["gnt:user", reason, 1]]}
    return JobFile(id=job_id, ops=[OpcodeEntry(input={"OP_ID": "OP_TEST_DUMMY", **said}, priority=priority)])


def rules(action, predicates=(), number=1):
    uuid = f"00000000-0000-4000-8000-{number:012d}"
    return Admission([FilterRule(uuid=uuid, predicates=list(predicates), action=action)])


def machine_of(slots, jobs=(), now=None):
    machine = QueueMachine("luxid", ev.Limits(running=slots, active=10_000))
    if now is not None:
        machine.set_admission(now, 0.0)
    machine.submit(jobs, 0.0)
    return machine


def of_kind(effects, kind):
    return [effect.job_id for effect in effects if isinstance(effect, kind)]


def finish(machine):
    """Let the filters be asked about every job; gives all effects."""
    effects = []
    while machine.outdated:
        before = machine.outdated
        effects += machine.reconsider(1.0)
        assert machine.outdated < before
    machine.check()
    return effects


def test_one_slice_asks_about_few_jobs():
    machine = machine_of(1, map(job, range(MANY)))
    assert len(machine.set_admission(rules("REJECT"), 1.0)) < 100
    assert MANY > machine.outdated > MANY - 20


@pytest.mark.parametrize("action", ["PAUSE", "REJECT"])
def test_nobody_gets_on_whom_the_new_rules_keep_back(action):
    machine = machine_of(3, map(job, range(1, MANY)))
    machine.handle(ev.Refused(3, (9,)), 1.0)
    effects = machine.set_admission(rules(action), 1.0)
    assert machine.outdated
    effects += machine.handle(ev.Granted(3), 1.0) + machine.handle(ev.Granted(1), 1.0) + finish(machine)
    assert not of_kind(effects, ev.StartProcess) and not of_kind(effects, ev.AskLocks)
    assert not machine.slots
    held = {effect.job_id for effect in effects if isinstance(effect, ev.WithdrawLocks)}
    assert held >= {1, 2, 3}
    assert len(machine.jobs) == (MANY - 1 if action == "PAUSE" else 0)


def test_what_is_asked_of_a_job_finds_it_asked_about():
    machine = machine_of(1, map(job, range(1, MANY)))
    machine.set_admission(rules("REJECT"), 1.0)
    last = MANY - 1
    told = machine.handle(ev.CancelAsked(last), 1.0)
    assert ev.Answer(False, f"Job {last} not found in queue") in told
    assert machine.ended[last].status == "canceled"


def test_the_best_go_on_first_when_a_rule_is_gone():
    jobs = [job(number, priority=-10 if number == MANY - 1 else 0) for number in range(1, MANY)]
    machine = machine_of(2, jobs, rules("PAUSE"))
    assert of_kind(machine.set_admission(OPEN, 1.0), ev.AskLocks) == [MANY - 1, 1]
    finish(machine)


def test_a_new_rate_limit_counts_the_running_at_once():
    machine = machine_of(3, map(job, range(1, MANY)))
    machine.set_admission(rules(["RATE_LIMIT", 3]), 1.0)
    machine.handle(ev.Refused(1, (9,)), 1.0)
    assert len(machine.slots) == 3
    machine.set_admission(rules(["RATE_LIMIT", 2]), 1.0)
    assert not of_kind(machine.handle(ev.Granted(1), 1.0), ev.StartProcess), "two of the limit run already"
    finish(machine)


def test_those_with_a_slot_are_counted_anew_before_anybody_is_asked_about():
    machine = machine_of(20, [job(number, priority=10) for number in range(1, 21)])
    machine.submit(map(job, range(21, MANY)), 0.0)
    machine.set_admission(rules(["RATE_LIMIT", 5]), 1.0)
    machine.check()
    for number in range(1, 21):
        machine.handle(ev.Granted(number), 1.0)
    assert sum(live.phase is Phase.ANNOUNCED for live in machine.jobs.values()) == 5
    finish(machine)


def test_a_job_that_leaves_a_limit_lets_the_next_try():
    """Woken under the limit of a rule that is no more its own, it must not take the turn of another with it."""
    other = ["reason", ["=~", "reason", "^other$"]]
    machine = machine_of(5, [job(1), job(2)], rules(["RATE_LIMIT", 1]))
    machine.set_admission(rules(["RATE_LIMIT", 1], [["jobid", [">=", "id", 2]]]), 1.0)
    finish(machine)
    machine.submit([job(3), job(4, reason="other")], 1.0)
    assert machine.slots == {1, 2}
    machine.set_admission(rules(["RATE_LIMIT", 1], [other]), 1.0)
    finish(machine)
    assert machine.slots == {1, 2, 3, 4}


@pytest.mark.parametrize("seed", range(20))
def test_it_comes_out_as_if_all_had_been_asked_about_at_once(seed):
    """Rules change, and jobs come, between slices; in the end each job is where a fresh look at all of them has it."""
    chance = random.Random(seed)
    every = [
        OPEN,
        rules("PAUSE", [["jobid", ["<=", "id", 30]]]),
        rules("PAUSE"),
        rules(["RATE_LIMIT", 2], number=2),
        rules(["RATE_LIMIT", 4], [["jobid", [">", "id", 25]]], number=2),
        rules("REJECT", [["jobid", ["==", "id", chance.randint(1, 60)]]]),
    ]
    machine = machine_of(0, (job(number, chance.choice([-10, 0, 10])) for number in range(1, 51)))
    for number in range(51, 61):
        machine.set_admission(chance.choice(every), 1.0)
        for _ in range(chance.randint(0, 12)):
            machine.reconsider(1.0)
        machine.submit([job(number, reason=chance.choice([None, "rate-limit:1:a"]))], 1.0)
        machine.check()
    last = chance.choice(every)
    machine.set_admission(last, 1.0)
    finish(machine)
    fresh = machine_of(0, [live.file for live in machine.jobs.values()], last)
    assert machine.ready_order() == fresh.ready_order()
    limits = ev.Limits(running=7, active=10_000)
    machine.resume(2.0, limits)
    fresh.resume(2.0, limits)
    assert {job_id: (live.phase, live.held_by) for job_id, live in machine.jobs.items()} == {
        job_id: (live.phase, live.held_by) for job_id, live in fresh.jobs.items()
    }
    assert all(live.phase in (Phase.QUEUED, Phase.ASKING) for live in machine.jobs.values())
