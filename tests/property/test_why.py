# SPDX-License-Identifier: BSD-2-Clause
"""Whatever the queue looks like, its explanation ends, is about the job asked for, and speaks of each job once."""

import asyncio
import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.queue_facts import NODE_LOCK, NOW_S, FakeFacts, owner
from tests.fakes.thoroughness import examples

from ganeti.master.query.queue_facts import Ahead, Held, LockWait
from ganeti.master.query.why import DEEPEST, MOST_JOBS, explain
from ganeti.master.queue.dependencies import Dependency
from ganeti.master.queue.state import Phase
from ganeti.wire.job_file import timestamp

JOBS = st.integers(1, 12)
LOCKS = st.sampled_from([NODE_LOCK, "node/[lockset]", "instance/a", "instance/b", "cluster/BGL", "network/gone"])
STATES = st.sampled_from(["shared", "exclusive"])
PHASES = st.sampled_from([phase for phase in Phase if phase is not Phase.ENDED])
STATUSES = st.sampled_from(["queued", "waiting", "running", "canceling", "success"])
OWNERS = st.one_of(JOBS, st.just("watcher")).map(owner)


@st.composite
def waits(draw):
    holders = [
        Held(lock, draw(STATES), lock, draw(OWNERS), draw(STATES), draw(st.sampled_from([None, NOW_S - 5])))
        for lock in draw(st.lists(LOCKS, max_size=6))
    ]
    ahead = [Ahead(lock, draw(OWNERS), draw(st.integers(-20, 19))) for lock in draw(st.lists(LOCKS, max_size=8))]
    return LockWait(holders, ahead, draw(st.dictionaries(LOCKS, STATES, max_size=3)))


@st.composite
def queues(draw):
    facts = FakeFacts()
    facts.most_running = draw(st.integers(1, 13))
    facts.held_back = draw(st.booleans())
    for job_id in sorted(draw(st.sets(JOBS, min_size=1))):
        opcodes = [
            {"status": status, "exec_timestamp": draw(st.sampled_from([None, timestamp(NOW_S - 3)]))}
            for status in draw(st.lists(STATUSES, max_size=3))
        ]
        depends = [Dependency(other, frozenset()) for other in draw(st.lists(JOBS, max_size=8))]
        job = facts.job(job_id, draw(PHASES), opcodes=opcodes, depends=depends)
        job.held_by = draw(st.sampled_from([None, "a rule says so"]))
        job.blockers = draw(st.lists(JOBS, max_size=2))
        job.file.deaths = draw(st.integers(0, 1))
        facts.waits[job_id] = draw(st.one_of(st.none(), waits()))
    facts.order = draw(st.permutations(sorted(facts.jobs)))
    return facts


@settings(max_examples=examples(300), deadline=None)
@given(queues(), st.data())
def test_every_explanation_ends_and_repeats_nothing(facts, data):
    job_id = data.draw(st.sampled_from(sorted(facts.jobs)))
    told = asyncio.run(explain(job_id, facts))
    assert re.match(rf"Job {job_id}\b", told[0][1])
    assert told[0][0] == 0 and all(0 < depth <= DEEPEST + 1 for depth, _ in told[1:])
    assert all(after <= before + 1 for (before, _), (after, _) in pairwise(told))
    assert len(told) < 12 * MOST_JOBS
    for _, text in told:
        assert text[0].isupper() or not text[0].isalpha()
        assert text.endswith((".", "…")) and "  " not in text and "None" not in text
    explained = [found[0] for _, text in told if (found := re.findall(r"ob (\d+)(?: \(\S+\))?[^:]*? has been ", text))]
    assert len(explained) == len(set(explained)), told
