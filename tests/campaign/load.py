# SPDX-License-Identifier: BSD-2-Clause
"""A steady mixed load: clients submit jobs of many kinds, cancel, change priorities and archive, while daemons die.

What a client was told counts; a call that got no answer may have been carried out or not.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.campaign.opcode import GROUPS, OP_ID
from tests.fakes.master_daemons import Master

from ganeti.base.errors import TransportError
from ganeti.wire.job_file import FINAL_STATUSES

Opcode = dict[str, Any]
UNFINISHED_AT_MOST = 8
CALL_S = 5.0
PAUSE_S = 0.02
LOCKS = [f"instance/campaign{number}" for number in range(4)] + ["node/campaign", "network/campaign"]
PRIORITIES = (-10, 0, 10)
SUCCESSES_ONLY = ["success"]


class History:
    """What happened, in order: said when an invariant is broken."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._lines: list[str] = []

    def tell(self, text: str) -> None:
        self._lines.append(f"{time.monotonic() - self._began_s:8.3f} {text}")

    def last(self, count: int = 80) -> str:
        return "\n".join(self._lines[-count:])


class Client(threading.Thread):
    """One user. Everything it does follows from its seed; how the daemons answer does not.

    Its opcodes mark *groups* (indices of `GROUPS`) in turn, so that they seldom wait for each other's marks; clients
    that run together get groups apart.
    """

    def __init__(
        self, master: Master, seed: str, traces: str, history: History, groups: Sequence[int] = range(len(GROUPS))
    ) -> None:
        super().__init__(name=seed)
        self._master = master
        self._choice = random.Random(seed)
        self._traces = traces
        self._history = history
        self._groups = itertools.cycle(groups)
        self._stopping = threading.Event()
        self._unfinished: list[int] = []
        self.told: list[int] = []
        """Ids of jobs that were acknowledged."""
        self.refused = 0
        self.faults: list[str] = []

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            (6, self._submit_one),
            (3, self._submit_many),
            (1, self._cancel),
            (2, self._change_priority),
            (1, self._archive),
            (2, self._wait),
        ]
        weights = [weight for weight, _ in actions]
        while not self._stopping.is_set():
            (act,) = self._choice.choices([action for _, action in actions], weights)
            try:
                if act in (self._submit_one, self._submit_many):
                    self._look()
                    if len(self._unfinished) >= UNFINISHED_AT_MOST:
                        self._stopping.wait(PAUSE_S)
                        continue
                act()
            except TransportError:
                self._stopping.wait(PAUSE_S)
            except Exception as err:  # told to the main thread, which fails the test
                self.faults.append(f"{act.__name__}: {type(err).__name__}: {err}")
                return

    # What it does

    def _submit_one(self) -> None:
        ok, answer = self._call("SubmitJob", self._ops())
        if ok:
            self._note(answer)
        else:
            self._refusal(answer)

    def _submit_many(self) -> None:
        jobs = [self._ops() for _ in range(self._choice.randint(2, 5))]
        for number, ops in enumerate(jobs[1:], 1):
            if self._choice.random() < 0.6:
                ops[0]["depends"] = [[-self._choice.randint(1, number), self._choice.choice([[], SUCCESSES_ONLY])]]
        ok, answer = self._call("SubmitManyJobs", jobs)
        if not ok:
            self._refusal(answer)
            return
        for accepted, value in answer:
            if accepted:
                self._note(value)
            else:
                self.faults.append(f"a job of a batch was refused: {value}")

    def _cancel(self) -> None:
        if self._unfinished:
            self._call("CancelJob", self._choice.choice(self._unfinished), self._choice.random() < 0.3)

    def _change_priority(self) -> None:
        if self._unfinished:
            self._call("ChangeJobPriority", self._choice.choice(self._unfinished), self._choice.choice(PRIORITIES))

    def _archive(self) -> None:
        if self._choice.random() < 0.1:
            self._call("AutoArchiveJobs", 1, 1)
        elif self.told:
            self._call("ArchiveJob", self._choice.choice(self.told[-30:]))

    def _wait(self) -> None:
        if self._unfinished:
            self._call("WaitForJobChange", self._choice.choice(self._unfinished), ["status"], None, None, 0.1)

    # What it asks for

    def _ops(self) -> list[Opcode]:
        kind = self._choice.choices(["delay", "one", "several", "parent"], [3, 6, 3, 1])[0]
        if kind == "delay":
            return [{"OP_ID": "OP_TEST_DELAY", "duration": self._choice.choice([0, 0.01, 0.1])}]
        if kind == "several":
            return [self._counted() for _ in range(self._choice.randint(2, 4))]
        opcode = self._counted()
        if kind == "parent":
            opcode["submit_jobs"] = [[self._counted()] for _ in range(self._choice.randint(1, 3))]
        return [opcode]

    def _counted(self) -> Opcode:
        opcode: Opcode = {
            "OP_ID": OP_ID,
            "traces": self._traces,
            "duration": self._choice.choice([0, 0.005, 0.03, 0.1]),
        }
        opcode["priority"] = self._choice.choice(PRIORITIES)
        opcode["marks"] = self._choice.random() < 0.5
        opcode["group"] = next(self._groups)
        opcode["fail"] = self._choice.random() < 0.05
        chosen = self._choice.sample(LOCKS, self._choice.choice([0, 1, 1, 2]))
        held_alone = self._choice.random() < 0.7
        opcode["exclusive" if held_alone else "shared"] = chosen
        return opcode

    # How it asks

    def _call(self, method: str, *arguments: Any) -> tuple[bool, Any]:
        return self._master.raw_luxi(method, *arguments, timeout_s=CALL_S)

    def _note(self, job_id: int) -> None:
        self.told.append(job_id)
        self._unfinished.append(job_id)
        self._history.tell(f"job {job_id} was acknowledged")

    def _refusal(self, answer: Any) -> None:
        """Full or drained queues are part of life; anything else is a fault."""
        self.refused += 1
        if not (isinstance(answer, list) and answer[0] in ("JobQueueFull", "JobQueueDrainError")):
            self.faults.append(f"a submission was refused: {answer}")

    def _look(self) -> None:
        rows = self._call("QueryJobs", self._unfinished, ["id", "status"])[1] if self._unfinished else []
        ended = {job_id for job_id, status in rows if status in FINAL_STATUSES}
        lost = [job_id for job_id, status in rows if status is None]
        if lost:
            self.faults.append(f"jobs {lost} were acknowledged and are not known any more")
        self._unfinished = [job_id for job_id in self._unfinished if job_id not in ended]
