# SPDX-License-Identifier: BSD-2-Clause
"""What the checkers say of locks that the dead hold, and of ends that changed after somebody was told."""

import json
from types import SimpleNamespace
from typing import Any

from ganeti.master.locks.owners import Owner
from ganeti.master.locks.snapshot import to_plain
from ganeti.master.locks.table import LockTable
from ganeti.master.locks.times import Times
from ganeti_simulation.cluster.clients import AcceptedJob
from ganeti_simulation.cluster.machine_files import LOCKS, QUEUE, lock_owners, read_locks
from ganeti_simulation.plans.checkers import Checkers


def machine(files: dict[str, bytes]) -> Any:
    names = [path.rpartition("/")[2] for path in files if path.startswith(QUEUE)]
    disk = SimpleNamespace(exists=files.__contains__, content=files.__getitem__, listdir=lambda _: names)
    return SimpleNamespace(name="node1", disk=disk)


def checkers(*machines: Any, accepted_jobs: dict[int, AcceptedJob] | None = None) -> Checkers:
    checkers = Checkers.__new__(Checkers)
    checkers.violations = []
    checkers._world = SimpleNamespace(  # type: ignore[assignment]
        kernel=SimpleNamespace(tell=lambda *_: None), machines=machines, candidates=len(machines)
    )
    checkers._player = SimpleNamespace(ledger=SimpleNamespace(accepted_jobs=accepted_jobs or {}))  # type: ignore[assignment]
    return checkers


def saved_locks() -> bytes:
    held = {Owner(3, "/run/job_3_1"): {"instance/one": "exclusive"}}
    return json.dumps(to_plain(LockTable.restored(held, [], 1), Times())).encode() + b"\n"


def test_locks_of_the_dead_are_told() -> None:
    assert lock_owners(machine({LOCKS: saved_locks()})) == ["3 of /run/job_3_1 holds instance/one"]
    assert lock_owners(machine({})) == []
    assert read_locks(b"\0" * 50) is None and read_locks(saved_locks()) is not None


def test_an_end_that_changed_is_told() -> None:
    raw = json.dumps({"id": 1, "ops": [{"status": "success", "result": "two"}]}).encode()
    master = machine({f"{QUEUE}/job-1": raw})
    told = AcceptedJob(1, "test", 0.0, "success", ["one"])
    found = checkers(accepted_jobs={1: told})
    found._check_jobs(master)
    assert found.violations == ["job 1 (test) was told to have given ['one'], and has given ['two']"]
    told.result = ["two"]
    found.violations.clear()
    found._check_jobs(master)
    assert not found.violations


def test_queues_that_differ_are_told() -> None:
    master, other = machine({f"{QUEUE}/job-1": b"a"}), machine({f"{QUEUE}/job-2": b"b"})
    assert len(checkers(master, other)._different_jobs(master)) == 2
    assert not checkers(master, master)._different_jobs(master)
