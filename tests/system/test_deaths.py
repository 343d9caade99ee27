# SPDX-License-Identifier: BSD-2-Clause
"""Every death between every two steps of a job's life ends as the documents say (S2.33 to S2.41, S2.62, S2.63, D5).

A table of (where somebody stops, who is killed there, how the job ends, how often its opcode began, what of its change
stays). The job commits a first mark with its undo and a second one that settles.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.campaign.invariants import Invariants
from tests.campaign.killing import Cluster
from tests.campaign.load import Client, History
from tests.campaign.opcode import BEGUN, GROUPS, OP_ID, marks_of, trace_path
from tests.fakes.master_daemons import Master
from tests.fakes.wconfd import fast_directory
from tests.system.test_campaign import make_master

pytestmark = [pytest.mark.daemons]
LOCK = "instance/deaths"
NONE, BOTH = (0, 0), (1, 1)
Ending = tuple[str, int, tuple[int, int]]
DONE: Ending = ("success", 1, BOTH)
NEVER_RAN: Ending = ("error", 0, NONE)
UNDONE: Ending = ("error", 1, NONE)
DIED_AFTER: Ending = ("error", 1, BOTH)
BEFORE_CONFIRMATION = ["job-forked", "job-locked", "job-greeted"]
AFTER_CONFIRMATION = [
    "job-confirmed",
    "job-before-claim",
    "job-after-claim",
    "job-recorded",
    "job-step-1",
    "job-committed-1",
    "job-settling-2",
    "job-committed-2",
    "job-before-end",
    "job-written",
    "job-after-end",
]
KILLED: dict[str, Ending] = {
    **dict.fromkeys([*BEFORE_CONFIRMATION, *AFTER_CONFIRMATION[:3]], NEVER_RAN),
    **dict.fromkeys(["job-recorded", "job-step-1", "job-committed-1", "job-settling-2"], UNDONE),
    **dict.fromkeys(["job-committed-2", "job-before-end"], DIED_AFTER),
    **dict.fromkeys(["job-written", "job-after-end"], DONE),
}
TABLE: list[tuple[str, str, list[Ending]]] = [
    *((place, "job", [ending]) for place, ending in KILLED.items()),
    *((place, "luxid", [NEVER_RAN]) for place in BEFORE_CONFIRMATION[:2]),
    ("job-greeted", "luxid", [NEVER_RAN, DONE]),  # the confirmation may lie in the socket already
    *((place, "luxid", [DONE]) for place in AFTER_CONFIRMATION),
    *((place, "wconfd", [DONE]) for place in ["job-locked", "job-before-claim", "job-after-claim", "job-settling-2"]),
    *((place, "luxid wconfd", [DONE]) for place in ["job-after-claim", "job-committed-1", "job-before-end"]),
    *((place, "luxid wconfd job", [UNDONE]) for place in ["job-committed-1", "job-settling-2"]),
    *((place, "spawner", [DONE]) for place in ["job-forked", "job-greeted", "job-committed-1"]),
    *((place, "luxid", [DONE]) for place in ["luxid-written", "luxid-submitted"]),
    *((place, "luxid", [NEVER_RAN]) for place in ["luxid-announced", "luxid-greeted", "luxid-stored"]),
    *((place, "luxid", [DONE]) for place in ["luxid-granted", "luxid-confirmed"]),
    ("luxid-announced", "spawner", [DONE]),
    *((place, "wconfd", [DONE]) for place in ["commit-staged", "commit-durable", "commit-told"]),
]


class Scene:
    """One cluster, one job a case; somebody stops at a place and is killed there."""

    def __init__(self, master: Master) -> None:
        self.master = master
        self.cluster = Cluster(master)
        self.traces = str(master.root / "traces")
        os.makedirs(self.traces)
        Path(trace_path(self.traces)).touch()
        history = History()
        self.invariants = Invariants(self.cluster, self.traces, history)
        self.client = Client(master, "nobody", self.traces, history)

    def restart(self, place: str = "") -> None:
        """Start what is not there, and the daemon that must know of *place* anew."""
        variables = {"GANETI_PAUSE_AT": place} if place else {}
        name = "wconfd" if place.startswith(("commit-", "publish-")) else "luxid"
        if place and name in self.master.daemons:
            self.master.kill(name)
        for each in ("wconfd", "luxid"):
            if each not in self.master.daemons:
                self.master.start(each, **(variables if each == name else {}))

    def submit(self, *ops: dict) -> int:
        """Submit without waiting for the answer, which LuxiD may not live to give."""
        before = max(self.master.files.ids(), default=0)
        with self.master.connection() as connection:
            connection.send({"method": "SubmitJob", "args": [list(ops)]})
            return self.master.until(
                lambda: next((each for each in self.master.files.ids() if each > before), 0), "the job is on disk"
            )

    def counted(self, **more: object) -> dict:
        return {"OP_ID": OP_ID, "traces": self.traces, **more}

    def stopped(self) -> int:
        return self.master.until(lambda: next(iter(self.cluster.stopped()), 0), "somebody stops")

    def kill(self, victims: str, stopped: int) -> None:
        for victim in victims.split():
            if victim in ("luxid", "wconfd"):
                self.master.kill(victim)
            else:
                pid = stopped if victim == "job" else self.cluster.spawner()
                assert pid is not None and self.cluster.signal(pid, signal.SIGKILL)

    def begun(self, job_id: int) -> int:
        lines = Path(trace_path(self.traces)).read_text().splitlines()
        return sum(line.startswith(f"{BEGUN} {job_id} ") for line in lines)

    def marks(self, job_id: int) -> tuple[int, int]:
        tags = self.invariants.wconfd("readConfig")["nodegroups"][GROUPS[0]]["tags"]
        first, second = marks_of(job_id, 0)
        return tags.count(first), tags.count(second)

    def end(self, job_id: int) -> str:
        """Let all go on to the end of the job."""

        def final() -> bool:
            self.cluster.let_go_on()
            return self.master.file(job_id).final

        self.master.until(final, f"job {job_id} ends", 30.0)
        return self.master.wait(job_id).status


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with fast_directory() as directory:
        master = make_master(directory / "cluster")
        try:
            master.start("wconfd")
            master.start("luxid")
            yield Scene(master)
        finally:
            master.stop_all()


@pytest.mark.requirement("S2.40", "S2.41")
@pytest.mark.parametrize(("place", "victims", "endings"), TABLE, ids=[f"{row[1]} at {row[0]}" for row in TABLE])
def test_killed_there(scene, place, victims, endings):
    scene.restart(place)
    job_id = scene.submit(scene.counted(marks=True, exclusive=[LOCK]))
    stopped = scene.stopped()
    scene.kill(victims, stopped)
    scene.restart()
    ending = (scene.end(job_id), scene.begun(job_id), scene.marks(job_id))
    assert ending in endings, scene.master.output("luxid")[-1500:]
    after = scene.submit(scene.counted(exclusive=[LOCK]))
    assert scene.end(after) == "success", "its lock is not free"


@pytest.mark.parametrize(
    ("place", "victims", "statuses"),
    [
        ("job-before-hand-back", "job", ["error"]),
        ("job-after-hand-back", "job", ["success"]),
        ("job-before-hand-back", "luxid", ["success"]),
        ("job-after-hand-back", "luxid", ["success"]),
        ("job-before-hand-back", "wconfd", ["success"]),
    ],
)
def test_killed_while_a_job_is_handed_back(scene, place, victims, statuses):
    """The second opcode needs what another job holds: the job gives up its process and comes back."""
    scene.restart(place)
    holder = scene.submit(scene.counted(exclusive=[LOCK], duration=1.0))
    scene.master.until(lambda: scene.begun(holder), "it holds the lock")
    job_id = scene.submit(scene.counted(), scene.counted(exclusive=[LOCK]))
    scene.kill(victims, scene.stopped())
    scene.restart()
    status = scene.end(job_id)
    assert status in statuses
    assert scene.begun(job_id) == (2 if status == "success" else 1)
    assert scene.end(holder) == "success"


POWER_CUT: dict[str, Ending] = {
    **dict.fromkeys(["luxid-written", "luxid-submitted", "luxid-announced", "luxid-stored"], DONE),
    **dict.fromkeys(["job-forked", "job-greeted", "job-confirmed", "job-before-claim", "job-after-claim"], DONE),
    **dict.fromkeys(["job-recorded", "job-step-1", "job-committed-1", "job-settling-2"], UNDONE),
    **dict.fromkeys(["job-committed-2", "job-before-end"], DIED_AFTER),
    **dict.fromkeys(["job-written", "job-after-end"], DONE),
}


@pytest.mark.parametrize(("place", "ending"), POWER_CUT.items())
def test_the_power_cut_there(scene, place, ending):
    """As after a take-over: no process lives, nothing is left of locks, lock files and notes of the running system.

    What had not begun runs then, and nothing runs twice.
    """
    scene.restart(place)
    job_id = scene.submit(scene.counted(marks=True, exclusive=[LOCK]))
    stopped = scene.stopped()
    begun_before = scene.begun(job_id)
    for name in ("luxid", "wconfd"):
        scene.master.kill(name)
    scene.cluster.signal(stopped, signal.SIGKILL)
    scene.master.until(lambda: not scene.cluster.processes(), "all are gone")
    paths = scene.master.paths
    for directory in (paths.livelock_dir, paths.run_dir):
        for path in Path(directory).iterdir():
            if path.is_file():
                path.unlink()
    Path(f"{paths.data_dir}/locks.data").unlink(missing_ok=True)
    scene.restart()
    assert (scene.end(job_id), scene.begun(job_id), scene.marks(job_id)) == ending
    assert begun_before in (0, ending[1])
    assert scene.end(scene.submit(scene.counted(exclusive=[LOCK]))) == "success"


def test_nothing_is_left(scene):
    scene.restart()
    scene.invariants.check([scene.client])
