# SPDX-License-Identifier: BSD-2-Clause
"""Tags on real daemons: commands, the configuration they end in, and who else sees them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.master_daemons import HOST, Master, running_master

pytestmark = [pytest.mark.daemons]
OTHER = "node2.example.com"


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    with running_master(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def run(master: Master, program: str, *words: str, status: int = 0, typed: str = "") -> str:
    """Run a command; gives what it printed, on standard error if it fails."""
    start = f"import sys; sys.argv[0] = {program!r}; from ganeti.cli.main import run; sys.exit(run({program!r}))"
    done = subprocess.run(
        [sys.executable, "-c", start, *words],
        env=master.environment,
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if status else done.stdout


def config(master: Master) -> dict:
    return json.loads(Path(master.paths.config_file).read_text())


def ssconf(master: Master, key: str) -> str:
    return Path(f"{master.paths.data_dir}/ssconf_{key}").read_text()


def test_what_a_command_did_is_there_when_it_returns(master: Master) -> None:
    assert run(master, "gnt-cluster", "add-tags", "--from", "-", "b", "a", typed="c\n") == ""
    assert run(master, "gnt-cluster", "list-tags") == "a\nb\nc\n"
    assert config(master)["cluster"]["tags"] == ["a", "b", "c"]
    assert ssconf(master, "cluster_tags") == "a\nb\nc\n"
    assert master.luxi("QueryClusterInfo")["tags"] == ["a", "b", "c"]
    run(master, "gnt-cluster", "add-tags", "a", "b")
    run(master, "gnt-cluster", "remove-tags", "b")
    assert run(master, "gnt-cluster", "list-tags") == "a\nc\n"
    assert ssconf(master, "cluster_tags") == "a\nc\n"
    run(master, "gnt-cluster", "remove-tags", "a", "c")
    assert (run(master, "gnt-cluster", "list-tags"), ssconf(master, "cluster_tags")) == ("", "")


@pytest.mark.requirement("S1.6")
def test_groups_and_nodes(master: Master) -> None:
    run(master, "gnt-group", "add-tags", "default", "rack:7")
    run(master, "gnt-node", "add-tags", "node2", "rack:7", "slow")
    run(master, "gnt-node", "add-tags", HOST, "fast")
    assert run(master, "gnt-node", "list-tags", "node2") == "rack:7\nslow\n"
    assert run(master, "gnt-group", "list-tags", "default") == "rack:7\n"
    listed = run(master, "gnt-group", "list", "--no-headers", "--separator=;", "-o", "name,node_cnt,tags")
    assert listed == "default;2;rack:7\n"
    rows = master.luxi("Query", "node", ["name", "tags"], ["=[]", "tags", "slow"])["data"]
    assert rows == [[[0, OTHER], [0, ["rack:7", "slow"]]]]
    assert run(master, "gnt-cluster", "search-tags", "^rack:|^fa") == (
        f"/nodegroup/default rack:7\n/nodes/{HOST} fast\n/nodes/{OTHER} rack:7\n"
    )
    assert run(master, "gnt-cluster", "search-tags", "nothing", status=1) == ""
    run(master, "gnt-node", "remove-tags", OTHER, "slow", "rack:7")
    run(master, "gnt-node", "remove-tags", HOST, "fast")
    run(master, "gnt-group", "remove-tags", "default", "rack:7")
    assert run(master, "gnt-cluster", "search-tags", ".", status=1) == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("gnt-node", "add-tags", HOST, "good", "b d"), "Failure: invalid tag(s) given:\nTag 'b d' contains invalid"),
        (("gnt-node", "add-tags", HOST, "good", ""), "Tags cannot be empty"),
        (("gnt-node", "add-tags", "nosuch", "a"), "Node 'nosuch' not known: there are node1"),
        (("gnt-node", "remove-tags", HOST, "a", "b"), "Tag(s) 'a', 'b' not found: node1.example.com has no such tag"),
        (("gnt-instance", "list-tags", "nosuch"), "Instance 'nosuch' not known"),
        (("gnt-network", "add-tags", "nosuch", "a"), "Network 'nosuch' not known"),
        (("gnt-cluster", "search-tags", "("), "Invalid search pattern '('"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence_and_changes_nothing(
    master: Master, words: tuple[str, ...], sentence: str
) -> None:
    before = config(master)["serial_no"]
    assert sentence in run(master, *words, status=1)
    assert config(master)["serial_no"] == before


def test_tags_outlive_the_daemons(master: Master) -> None:
    run(master, "gnt-cluster", "add-tags", "lasting")
    for name in ("luxid", "wconfd"):
        master.kill(name)
    for name in ("wconfd", "luxid"):
        master.start(name)
    assert run(master, "gnt-cluster", "list-tags") == "lasting\n"
    run(master, "gnt-cluster", "remove-tags", "lasting")


def test_a_tag_waits_for_who_has_locked_its_object(master: Master) -> None:
    delay = {"OP_ID": "OP_TEST_DELAY", "duration": 3600.0, "on_nodes": [HOST], "no_locks": False}
    holder = master.submit(delay)
    master.until(lambda: master.luxi("QueryJobs", [holder], ["status"]) == [["running"]], "the holder runs")
    try:
        waiting = master.submit({"OP_ID": "OP_TAGS_SET", "kind": "node", "name": HOST, "tags": ["held"]})
        master.until(lambda: master.waits_for_locks(waiting), "the job waits")
        run(master, "gnt-cluster", "add-tags", "free")
        assert master.luxi("QueryTags", "node", HOST) == []
    finally:
        assert master.luxi("CancelJob", holder, True)[0]
    assert master.wait(waiting).status == "success"
    assert master.luxi("QueryTags", "node", HOST) == ["held"]
    run(master, "gnt-node", "remove-tags", HOST, "held")
    run(master, "gnt-cluster", "remove-tags", "free")
