# SPDX-License-Identifier: BSD-2-Clause
"""The queue on disk: submission, serial, archive, and what a failed write leaves."""

import asyncio
import os
import threading

import pytest
from tests.fakes.wconfd import until

from ganeti.base.errors import JobFileCorrupted, JobQueueError
from ganeti.base.paths import Paths
from ganeti.luxid.queue.group_commit import GroupCommit
from ganeti.luxid.queue.scan import scan
from ganeti.stores.job_files import JobFiles, job_id_of
from ganeti.system.event_loop import Background
from ganeti.wire.job_file import JobFile, OpcodeEntry, encode


def job(job_id: int, status: str = "queued", **more: object) -> JobFile:
    return JobFile(id=job_id, ops=[OpcodeEntry(input={"OP_ID": "OP_TEST_DUMMY", **more}, status=status)])


@pytest.fixture
def paths(tmp_path):
    return Paths(str(tmp_path))


@pytest.fixture
def files(paths):
    files = JobFiles(paths)
    files.prepare()
    return files


def test_jobs_that_cannot_be_made_durable_are_not_there(files, monkeypatch):
    def fail(directory):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("ganeti.stores.job_files.sync_directory", fail)
    with pytest.raises(OSError, match="Input/output"):
        files.add([job(1), job(2)])
    assert files.ids() == [], "the next start would run what nobody was told of"


def test_jobs_being_written_count_as_jobs(tmp_path):
    async def go():
        writing, written = threading.Event(), threading.Event()

        def write(jobs):
            writing.set()
            written.wait(10)

        store = GroupCommit(write, lambda jobs: None, Background())
        first = asyncio.ensure_future(store.add([job(1), job(2)]))
        await asyncio.to_thread(writing.wait, 10)
        second = asyncio.ensure_future(store.add([job(3)]))
        await asyncio.sleep(0)
        pending = store.pending
        written.set()
        await asyncio.gather(first, second)
        return pending, store.pending

    assert asyncio.run(go()) == (3, 0)


def test_submission_and_serial(files):
    files.add([job(1), job(2)])
    assert files.ids() == [1, 2] and files.highest_id() == 2
    assert oct(os.stat(files.path(1)).st_mode & 0o777) == "0o600"
    with open(f"{files.directory}/version") as version, open(f"{files.directory}/serial") as serial:
        assert (version.read(), serial.read()) == ("1\n", "2\n")


def test_the_highest_id_is_found_wherever_it_is_written(files):
    files.add([job(12345)])
    os.unlink(f"{files.directory}/serial")
    assert files.highest_id() == 12345
    assert files.archive([12345, 999]) == 1
    assert files.highest_id() == 12345 and files.archived_ids() == [12345]
    assert files.archive_path(12345).endswith("/archive/1/job-12345")
    assert files.is_archived(12345) and files.read(12345).id == 12345


def test_a_batch_that_cannot_be_stored_leaves_nothing(files, monkeypatch):
    real = os.rename

    def rename(source, target):
        if target.endswith("job-2"):
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr("ganeti.stores.job_files.os.rename", rename)
    with pytest.raises(OSError, match="No space"):
        files.add([job(1), job(2), job(3)])
    assert files.ids() == [] and not [name for name in os.listdir(files.directory) if name.startswith(".job")]


def test_damaged_and_missing_files(files):
    assert files.read(7) is None
    with open(files.path(7), "w") as file:
        file.write("{")
    with pytest.raises(JobFileCorrupted, match="Job file 7"):
        files.read(7)


def test_a_restart_sets_damaged_files_aside_and_sorts_the_others(paths, files):
    files.add([job(1, "success"), job(2, depends=[[9, []]]), job(3, "running")])
    files.add([job(9, "error")])
    files.archive([9])
    with open(files.path(4), "wb") as file:
        file.write(encode(job(4))[:-5])
    found, ended, archived = scan(paths, files)
    assert [item.file.id for item in found] == [2, 3]
    assert [item[:2] for item in ended] == [(1, "success")] and archived == {9: "error"}
    assert os.path.exists(f"{files.directory}/damaged-job-4") and files.ids() == [1, 2, 3]


def test_drain_flag(files):
    assert not files.drained()
    files.set_drained(True)
    assert files.drained()
    files.set_drained(False)
    files.set_drained(False)
    assert not files.drained()


@pytest.mark.parametrize(
    ("name", "job_id"), [("job-7", 7), ("job-07", None), ("job-7.undo", None), (".job-7.new", None), ("serial", None)]
)
def test_names(name, job_id):
    assert job_id_of(name) == job_id


def test_what_comes_while_the_disk_is_busy_shares_the_next_round():
    rounds: list[list[int]] = []
    known: list[int] = []

    async def submit_all() -> None:
        tasks = Background()
        store = GroupCommit(
            lambda jobs: rounds.append([item.id for item in jobs]),
            lambda jobs: known.extend(item.id for item in jobs),
            tasks,
        )
        first = asyncio.ensure_future(store.add([job(1)]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.gather(first, *(store.add([job(number)]) for number in (2, 3, 4)))
        assert store.pending == 0

    asyncio.run(submit_all())
    assert [number for group in rounds for number in group] == known == [1, 2, 3, 4]
    assert len(rounds) == 2


def test_a_full_disk_is_told_to_everyone_of_the_round_and_to_nobody_later():
    def write(jobs):
        if jobs[0].id == 1:
            raise OSError(28, "No space left on device")

    async def submit_all() -> None:
        store = GroupCommit(write, lambda jobs: None, Background())
        with pytest.raises(JobQueueError, match="No space left"):
            await store.add([job(1)])
        await store.add([job(2)])

    asyncio.run(submit_all())


@pytest.mark.parametrize("at", ["write", "stored"])
def test_a_fault_of_ours_leaves_nobody_who_submits_without_an_answer(at):
    def fails(jobs):
        if jobs[0].id == 1:
            raise KeyError("a mistake")

    async def scenario():
        store = GroupCommit(
            fails if at == "write" else lambda jobs: None, fails if at == "stored" else lambda jobs: None, Background()
        )
        async with asyncio.timeout(5):
            with pytest.raises(JobQueueError, match="KeyError"):
                await store.add([job(1)])
            await store.add([job(2)])
        assert store.pending == 0

    asyncio.run(scenario())


def test_the_next_round_is_written_while_the_candidates_get_the_one_before():
    async def scenario():
        written: list[int] = []
        copied: dict[int, asyncio.Future[None]] = {}
        known: list[int] = []

        async def copy(jobs):
            copied[jobs[0].id] = asyncio.get_running_loop().create_future()
            await copied[jobs[0].id]

        store = GroupCommit(
            lambda jobs: written.extend(item.id for item in jobs),
            lambda jobs: known.extend(item.id for item in jobs),
            Background(),
            copy,
        )
        first = asyncio.ensure_future(store.add([job(1)]))
        await until(lambda: 1 in copied)
        second = asyncio.ensure_future(store.add([job(2)]))
        await until(lambda: 2 in copied)
        assert written == [1, 2] and known == [] and store.pending == 2 and not first.done()
        copied[1].set_result(None)
        await first
        assert known == [1] and store.pending == 1
        copied[2].set_exception(JobQueueError("the candidates cannot store it"))
        with pytest.raises(JobQueueError, match="the candidates cannot"):
            await second
        assert known == [1] and store.pending == 0

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_new_jobs_can_be_taken_back_and_their_ids_stay_used_up(files):
    files.add([job(1), job(2), job(3)])
    files.remove([2, 3, 4])
    assert files.ids() == [1] and files.highest_id() == 3


def test_what_lies_there_under_the_number_of_a_job_uses_it_up(files):
    for name in ("job-4.undo", ".job-9.new", ".job-11.undo.new", "damaged-job-7", "job-x", "job-"):
        with open(f"{files.directory}/{name}", "w"):
            pass
    assert files.highest_id() == 11


def test_what_was_never_finished_goes_but_for_what_is_written_now(files):
    files.add([job(1)])
    for name in (".job-2.new", ".job-3.new", ".job-4.undo.new", ".serial.x7.new", ".drain.new", ".other", "job-5.undo"):
        with open(f"{files.directory}/{name}", "w"):
            pass
    files.remove_strays([3])
    left = {name for name in os.listdir(files.directory) if name not in ("version", "serial", "archive")}
    assert left == {"job-1", ".job-3.new", ".other", "job-5.undo"}
