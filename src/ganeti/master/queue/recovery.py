# SPDX-License-Identifier: BSD-2-Clause
"""Taking up the unfinished jobs of an earlier life of LuxiD, or of another master. Pure."""

from collections.abc import Iterable, Mapping

from ganeti.master.queue import entries
from ganeti.master.queue.endings import fail, left_by_another
from ganeti.master.queue.events import Died, Effect, Found
from ganeti.master.queue.state import Phase, QueueState
from ganeti.master.queue.transitions import step
from ganeti.master.queue.waiting import wait_or_ready


def take_up(state: QueueState, found: Iterable[Found], known: Mapping[int, str]) -> list[Effect]:
    """Give each its phase, in order of their ids; *known* has the final statuses of archived dependencies."""
    effects: list[Effect] = []
    for item in sorted(found, key=lambda each: each.file.id):
        if item.file.livelock is None:
            effects += _take_up_queued(state, item, known)
        elif item.alive:
            state.add(item.file, Phase.STARTED, "found running after a restart")
        elif item.foreign and not item.records:
            effects += _take_up_foreign(state, item, known)
        else:
            job = state.add(item.file, Phase.STARTED, "found dead after a restart")
            if item.foreign:  # the locks of the dead are forgotten: nobody may meet what they left half done
                state.unwinding.add(item.file.id)
            effects += step(state, job, Died(item.file.id, item.file, item.records, item.outcome))
    return effects


def _take_up_queued(state: QueueState, item: Found, known: Mapping[int, str]) -> list[Effect]:
    """A job that had a process before gets a new number for the next one: its lock file's name is used up."""
    if item.file.start_timestamp is not None:
        item.file.attempt += 1
    job = state.add(item.file, Phase.QUEUED, "found queued after a restart")
    if item.file.deaths:  # it has begun once: it must be undone, whatever became of what it waited for
        state.push(job)
        return []
    if item.secrets_lost:
        return fail(state, job, entries.SECRETS_LOST)
    if item.file.start_timestamp is not None and job.verdict.action != "reject":
        state.push(job)  # what it depended on had ended as asked, and may be gone since
        return []
    return wait_or_ready(state, job, known)


def _take_up_foreign(state: QueueState, item: Found, known: Mapping[int, str]) -> list[Effect]:
    """Its process ended with another machine, or with this one's power: what had not begun runs now (S2.7)."""
    if item.file.begun == item.file.attempt and not item.file.deaths:
        job = state.add(item.file, Phase.STARTED, "found ended with the former master")
        return left_by_another(state, job)
    entries.begin_again(item.file)
    return _take_up_queued(state, item, known)
