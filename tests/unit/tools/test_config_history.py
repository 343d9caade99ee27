# SPDX-License-Identifier: BSD-2-Clause
"""What an object was, from the commits that are kept; what is not kept is said, never guessed."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.wconfd import GOLDEN

from ganeti.base.errors import PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.base.terminal import SPEAKER
from ganeti.cli.commands.cluster import copies
from ganeti.master.config.importing import read_foreign
from ganeti.master.config.records import Commit, make_put
from ganeti.model.objects import Backups
from ganeti.stores.config_store import SqliteStore
from ganeti.tools import config_history
from ganeti.tools.cluster_backup import command as backup_command
from ganeti.tools.take_over import command as take_over

WEB1 = "00000040-0000-4000-8000-000000000040"
INSTANCE = ("instances", WEB1)


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[Paths]:
    made = Paths(str(tmp_path))
    Path(made.data_dir).mkdir(parents=True)
    store = SqliteStore(made.config_database)
    store.commit([read_foreign(GOLDEN.read_bytes(), "", None, 5.0).commit])
    loaded = store.load()
    assert loaded is not None
    web = loaded.config.instance(WEB1)
    fresh = replace(web, uuid="uuid-new", name="new", serial_no=1)
    steps = [
        Commit((1, 43), 1000.0, (make_put("instances", WEB1, replace(web, serial_no=8, tags=["a"])),)),
        Commit((1, 44), 2000.0, (make_put("instances", "uuid-new", fresh),)),
        Commit(
            (1, 45),
            3000.0,
            (make_put("instances", WEB1, replace(web, serial_no=9, tags=["a", "b"], osparams_private={"pw": "x"})),),
        ),
        Commit((1, 46), 4000.0, (), (("instances", "uuid-new"),)),
    ]
    store.commit(steps)
    yield made
    store.close()


def test_each_commit_is_a_line_with_what_it_changed(paths: Paths) -> None:
    past = config_history.read(paths)
    name = past.present[INSTANCE]["name"]
    found = [line.split(" ", 2)[2] for line in config_history.lines(past, [], 0)]
    assert found[0] == f"1.43 instance {name}: changed"
    assert found[1] == "1.44 instance new: added"
    assert found[2] == f'1.45 instance {name}: osparams_private.pw=<hidden>, tags=["a", "b"]'
    assert found[3] == "1.46 instance new: removed"
    assert len(config_history.lines(past, [], 2)) == 2
    assert len(config_history.lines(past, past.keys_of("new"), 0)) == 2


def test_of_dictionaries_only_what_differs_is_shown(tmp_path: Path) -> None:
    """What the cluster notes of its backups is no change that anybody made, and keys are nobody's to read."""
    made = Paths(str(tmp_path))
    Path(made.data_dir).mkdir(parents=True)
    store = SqliteStore(made.config_database)
    store.commit([read_foreign(GOLDEN.read_bytes(), "", None, 5.0).commit])
    loaded = store.load()
    assert loaded is not None
    cluster, notes = loaded.config.cluster, Backups(keys={"a1": "00" * 32})
    renewed = replace(notes, keys=notes.keys | {"b2": "ff" * 32}, serial_no=2)
    done = replace(renewed, done={"create x": 9.0}, tried={"create x": 8.0}, serial_no=3)
    ndparams = {"spindle_count": 1, "ssh_port": 22}
    steps = [
        (make_put("cluster", "cluster", replace(cluster, ndparams={**ndparams, "cpu_speed": 2.0})),),
        (make_put("cluster", "cluster", replace(cluster, ndparams=ndparams | {"ssh_port": 23})),),
        (make_put("backups", "backups", notes),),
        (make_put("backups", "backups", renewed),),
        (make_put("backups", "backups", done),),
    ]
    store.commit([Commit((1, 50 + number), 9.0, puts) for number, puts in enumerate(steps)])
    store.close()
    past = config_history.read(made)
    found = [line.split(" ", 2)[2] for line in config_history.lines(past, [], 0)]
    assert found[1:] == [
        "1.51 cluster: ndparams.ssh_port=23, ndparams.cpu_speed removed",
        "1.52 backups: added",
        "1.53 backups: keys.b2=<hidden>",
    ]
    assert config_history.lines(past, past.keys_of("backups"), 0)[-1].endswith(
        "1.54 backups: tried.create x=8.0, done.create x=9.0"
    )


def test_what_an_object_was(paths: Paths) -> None:
    past = config_history.read(paths)
    at = lambda time_s: past.at(INSTANCE, time_s)  # noqa: E731
    assert (at(1500.0) or {})["tags"] == ["a"]
    assert (at(3000.0) or {})["tags"] == ["a", "b"]
    with pytest.raises(PrerequisiteError, match="is not kept: commits are since"):
        at(999.0)
    new = ("instances", "uuid-new")
    assert past.at(new, 1500.0) is None
    assert (past.at(new, 2500.0) or {})["name"] == "new"
    assert past.at(new, 4500.0) is None
    cluster = past.keys_of("cluster")[0]
    assert past.at(cluster, 1.0) == past.present[cluster], "nothing has changed it since"


def test_the_command(paths: Paths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GANETI_ROOTDIR", paths.root)
    assert config_history.main(["--at", "3500", WEB1]) == 0
    out = capsys.readouterr().out
    assert '"<hidden>"' in out and '"b"' in out
    assert config_history.main(["new"]) == 0
    assert config_history.main(["--at", "4500", "new"]) == 0
    assert "did not exist" in capsys.readouterr().out
    for words in (["nobody"], ["--at", "3500"], ["--at", "yesterday", "new"], ["--at", "10", WEB1]):
        assert config_history.main(words) == 1
    monkeypatch.setenv("GANETI_ROOTDIR", "/nowhere")
    assert config_history.main([]) == 1


@pytest.mark.parametrize(
    ("handler", "values"),
    [
        (copies.history, {"objects": ["nobody"]}),
        (copies.undo, {"commit": "x"}),
        (copies.restore, {"path": "/nowhere"}),
        (copies.shadow, {"directory": "/nowhere"}),
    ],
)
def test_as_gnt_cluster_their_errors_begin_as_those_of_commands(
    paths: Paths,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    handler: Callable[[Any], Any],
    values: dict[str, Any],
) -> None:
    mains = {"config-history": config_history.main, "cluster-backup": backup_command.main, "take-over": take_over.main}
    monkeypatch.setenv("GANETI_ROOTDIR", paths.root)
    monkeypatch.setenv(SPEAKER, "")
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    monkeypatch.setattr(os, "execv", lambda path, words: sys.exit(mains[os.path.basename(path)](words[1:])))
    with pytest.raises(SystemExit) as ended:
        handler(SimpleNamespace(values=values, get=values.get))
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("Failure: ")


def test_times_as_people_write_them() -> None:
    assert config_history.read_time("1000") == 1000.0
    assert config_history.read_time("2026-11-25 21:44") + 16 == config_history.read_time("2026-11-25 21:44:16")
