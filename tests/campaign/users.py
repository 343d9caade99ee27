# SPDX-License-Identifier: BSD-2-Clause
"""Users of a cluster whose master changes: each works on instances, filters and settings of its own, and keeps a
ledger of what it was told. What got no answer may have been done or not.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.campaign.load import History
from tests.campaign.machines import Machines

from ganeti.base.errors import GanetiError, TransportError
from ganeti.wire.job_file import FINAL_STATUSES, SUCCESS

Opcode = dict[str, Any]
Key = tuple[str, str]
"""A kind of thing and its name; the things are instances, their states, filter rules, settings."""
GONE = "gone"
PAUSE_S = 0.02
INSTANCES_MOST = 3
FILTERS_MOST = 4
UNFINISHED_MOST = 5
MEMORY = {"maxmem": 128, "minmem": 128, "vcpus": 1}
LIMITS = range(15, 30)
_QUIET_REFUSALS = ("JobQueueFull",)


@dataclass
class Told:
    """A job that was acknowledged."""

    job: int
    purpose: str
    node: str
    effects: dict[Key, str]
    """What will be so if it succeeds."""
    status: str | None = None
    result: Any = None


class User(threading.Thread):
    def __init__(self, machines: Machines, name: str, seed: str, history: History) -> None:
        super().__init__(name=name, daemon=True)
        self._machines = machines
        self._choice = random.Random(seed)
        self._history = history
        self._working = threading.Event()
        self._ending = False
        self._count = 0
        self._busy: set[Key] = set()
        self._unfinished: dict[int, Told] = {}
        self.idle = threading.Event()
        """Nothing of this user is on its way, and it begins nothing."""
        self.told: dict[int, Told] = {}
        self.facts: dict[Key, str] = {}
        """What must be so, as far as this user was told."""
        self.unsure: set[Key] = set()
        """Of these anything may be so."""
        self.refused: list[str] = []
        self.faults: list[str] = []

    # From the test

    def work(self) -> None:
        self.idle.clear()
        self._working.set()

    def pause(self) -> None:
        self._working.clear()

    def end(self) -> None:
        self._ending = True
        self.work()
        self.join()

    def run(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            (6, self._wait),
            (2, self._wait_together),
            (5, self._add),
            (3, self._remove),
            (4, self._start_or_stop),
            (1, self._migrate),
            (2, self._rule),
            (1, self._set_limit),
        ]
        weights = [weight for weight, _ in actions]
        while not self._ending:
            try:
                self._look()
                if not self._working.is_set():
                    if not self._unfinished:
                        self.idle.set()
                        self._working.wait()
                elif len(self._unfinished) < UNFINISHED_MOST:
                    self._choice.choices([action for _, action in actions], weights)[0]()
            except TransportError:
                pass
            except Exception as err:  # told to the main thread, which fails the test
                self.faults.append(f"{type(err).__name__}: {err}")
                self.idle.set()
                return
            time.sleep(PAUSE_S)

    # What it does

    def _wait(self) -> None:
        nodes = self._choice.choice([[], self._nodes()[:1]])
        self._submit(
            "wait", {"OP_ID": "OP_TEST_DELAY", "duration": self._choice.choice([0, 0.1, 0.4]), "on_nodes": nodes}
        )

    def _wait_together(self) -> None:
        jobs = [[{"OP_ID": "OP_TEST_DELAY", "duration": 0.02 * each}] for each in range(3)]
        jobs[2][0]["depends"] = [[-1, ["success"]]]
        node, ok, answer = self._ask("SubmitManyJobs", jobs)
        for accepted, job in answer if ok else []:
            if accepted:
                self._accept(job, node, "wait together", {})

    def _add(self) -> None:
        mine = [key for key in {*self.facts, *self._busy} if key[0] == "instance" and self.facts.get(key) != GONE]
        if len(mine) >= INSTANCES_MOST:
            return
        self._count += 1
        name = f"{self.name}x{self._count}"
        disks = self._choice.random() < 0.5
        start = self._choice.random() < 0.6
        node = self._choice.choice(self._nodes())
        opcode = {
            "OP_ID": "OP_INSTANCE_CREATE",
            "instance_name": name,
            "mode": "create",
            "disk_template": "sharedfile" if disks else "diskless",
            "disks": [{"size": 8}] if disks else [],
            "nics": [],
            "os_type": "noop+default",
            "start": start,
            "pnode": node,
            "beparams": MEMORY,
        }
        kind = "sharedfile" if disks else "diskless"
        effects = {("instance", name): kind, ("state", name): "up" if start else "down"}
        self._submit(f"add {name} on {node}", opcode, effects)

    def _remove(self) -> None:
        if (name := self._own()) is not None:
            opcode = {"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": name, "shutdown_timeout": 0}
            self._submit(f"remove {name}", opcode, {("instance", name): GONE, ("state", name): GONE})

    def _start_or_stop(self) -> None:
        if (name := self._own()) is not None:
            starts = self.facts[("state", name)] == "down"
            opcode = {"OP_ID": "OP_INSTANCE_STARTUP" if starts else "OP_INSTANCE_SHUTDOWN", "instance_name": name}
            if not starts:
                opcode["timeout"] = 0  # type: ignore[assignment]
            state = "up" if starts else "down"
            self._submit(f"{'start' if starts else 'stop'} {name}", opcode, {("state", name): state})

    def _migrate(self) -> None:
        name = self._own()
        if name is not None and self.facts["instance", name] == "sharedfile" and self.facts["state", name] == "up":
            node = self._choice.choice(self._nodes())
            opcode = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": name, "target_node": node}
            self._submit(f"migrate {name} to {node}", opcode, {("state", name): "up"})

    def _rule(self) -> None:
        known = {key: fact for key, fact in self.facts.items() if key not in self.unsure}
        mine = [uuid for (kind, uuid), fact in known.items() if kind == "filter" and fact != GONE]
        if len(mine) >= FILTERS_MOST:
            uuid = self._choice.choice(mine)
            key, fact, asked = ("filter", uuid), GONE, ("DeleteFilter", uuid)
        else:
            uuid = f"00000000-0000-4000-8000-{self._choice.getrandbits(48):012x}"
            predicates = [["jobid", ["=", "id", 1]]]
            key, fact, asked = ("filter", uuid), "there", ("ReplaceFilter", uuid, 1000, predicates, "ACCEPT", [])  # type: ignore[assignment]
        self.unsure.add(key)
        _, ok, answer = self._ask(*asked)
        if ok:
            self.unsure.discard(key)
            self.facts[key] = fact
            self._history.tell(f"{self.name}: {fact} filter {uuid} was acknowledged")
        else:
            self._refusal("filter", answer)

    def _set_limit(self) -> None:
        """One user alone, so that nobody else's answer can come in between."""
        key = ("limit", "max_running_jobs")
        if self.name.endswith("0") and key not in self._busy:
            limit = self._choice.choice(LIMITS)
            opcode = {"OP_ID": "OP_CLUSTER_SET_PARAMS", "max_running_jobs": limit}
            self._submit(f"limit {limit}", opcode, {key: str(limit)})

    def _nodes(self) -> list[str]:
        nodes = self._machines.powered()
        self._choice.shuffle(nodes)
        return nodes

    def _own(self) -> str | None:
        """An instance of this user to which nothing is being done."""
        names = [
            name
            for (kind, name), fact in self.facts.items()
            if kind == "instance"
            and fact != GONE
            and not {("instance", name), ("state", name)} & self._busy
            and not {("instance", name), ("state", name)} & self.unsure
        ]
        return self._choice.choice(names) if names else None

    # How it asks

    def _ask(self, method: str, *arguments: Any) -> tuple[str, bool, Any]:
        node = self._machines.master
        if node is None:
            raise TransportError("nobody is the master")
        ok, answer = self._machines.luxi(method, *arguments, node=node)
        return node, ok, answer

    def _submit(self, purpose: str, opcode: Opcode, effects: dict[Key, str] | None = None) -> None:
        effects = effects or {}
        self.unsure |= set(effects)
        node, ok, answer = self._ask("SubmitJob", [opcode])
        if not ok:
            self.unsure -= set(effects)
            self._refusal(purpose, answer)
            return
        self._busy |= set(effects)
        self._accept(answer, node, purpose, effects)

    def _accept(self, job: int, node: str, purpose: str, effects: dict[Key, str]) -> None:
        self._history.tell(f"{self.name}: {purpose}: job {job}, by {node}")
        self.told[job] = self._unfinished[job] = Told(job, purpose, node, effects)

    def _refusal(self, purpose: str, answer: Any) -> None:
        self._history.tell(f"{self.name}: {purpose}: refused: {answer}")
        if answer[0] not in _QUIET_REFUSALS:
            self.refused.append(f"{purpose}: {answer}")

    def _look(self) -> None:
        """Ask about what was acknowledged and has not ended."""
        if not self._unfinished:
            return
        asked = list(self._unfinished)
        node, ok, rows = self._ask("QueryJobs", asked, ["status", "opresult"])
        if not ok:
            raise GanetiError(f"LuxiD of {node} does not list jobs: {rows}")
        for job, row in zip(asked, rows, strict=True):
            if row is None:
                self.faults.append(f"{self._unfinished.pop(job)} was acknowledged, and {node} does not know it")
            elif row[0] in FINAL_STATUSES:
                self._ended(self._unfinished.pop(job), *row)

    def _ended(self, told: Told, status: str, result: Any) -> None:
        told.status, told.result = status, result
        self._history.tell(f"{self.name}: job {told.job} ended with {status}: {result}")
        self._busy -= set(told.effects)
        if status == SUCCESS:
            self.facts |= told.effects
            self.unsure -= set(told.effects)
