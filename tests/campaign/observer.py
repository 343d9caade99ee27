# SPDX-License-Identifier: BSD-2-Clause
"""Somebody who looks all the time: does a guest run twice, and does anybody but the master take jobs?"""

from __future__ import annotations

import threading

from tests.campaign.load import History
from tests.campaign.machines import Machines

from ganeti.base.errors import TransportError

EVERY_S = 0.1
NOBODY_S = 2.0
NOTHING = [{"OP_ID": "OP_TEST_DELAY", "duration": 0}]


class Observer(threading.Thread):
    def __init__(self, machines: Machines, history: History) -> None:
        super().__init__(name="observer", daemon=True)
        self._machines = machines
        self._history = history
        self._ending = threading.Event()
        self._doubled: set[str] = set()
        self.looks = 0
        self.refusals = 0
        """How often one that is not the master would not take a job."""
        self.faults: list[str] = []

    def end(self) -> None:
        self._ending.set()
        self.join()

    def run(self) -> None:
        while not self._ending.wait(EVERY_S):
            try:
                self.looks += 1
                self._look_at_guests()
                self._try_others()
            except Exception as err:  # told to the main thread, which fails the test
                self.faults.append(f"observer: {type(err).__name__}: {err}")
                return

    def _look_at_guests(self) -> None:
        """Files are read one after another: who moves between two looks is seen on both nodes once, not twice."""
        doubled = {f"{name} on {nodes}" for name, nodes in self._machines.guests().items() if len(nodes) > 1}
        for sentence in sorted(doubled & self._doubled):
            self.faults.append(f"a guest runs twice: {sentence}")
        self._doubled = doubled

    def _try_others(self) -> None:
        """A job that is taken by a node which is not the master, neither before nor after, is one master too many."""
        for node in self._machines.powered():
            master = self._machines.master
            if master is None or node == master:
                continue
            try:
                ok, answer = self._machines.luxi("SubmitJob", NOTHING, node=node, timeout_s=NOBODY_S)
            except TransportError:
                ok, answer = False, None
            if not ok:
                self.refusals += 1
            elif self._machines.master == master:
                self.faults.append(f"{node} took job {answer} although {master} is the master")
