# SPDX-License-Identifier: BSD-2-Clause
"""Changed limits and job filters reach the queue machine, the filters of very many jobs in slices."""

import asyncio
from types import SimpleNamespace

from tests.fakes.wconfd import until

from ganeti.luxid.queue.decisions import Decisions
from ganeti.luxid.queue.rules import QueueRules, limits
from ganeti.master.queue import events as ev
from ganeti.master.queue.machine import QueueMachine
from ganeti.model.objects import FilterRule
from ganeti.wire.job_file import JobFile, OpcodeEntry

JOBS = range(1, 21)


class View:
    """What of the configuration is read."""

    def __init__(self):
        self.cluster = SimpleNamespace(max_running_jobs=20)
        self.rules = []

    def filters(self):
        return self.rules


class Follower:
    def __init__(self):
        self.configuration = View()


def test_rules_are_given_to_the_machine_when_they_change():
    follower = Follower()
    machine = QueueMachine("/own", limits(follower.configuration))
    decisions = Decisions(machine)
    for kind in ev.Effect.__subclasses__():
        decisions.on(kind)
    rules = QueueRules(decisions, follower)

    async def scenario():
        machine.held_back = True
        machine.submit(
            [JobFile(id=job_id, ops=[OpcodeEntry(input={"OP_ID": "OP_TEST_DELAY"})]) for job_id in JOBS], 1.0
        )
        follower.configuration.cluster.max_running_jobs = 3
        admission = machine.admission
        rules.apply()
        assert machine.limits.running == 3 and machine.admission is admission
        follower.configuration.rules = [FilterRule(uuid="closed", action="REJECT")]
        rules.apply()
        await until(lambda: not machine.jobs)

    asyncio.run(asyncio.wait_for(scenario(), 10))
    assert [machine.status_of(job_id) for job_id in JOBS] == ["canceled"] * len(JOBS)
