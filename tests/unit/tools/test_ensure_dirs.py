# SPDX-License-Identifier: BSD-2-Clause
"""ensure-dirs: makes and mends, changes nothing the second time, leaves job files to a full run."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ganeti.base.paths import Paths
from ganeti.system.accounts import rules, wrong
from ganeti.tools.ensure_dirs import ensure, main


def mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_all_directories_are_made_whatever_the_umask(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path))
    before = os.umask(0o077)
    try:
        ensure(paths)
    finally:
        os.umask(before)
    for rule in rules(paths):
        if rule.is_directory:
            assert mode(rule.path) == rule.mode, rule.path
    assert ensure(paths) == []


def test_modes_of_files_are_mended(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path))
    ensure(paths)
    for path in (paths.hmac_key, paths.ssconf_file("master_node")):
        Path(path).touch(0o666)
        os.chmod(path, 0o666)
    assert sorted(ensure(paths)) == sorted((paths.hmac_key, paths.ssconf_file("master_node")))
    assert mode(paths.hmac_key) == 0o440
    assert mode(paths.ssconf_file("master_node")) == 0o444
    assert list(wrong(paths)) == []


def test_job_files_are_for_a_full_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = Paths(str(tmp_path))
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path))
    assert main([]) == 0
    archive = f"{paths.queue_dir}/archive/0"
    os.mkdir(archive, 0o755)
    jobs = (f"{paths.queue_dir}/job-12", f"{archive}/job-3")
    for job in jobs:
        Path(job).touch(0o640)
    assert main([]) == 0
    assert {mode(job) for job in jobs} == {0o640}
    assert main(["--full-run"]) == 0
    assert {mode(job) for job in jobs} == {0o600}
    assert mode(archive) == 0o700


def test_a_directory_that_cannot_be_made_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path))
    (tmp_path / "var").touch()
    assert main([]) == 1
    assert capsys.readouterr().err.startswith("ensure-dirs: ")


def test_nobody_is_led_elsewhere_by_a_link(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path))
    ensure(paths)
    target = tmp_path / "target"
    target.touch(0o600)
    os.symlink(target, paths.hmac_key)
    assert ensure(paths) == []
    assert mode(str(target)) == 0o600
