# SPDX-License-Identifier: BSD-2-Clause
"""The file of a job after a loss of power at any moment: as it was when somebody could rely on it, or newer."""

import itertools
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.paths import Paths
from ganeti.luxid.queue.scan import scan
from ganeti.stores import job_files as job_files_module
from ganeti.stores.job_files import JobFiles
from ganeti.stores.job_files_reader import JobFilesReader
from ganeti.wire.job_file import JobFile, OpcodeEntry, decode

ZEROS = b"\0" * 100


def job(job_id: int, status: str = "queued", attempt: int = 0) -> JobFile:
    return JobFile(id=job_id, ops=[OpcodeEntry(input={"OP_ID": "OP_TEST_DUMMY"}, status=status)], attempt=attempt)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(str(tmp_path))


@pytest.fixture
def files(paths: Paths) -> JobFiles:
    files = JobFiles(paths)
    files.prepare()
    return files


def lost(files: JobFiles, job_id: int) -> None:
    """What a loss of power leaves of a file that was renamed into place without a sync."""
    Path(files.path(job_id)).unlink()
    Path(files.path(job_id)).write_bytes(ZEROS)


def names(files: JobFiles) -> set[str]:
    return {name for name in os.listdir(files.directory) if "job-" in name}


def test_a_job_that_was_accepted_is_there_after_a_loss_of_power(paths: Paths, files: JobFiles) -> None:
    files.add([job(1)])
    files.write(job(1, "waiting", 1), durable=False)
    files.write(job(1, "running", 1), durable=False)
    lost(files, 1)
    with JobFilesReader(files) as reader:
        for found in (files.read(1), reader.job(1)):
            assert found is not None and found.status == "queued"
    (found_again,), ended, _ = scan(paths, files)
    assert found_again.file.status == "queued" and not ended
    assert names(files) == {"job-1"}


def test_what_can_be_read_counts_and_is_durable_from_the_start_of_the_queue_on(
    paths: Paths, files: JobFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.add([job(1)])
    files.write(job(1, "waiting", 1), durable=False)
    synced: list[str] = []
    monkeypatch.setattr(job_files_module, "sync_file", synced.append)
    (found,), _, _ = scan(paths, files)
    assert found.file.status == "waiting" and names(files) == {"job-1"} and synced == [files.path(1)]
    files.write(job(1, "running", 1), durable=False)
    lost(files, 1)
    kept = files.read(1)
    assert kept is not None and kept.status == "waiting", "an older name would have taken the job back"


def test_a_durable_write_leaves_one_name(files: JobFiles) -> None:
    files.add([job(1)])
    files.write(job(1, "running", 1), durable=False)
    assert names(files) == {"job-1", ".job-1.durable"}
    files.write(job(1, "success", 1), durable=True)
    assert names(files) == {"job-1"}


def test_the_archive_takes_what_is_synced_and_an_empty_one_gives_no_number_twice(
    files: JobFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.add([job(1), job(2)])
    files.write(job(2, "error", 1), durable=False)
    synced: list[str] = []
    monkeypatch.setattr(job_files_module, "sync_file", synced.append)
    files.archive([2])
    assert synced == [files.path(2), f"{files.directory}/serial"]
    files.archive([1])
    assert len(synced) == 2, "the newest job was archived long before"
    assert names(files) == set() and files.highest_id() == 2


def test_left_over_names_bring_no_job_back(paths: Paths, files: JobFiles) -> None:
    files.add([job(1)])
    files.write(job(1, "running", 1), durable=False)
    os.rename(files.path(1), f"{files.archive_directory}/job-1")
    assert files.highest_id() == 1
    assert scan(paths, files)[0] == [] and names(files) == set()


def test_a_file_of_which_nothing_can_be_read_is_set_aside(paths: Paths, files: JobFiles) -> None:
    Path(files.path(1)).write_bytes(ZEROS)
    Path(files.durable_path(1)).write_bytes(b"{")
    assert scan(paths, files)[0] == [] and names(files) == {"damaged-job-1"}


@dataclass
class Drive:
    """Notes what reaches the disk, and in which order: names in theirs, contents with their sync."""

    changes: list[list[tuple[str, int | None]]] = field(default_factory=list)
    """Of the directory, each atomic: (name, number of a content) of all names it concerns."""
    arrived: int = 0
    contents: dict[int, bytes] = field(default_factory=dict)
    synced: set[int] = field(default_factory=set)
    now: dict[str, int] = field(default_factory=dict)
    moments: list[tuple[int, int, frozenset[int]]] = field(default_factory=list)

    def change(self, *entries: tuple[str, int | None]) -> None:
        self.changes.append(list(entries))
        for name, number in entries:
            if number is None:
                self.now.pop(name, None)
            else:
                self.now[name] = number
        self.moment()

    def moment(self) -> None:
        """The power may go now."""
        self.moments.append((self.arrived, len(self.changes), frozenset(self.synced)))

    def left(self, count: int, synced: frozenset[int]) -> dict[str, bytes]:
        found: dict[str, int] = {}
        for entries in self.changes[:count]:
            for name, number in entries:
                if number is None:
                    found.pop(name, None)
                else:
                    found[name] = number
        return {name: self.contents[number] if number in synced else ZEROS for name, number in found.items()}


@pytest.fixture
def drive(monkeypatch: pytest.MonkeyPatch) -> Drive:
    drive = Drive()
    numbers = itertools.count()
    base = os.path.basename
    real: dict[str, Any] = {"rename": os.rename, "link": os.link, "unlink": os.unlink}

    def write(path: str, data: bytes, *, durable: bool) -> None:
        Path(path).write_bytes(data)
        number = next(numbers)
        drive.contents[number] = data
        drive.change((base(path), number))
        if durable:
            drive.synced.add(number)
            drive.moment()

    def rename(source: str, target: str) -> None:
        real["rename"](source, target)
        drive.change((base(target), drive.now[base(source)]), (base(source), None))

    def link(source: str, target: str) -> None:
        real["link"](source, target)
        drive.change((base(target), drive.now[base(source)]))

    def unlink(path: str) -> None:
        real["unlink"](path)
        drive.change((base(path), None))

    def sync_file(path: str) -> None:
        drive.synced.add(drive.now[base(path)])
        drive.moment()

    def sync_directory(directory: str) -> None:
        drive.arrived = len(drive.changes)
        drive.moment()

    for name, stand_in in (("rename", rename), ("link", link), ("unlink", unlink)):
        monkeypatch.setattr(f"ganeti.stores.job_files.os.{name}", stand_in)
    monkeypatch.setattr(job_files_module, "_write_file", write)
    monkeypatch.setattr(job_files_module, "sync_file", sync_file)
    monkeypatch.setattr(job_files_module, "sync_directory", sync_directory)
    monkeypatch.setattr(job_files_module, "write_atomically", lambda *_, **__: None)
    monkeypatch.setattr(job_files_module, "write_over", lambda *_, **__: None)
    return drive


def _steps(choice: random.Random) -> Iterator[str]:
    yield "add"
    for _ in range(7):
        yield choice.choice(["soft", "soft", "hard", "restart"])


@pytest.mark.parametrize("seed", range(12))
def test_at_no_moment_is_anything_lost_that_somebody_could_rely_on(
    seed: int, files: JobFiles, drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relied_on: list[tuple[int, int]] = []
    """(moments until then, attempt that was durable)."""
    attempt = 0
    for step in _steps(random.Random(seed)):
        if step == "add":
            files.add([job(1)])
        elif step == "restart":
            files.mend()
            files.settle()
        else:
            attempt += 1
            files.write(job(1, "running", attempt), durable=step == "hard")
        if step in ("add", "hard"):
            relied_on.append((len(drive.moments), attempt))
    monkeypatch.undo()
    looked_at = 0
    for place, (arrived, made, synced) in enumerate(drive.moments):
        least = max((durable for since, durable in relied_on if since <= place + 1), default=None)
        for count in range(arrived, made + 1):
            directory = Path(Paths(str(tmp_path / f"{place}-{count}")).queue_dir)
            directory.mkdir(parents=True)
            for name, content in drive.left(count, synced).items():
                (directory / name).write_bytes(content)
            after = JobFiles(Paths(str(tmp_path / f"{place}-{count}")))
            after.mend()
            if least is not None:
                assert decode((directory / "job-1").read_bytes(), 1).attempt >= least, (place, count)
                assert after.read(1) is not None
                looked_at += 1
    assert looked_at > 20
