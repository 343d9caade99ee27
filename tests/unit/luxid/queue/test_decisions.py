# SPDX-License-Identifier: BSD-2-Clause
"""Effects of one event are carried out in order, whatever becomes of one of them; every kind has an executor."""

import asyncio

from tests.fakes.replication import FakeReplication

from ganeti.base.paths import Paths
from ganeti.luxid.queue.decisions import Decisions
from ganeti.luxid.queue.driver import QueueDriver
from ganeti.master.queue import events as ev
from ganeti.master.queue.machine import QueueMachine
from ganeti.wire.job_file import JobFile

NO_SPACE = OSError(28, "No space left on device")
FILE = JobFile(id=1, ops=[])


def carry_out(*effects, fails=None):
    """What was carried out, and the answer; an executor raises what *fails* says for its kind."""
    done = []

    def execute(effect):
        done.append(type(effect).__name__)
        if error := (fails or {}).get(type(effect)):
            raise error

    async def scenario():
        decisions = Decisions(QueueMachine("/own"))
        for kind in (ev.WriteJob, ev.Announce, ev.TellPriority, ev.Log):
            decisions.on(kind, execute)
        return decisions.carry_out(effects)

    answer = asyncio.run(scenario())
    return done, answer


def test_effects_are_carried_out_in_order_and_the_answer_is_given():
    effects = [ev.WriteJob(FILE), ev.Answer(True, "done"), ev.Announce(1), ev.Log("told")]
    assert carry_out(*effects) == (["WriteJob", "Announce", "Log"], (True, "done"))
    assert carry_out(ev.Announce(1)) == (["Announce"], None)


def test_a_fault_in_one_effect_does_not_keep_the_others():
    for error in (NO_SPACE, KeyError("a mistake of ours")):
        done, answer = carry_out(ev.Announce(1), ev.Answer(True, "done"), ev.Log("told"), fails={ev.Announce: error})
        assert done == ["Announce", "Log"] and answer == (True, "done")


def test_nothing_is_promised_that_cannot_be_written():
    for effect in (ev.WriteJob(FILE, durable=True), ev.TellPriority(1, 5)):
        answer = carry_out(effect, ev.Answer(True, "done"), fails={type(effect): NO_SPACE})[1]
        assert answer is not None and not answer[0] and "No space left on device" in answer[1]
        refused = (False, "it has ended")
        assert carry_out(effect, ev.Answer(*refused), fails={type(effect): NO_SPACE})[1] == refused
    unpromised = carry_out(ev.WriteJob(FILE), ev.Answer(True, "done"), fails={ev.WriteJob: NO_SPACE})
    assert unpromised[1] == (True, "done")


def test_every_effect_of_the_machine_has_an_executor(tmp_path):
    paths = Paths(str(tmp_path))

    async def scenario():
        driver = QueueDriver(paths, QueueMachine("/own"), None, FakeReplication(paths.queue_dir), None, None)
        return set(driver._decisions._executors)

    assert asyncio.run(scenario()) == set(ev.Effect.__subclasses__()) - {ev.Answer}
