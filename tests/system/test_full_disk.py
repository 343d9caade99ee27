# SPDX-License-Identifier: BSD-2-Clause
"""The disk is full, or has room for a few pages only: who asked is told, daemons go on, nothing acknowledged is lost.

The cluster's data lies on a small file system in memory, mounted where only this process and its children see it. It
is filled up to so many free pages, so that the lack is met at one write after the other.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.campaign.invariants import Invariants
from tests.campaign.killing import Cluster
from tests.campaign.load import Client, History
from tests.campaign.opcode import OP_ID
from tests.fakes.master_daemons import Master
from tests.system.test_campaign import make_master

from ganeti.base.errors import INTERNAL_ERROR

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root"),
]
NEW_MOUNTS = 0x00020000
PRIVATE = 0x40000 | 0x4000
SIZE = "4m"
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0}
FREE_PAGES = range(8)


def _libc(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


@contextlib.contextmanager
def mounted(directory: Path) -> Iterator[None]:
    """A small file system at *directory*, for this process and its children; all mounts are as before afterwards."""
    before = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    root, here = (os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in ("/", "."))
    try:
        _libc("unshare", NEW_MOUNTS)
        try:
            _libc("mount", b"none", b"/", None, PRIVATE, None)
            _libc("mount", b"tmpfs", os.fsencode(directory), b"tmpfs", 0, f"size={SIZE}".encode())
            yield
        finally:
            _libc("setns", before, NEW_MOUNTS)
            os.fchdir(root)  # coming back leads out of a changed root
            os.chroot(".")
            os.fchdir(here)
    finally:
        for descriptor in (before, root, here):
            os.close(descriptor)


class Disk:
    """The file system below a cluster's data, and what fills it."""

    def __init__(self, master: Master) -> None:
        self._ballast = f"{master.paths.data_dir}/ballast"

    def fill(self, free_pages: int = 0) -> None:
        """Leave only so many pages free."""
        with open(self._ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * PAGE_BYTES)
        os.truncate(self._ballast, max(0, os.path.getsize(self._ballast) - free_pages * PAGE_BYTES))

    def free(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._ballast)


class Bed:
    """A master on a small disk, and what it acknowledged."""

    def __init__(self, master: Master) -> None:
        self.master = master
        self.disk = Disk(master)
        self.traces = str(master.root / "traces")
        os.makedirs(self.traces)
        Path(f"{self.traces}/trace").touch()
        self.history = History()
        self.invariants = Invariants(Cluster(master), self.traces, self.history)
        self.client = Client(master, "nobody", self.traces, self.history)

    def counted(self, **more: object) -> dict:
        return {"OP_ID": OP_ID, "traces": self.traces, "marks": True, **more}

    def submit(self, *ops: dict) -> int | None:
        """Submit; None if it is refused, which must be said clearly."""
        success, answer = self.master.raw_luxi("SubmitJob", list(ops))
        if success:
            self.client.told.append(answer)
            return answer
        assert answer[0] == "JobQueueError" and "No space left" in answer[1][0], answer
        return None

    def ask(self, method: str, *arguments: object) -> object:
        """A call that works, or says in one sentence that there is no space."""
        success, answer = self.master.raw_luxi(method, *arguments)
        if not success:
            assert "No space left" in str(answer) and INTERNAL_ERROR not in str(answer), answer
        return answer if success else None

    def alive(self) -> None:
        for name, process in self.master.daemons.items():
            assert process.poll() is None, f"{name} has ended: {self.master.output(name)[-2000:]}"

    def check(self, *, restart: bool = False) -> None:
        """There is space again: everything goes on and nothing is lost.

        With *restart* LuxiD begins anew, which settles jobs whose end it could not write down.
        """
        self.disk.free()
        self.alive()
        if restart:
            self.master.kill("luxid", signal.SIGTERM)
            self.master.start("luxid")
        self.invariants.check([self.client])


@pytest.fixture(scope="module")
def bed(tmp_path_factory) -> Iterator[Bed]:
    master = make_master(tmp_path_factory.mktemp("disk") / "cluster")
    config_file = Path(master.paths.config_file)
    config = config_file.read_bytes()
    with mounted(config_file.parent):
        config_file.write_bytes(config)
        try:
            master.start("wconfd")
            master.start("luxid")
            yield Bed(master)
        finally:
            master.stop_all()


@pytest.fixture(autouse=True)
def space_again(bed) -> Iterator[None]:
    yield
    bed.disk.free()


@pytest.mark.parametrize("pages", FREE_PAGES)
def test_submission(bed, pages):
    bed.disk.fill(pages)
    for _ in range(6):
        bed.submit(DELAY)
        bed.ask("SubmitManyJobs", [[DELAY], [{**DELAY, "depends": [[-1, []]]}]])
    bed.alive()
    bed.check()


@pytest.mark.parametrize("pages", FREE_PAGES)
def test_jobs_that_change_the_configuration(bed, pages):
    """Begun while there is space, at work when there is none."""
    ids = [bed.submit(bed.counted(duration=0.05), bed.counted()) for _ in range(3)]
    bed.master.until(lambda: any(bed.master.file(each).status == "running" for each in ids), "a job runs")
    bed.disk.fill(pages)
    bed.submit(bed.counted())
    bed.submit(bed.counted())
    statuses = {each: bed.master.luxi("WaitForJobChange", each, ["status"], None, None, 0.5) for each in ids}
    assert all(statuses.values())
    bed.master.until(lambda: not bed.master.job_pids() or _waited(0.3), "they meet the lack")
    bed.alive()
    bed.check(restart=True)


def test_who_asks_why_a_job_does_not_end_is_told_of_the_disk(bed):
    job_id = bed.submit({**DELAY, "duration": 1.0})
    bed.master.until(lambda: bed.master.file(job_id).status == "running", "it runs")
    bed.disk.fill()

    def told() -> str:
        return str(bed.master.luxi("ExplainJob", job_id))

    bed.master.until(lambda: "waits to write down what it has done" in told(), "it meets the lack")
    assert "could not be written (No space left on device): see that the file system of" in told()
    bed.disk.free()
    assert bed.master.wait(job_id).status == "success"
    bed.check()


def _waited(seconds: float) -> bool:
    select.select([], [], [], seconds)
    return True


def test_requests(bed):
    ended = bed.submit(DELAY)
    bed.master.wait(ended)
    bed.disk.fill()
    assert bed.master.luxi("QueryJobs", [ended], ["status"]) == [["success"]]
    bed.ask("SetDrainFlag", True)
    bed.ask("SetDrainFlag", False)
    bed.ask("SetWatcherPause", 2**31)
    bed.ask("ArchiveJob", ended)
    bed.ask("AutoArchiveJobs", -1, 1)
    bed.alive()
    bed.disk.free()
    bed.master.luxi("SetDrainFlag", False)
    bed.master.luxi("SetWatcherPause", None)
    bed.check()


def test_a_cancel_that_was_acknowledged_stands(bed):
    holder = bed.submit(bed.counted(duration=2, marks=False))
    bed.master.until(lambda: bed.master.file(holder).status == "running", "it runs")
    queued = bed.submit(bed.counted(depends=[[holder, []]]))
    bed.disk.fill()
    answer = bed.ask("CancelJob", queued, False)
    bed.master.kill("luxid")
    bed.disk.free()
    bed.master.start("luxid")
    status = bed.master.wait(queued).status
    assert status == "canceled" or not (answer and answer[0]), f"{answer}, and then {status}"
    bed.check()


def test_a_result_that_could_not_be_written_is_written_later(bed):
    """What a job did must not be lost because the disk is full the moment it ends."""
    job_id = bed.submit(bed.counted(duration=0.2, marks=False))
    bed.master.until(lambda: bed.master.file(job_id).status == "running", "it runs")
    bed.disk.fill()
    _waited(0.8)
    bed.alive()
    bed.disk.free()
    assert bed.master.wait(job_id).status == "success"
    bed.check()


@pytest.mark.parametrize("name", ["wconfd", "luxid"])
def test_a_start_without_space(bed, name):
    """It serves, or says why not in one sentence; and with space again it starts."""
    job_id = bed.submit(bed.counted())
    bed.master.wait(job_id)
    bed.master.kill(name, signal.SIGKILL)
    bed.disk.fill()
    try:
        bed.master.start(name)
    except AssertionError as err:
        assert ("Traceback" not in str(err) and "No space left" in str(err)) or "disk is full" in str(err), err
        del bed.master.daemons[name]
        bed.disk.free()
        bed.master.start(name)
    bed.check()


def test_nothing_half_written_stays(bed):
    """Files begun and not finished are removed; those of killed processes are few and in nobody's way."""
    for pages in range(4):
        bed.disk.fill(pages)
        bed.submit(DELAY)
        bed.disk.free()
    bed.check()
    left = [path.name for path in Path(bed.master.paths.data_dir).rglob(".*.new")]
    assert not left
