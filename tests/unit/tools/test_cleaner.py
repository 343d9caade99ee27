# SPDX-License-Identifier: BSD-2-Clause
"""What ganeti-cleaner removes on the master, on a candidate, and nowhere; and what it leaves."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti.base.paths import Paths
from ganeti.tools import cleaner

MASTER, OTHER = "node1.example.com", "node2.example.com"
OLD_S = 22 * 86400
FRESH_S = 20 * 86400


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Paths]:
    """A node of a cluster; by its name the master unless a test says otherwise."""
    found = Paths(str(tmp_path))
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path))
    monkeypatch.setenv("GANETI_HOSTNAME", MASTER)
    for key, value in (("cluster_name", "c"), ("master_node", MASTER)):
        put(found.ssconf_file(key), 0, f"{value}\n")
    yield found
    root = logging.getLogger()
    for handler in list(root.handlers):
        if getattr(handler, "path", "").startswith(str(tmp_path)):
            root.removeHandler(handler)
            handler.close()


def put(path: str, age_s: int, text: str = "x") -> str:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_text(text)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def left(paths: list[str]) -> list[str]:
    return [path for path in paths if os.path.exists(path)]


def jobs(paths: Paths) -> tuple[list[str], list[str]]:
    """Archived jobs that may go, and what stays."""
    archive = f"{paths.queue_dir}/archive"
    old = [put(f"{archive}/0/job-7", OLD_S), put(f"{archive}/1/job-10001", OLD_S)]
    kept = [put(f"{archive}/1/job-10002", FRESH_S), put(f"{archive}/1/notes", OLD_S)]
    return old, [*kept, put(f"{paths.queue_dir}/job-9", OLD_S), put(f"{paths.queue_dir}/serial", OLD_S)]


def test_the_master_removes_jobs_that_ended_three_weeks_ago_and_no_others(paths: Paths) -> None:
    old, kept = jobs(paths)
    assert cleaner.main(["node"]) == 0
    assert left(old) == old, "they are removed by the master's run"
    assert cleaner.main(["master"]) == 0
    assert (left(old), left(kept)) == ([], kept)


def test_a_candidate_removes_its_copies_and_is_no_master(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANETI_HOSTNAME", OTHER)
    old, kept = jobs(paths)
    assert cleaner.main(["master"]) == 0
    assert left(old) == old
    assert cleaner.main(["node"]) == 0
    assert (left(old), left(kept)) == ([], kept)


def test_a_node_forgets_what_the_watcher_told_long_ago_and_what_transfers_left(paths: Paths) -> None:
    names = [
        f"{paths.data_dir}/watcher.u1.data",
        f"{paths.data_dir}/watcher.u1.instance-status",
        f"{paths.run_dir}/instance-status.group-u1",
        f"{paths.run_dir}/crypto/x509-1/key",
        f"{paths.run_dir}/import-export/import-1",
        f"{paths.backup_files_dir}/1",
        f"{paths.backup_scratch_dir}/job-1/disk0.qcow2",
        f"{paths.backup_scratch_dir}/store/u/b1.new/disk0.0.index",
    ]
    old = [put(path, OLD_S) for path in names]
    for path in (f"{paths.run_dir}/crypto/x509-1", *(os.path.dirname(name) for name in names[-2:])):
        os.utime(path, (time.time() - OLD_S,) * 2)
    kept = [put(path.replace("1", "2"), FRESH_S) for path in names]
    kept += [put(f"{paths.data_dir}/{name}", OLD_S) for name in ("watcher.pause", "config.data", "queue/serial")]
    assert cleaner.main(["node"]) == 0
    assert (left(old), left(kept)) == ([], kept)


def test_what_cannot_be_removed_is_named_and_the_rest_goes(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, _ = jobs(paths)
    unlink = os.unlink

    def refuse(path: str) -> None:
        if path == old[0]:
            raise PermissionError(13, "Permission denied")
        unlink(path)

    monkeypatch.setattr(cleaner.os, "unlink", refuse)
    assert cleaner.main(["master"]) == 1
    assert left(old) == old[:1]
    assert capsys.readouterr().err == f"ganeti-cleaner: {old[0]} cannot be removed: Permission denied\n"


def test_fifty_logs_are_kept(paths: Paths) -> None:
    directory = f"{paths.log_dir}/cleaner"
    before = [put(f"{directory}/cleaner-2020-01-{number:02}T00_00_00.log", 0) for number in range(1, 61)]
    assert cleaner.main(["node"]) == 0
    logs = sorted(os.listdir(directory))
    assert len(logs) == 50
    assert left(before) == before[11:]
    assert "0 files of before" in Path(directory, logs[-1]).read_text()


def test_a_machine_of_no_cluster_is_left_alone(paths: Paths) -> None:
    old, _ = jobs(paths)
    os.unlink(paths.ssconf_file("cluster_name"))
    assert cleaner.main(["master"]) == cleaner.main(["node"]) == 0
    assert left(old) == old
    assert not os.path.exists(paths.log_dir)
