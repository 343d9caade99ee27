# SPDX-License-Identifier: BSD-2-Clause
"""The node set-up helpers as programs: standard input, exit status, words on standard error."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.paths import Paths
from ganeti.tools import node_cleanup, node_daemon_setup, prepare_node_join


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path))
    monkeypatch.setenv("GANETI_HOSTNAME", "node1")
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, module: Any, data: bytes, *arguments: str) -> int:
    stdin = io.TextIOWrapper(io.BytesIO(data))
    monkeypatch.setattr("sys.stdin", stdin)
    status: int = module.main(list(arguments))
    return status


@pytest.mark.parametrize("module", [prepare_node_join, node_daemon_setup])
def test_bad_input_is_one_sentence_and_status_one(
    module: Any, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, module, b"not json") == 1
    told = capsys.readouterr().err
    assert told.startswith(module.__name__.rpartition(".")[2].replace("_", "-"))
    assert told.count("\n") == 1
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("module", [prepare_node_join, node_daemon_setup])
def test_dry_run_says_so_and_changes_nothing(
    module: Any, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, module, json.dumps({"cluster_name": "cluster"}).encode(), "--dry-run") == 0
    assert "nothing was changed" in capsys.readouterr().err
    assert list(root.iterdir()) == []


def test_verbose_set_up_tells_what_it_does(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.dumps({"cluster_name": "cluster", "ssconf": {"cluster_name": "cluster"}}).encode()
    assert run(monkeypatch, node_daemon_setup, data, "-v") == 0
    assert "1 ssconf values" in capsys.readouterr().err
    assert (root / "var/lib/ganeti/ssconf_cluster_name").read_text() == "cluster\n"


def test_cleanup_wants_to_be_sure_and_keeps_a_copy(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir = root / "var/lib/ganeti"
    (data_dir / "queue").mkdir(parents=True)
    (data_dir / "queue/job-1").write_text("{}")
    (data_dir / "server.pem").write_text("key")
    (data_dir / "own").mkdir()
    given_up: list[bool] = []

    async def give_up(paths: Paths) -> None:
        given_up.append((data_dir / "server.pem").exists())

    monkeypatch.setattr(node_cleanup, "give_up_address", give_up)
    assert node_cleanup.main([]) == 1
    assert "--yes-do-it" in capsys.readouterr().err
    assert (data_dir / "server.pem").exists()
    monkeypatch.setattr(node_cleanup.Machine, "daemon_util", lambda self, *words, **_: None)
    assert node_cleanup.main(["--yes-do-it"]) == 0
    assert [path.name for path in data_dir.iterdir()] == ["own"]
    assert given_up == [True], "the address is named in a file that goes"
    [copy] = data_dir.parent.glob("ganeti-*.tar.gz")
    assert copy.stat().st_mode & 0o777 == 0o600
