# SPDX-License-Identifier: BSD-2-Clause
"""Event, machine, effect: what happens to jobs goes into the queue machine, what it decides is carried out at once.

Invariant: the effects of one event are carried out in order and in one go; no await lies between a decision of the
machine and its writes. Each kind of effect has its executor, in the module of its subject.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ganeti.master.queue import events as ev
from ganeti.master.queue.machine import QueueMachine
from ganeti.system.event_loop import Alarm

_log = logging.getLogger(__name__)
_Kind = TypeVar("_Kind", bound=ev.Effect)
Answered = tuple[bool, str]
"""Whether it is done, and a sentence for the client who asked."""


class Decisions:
    """The one way into the machine for what tells of jobs, and from the machine to what acts on them."""

    def __init__(self, machine: QueueMachine) -> None:
        self.machine = machine
        self._executors: dict[type[ev.Effect], list[Callable[[Any], object]]] = {}
        self._alarm = Alarm(self._tick)

    def on(self, kind: type[_Kind], *executors: Callable[[_Kind], object]) -> None:
        """Say what carries out effects of one kind, in order; raises `OSError` where the machine's world fails it."""
        self._executors[kind] = list(executors)

    def tell(self, event: ev.JobEvent) -> None:
        """Something has happened to a job."""
        try:
            effects = self.machine.handle(event, time.time())
        except Exception:  # a fault about one job must not end the task that serves all of them
            _log.exception("%s could not be dealt with", event)
        else:
            self.carry_out(effects)

    def tell_soon(self, event: ev.JobEvent) -> None:
        """As `tell`, for what turns out while effects are being carried out."""
        asyncio.get_running_loop().call_soon(self.tell, event)

    def ask(self, event: ev.JobEvent) -> Answered | None:
        """A client wants something of a job; gives the answer, None where that comes later."""
        return self.carry_out(self.machine.handle(event, time.time()))

    def carry_out(self, effects: Sequence[ev.Effect]) -> Answered | None:
        """Carry out effects in order; gives the answer for the client, if there is one.

        What cannot be written down is not promised, though it is done and will be written when there is space.
        """
        answer: Answered | None = None
        trouble = None
        for effect in effects:
            if isinstance(effect, ev.Answer):
                answer = (effect.ok, effect.message)
                continue
            try:
                for execute in self._executors[type(effect)]:
                    execute(effect)
            except OSError as err:
                _log.error("%s", _not_done(effect, err))
                if isinstance(effect, ev.TellPriority) or (isinstance(effect, ev.WriteJob) and effect.durable):
                    trouble = trouble or _not_done(effect, err)
            except Exception:  # a fault in one effect must not swallow those of other jobs
                _log.exception("%s could not be carried out", effect)
        self._alarm.set(self.machine.next_alarm_s())
        return (False, trouble) if trouble is not None and answer is not None and answer[0] else answer

    def _tick(self) -> None:
        self.carry_out(self.machine.tick(time.time()))


def _not_done(effect: ev.Effect, err: OSError) -> str:
    """What a client is told, and the log."""
    match effect:
        case ev.WriteJob(file):
            return (
                f"What was decided about job {file.id} holds but cannot be written ({err.strerror}): free some space, "
                "or the next start of the master daemon forgets it"
            )
        case ev.TellPriority(job_id):
            return f"Job {job_id} cannot get its new priority ({err.strerror}): free some space and try again"
    return f"{effect} could not be carried out: {err}"
