# SPDX-License-Identifier: BSD-2-Clause
"""Plans carried out by jobs: what is submitted, in which order, and how it ends; as seen of Debian's hbal."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.luxi_master import FakeMaster, fake_master, instance, node

from ganeti.base.errors import TransportError
from ganeti.tools.htools.haskell.failures import ToolError
from ganeti.tools.htools.programs import execution, hbal
from ganeti.tools.htools.programs.execution import JobSet, Origin

ORIGIN = Origin("hbal", "rebalancing via", "why", "low")
SETS = [
    JobSet("first", [[{"OP_ID": "OP_A"}, {"OP_ID": "OP_B"}], [{"OP_ID": "OP_C"}]]),
    JobSet("second", [[{"OP_ID": "OP_D"}]]),
]
RUN = "import sys; from ganeti.tools.htools.programs import hbal; sys.exit(hbal.main(sys.argv[1:]))"


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    monkeypatch.setattr(execution, "STOP_FILE", str(tmp_path / "stop"))
    monkeypatch.setattr(execution, "_FIRST_POLL_S", 0.001)
    nodes = [node(f"n{number}.x") for number in range(1, 9)]
    instances = [instance(f"a{number}.x", "n1.x", "n2.x") for number in (1, 2)]
    instances += [instance(f"b{number}.x", "n5.x", "n6.x") for number in (1, 2)]
    with fake_master(tmp_path / "socket", nodes, instances) as found:
        yield found


def run(master: FakeMaster) -> None:
    execution.execute(str(master.path), SETS, ORIGIN)


def test_a_set_is_submitted_when_the_one_before_has_ended(master: FakeMaster, capsys: Any) -> None:
    master.statuses = {101: ["queued", "running", "success"], 102: ["success"]}
    run(master)
    assert capsys.readouterr().out == "Got job IDs 101,102\nGot job IDs 103\n"
    calls = [method for method, _ in master.asked]
    assert calls == ["SubmitManyJobs", "QueryJobs", "QueryJobs", "QueryJobs", "SubmitManyJobs", "QueryJobs"]
    assert [[[op["OP_ID"] for op in job] for job in jobs] for jobs in master.submitted] == [
        [["OP_A", "OP_B"], ["OP_C"]],
        [["OP_D"]],
    ]


def test_every_opcode_tells_where_it_comes_from(master: FakeMaster) -> None:
    run(master)
    for opcode in (op for jobs in master.submitted for job in jobs for op in job):
        assert opcode["comment"] == "rebalancing via hbal (ganeti) version 3.1.0"
        assert opcode["priority"] == 10
        ((source, reason, moment_ns),) = opcode["reason"]
        assert (source, reason) == ("hbal", "why")
        assert moment_ns > 10**18
    plain = Origin("hbal", "rebalancing via").told_by({}, 5)
    assert plain["reason"] == [["hbal", "hbal (ganeti) version 3.1.0 called", 5]]
    assert plain["priority"] == 0
    unnamed = Origin("hsqueeze", "condensing by 3 nodes", named=False).told_by({}, 5)
    assert unnamed["comment"] == "condensing by 3 nodes (ganeti) version 3.1.0"


@pytest.mark.parametrize(
    ("status", "results", "sentence"),
    [
        ("error", [None, ["OpExecError", ["Disk is gone"]]], "job 102 (error: Disk is gone)"),
        ("canceled", [], "job 102 (canceled)"),
        (None, None, "job 102 (gone)"),
    ],
)
def test_nothing_follows_a_job_that_failed(master: FakeMaster, status: str, results: Any, sentence: str) -> None:
    master.statuses[102] = [status]
    master.results[102] = results
    with pytest.raises(ToolError) as caught:
        run(master)
    assert str(caught.value) == f"hbal: Not all jobs completed successfully: {sentence}\nAborting."
    assert len(master.submitted) == 1


def test_a_refused_job(master: FakeMaster) -> None:
    master.answers["SubmitManyJobs"] = lambda _: (True, [[True, 7], [False, "Queue drained"]])
    with pytest.raises(ToolError, match="refused a job: Queue drained; submitted were: 7"):
        run(master)


@pytest.mark.parametrize("answer", [None, 5, [[1]], [["x", "y"]]])
def test_a_daemon_that_speaks_nonsense(master: FakeMaster, answer: Any) -> None:
    master.answers["SubmitManyJobs"] = lambda _: (True, answer)
    with pytest.raises(TransportError, match="cannot be understood"):
        run(master)


def test_looking_outlives_a_restart_of_the_daemon(master: FakeMaster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ganeti.tools.htools.programs.session._RETRY_S", 0.001)

    def once(_: Any) -> Any:
        del master.answers["QueryJobs"]
        raise OSError  # ends the connection without an answer

    master.answers["QueryJobs"] = once
    run(master)
    assert len(master.submitted) == 2


def test_the_stop_file_ends_it_before_the_next_set(master: FakeMaster, capsys: Any) -> None:
    def touched(arguments: list[Any]) -> tuple[bool, Any]:
        Path(execution.STOP_FILE).touch()
        return True, [["success"]] * len(arguments[0])

    master.answers["QueryJobs"] = touched
    run(master)
    said = capsys.readouterr().out
    assert said.startswith(f"Got job IDs 101,102\nExiting early due to the file {execution.STOP_FILE},\n")
    assert said.endswith("1 jobset(s) submitted:\n  first\n1 jobset(s) not submitted:\n  second\n")
    assert len(master.submitted) == 1


def test_hbal_submits_its_steps(master: FakeMaster, capsys: Any) -> None:
    assert hbal.main([f"-L{master.path}", "-q", "-X", "-l2"]) == 0
    assert capsys.readouterr().out.endswith("Got job IDs 101,102\n")
    (jobs,) = master.submitted
    assert {job[0]["instance_name"][0] for job in jobs} == {"a", "b"}


def test_hbal_submits_the_first_set_alone(master: FakeMaster) -> None:
    assert hbal.main([f"-L{master.path}", "-q", "-X", "-l4", "--first-job-group"]) == 0
    assert len(master.submitted) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals(master: FakeMaster, number: int) -> None:
    """Ctrl-C lets the set end; SIGTERM ends the tool, and leaves the jobs to the daemon."""
    process: subprocess.Popen[str]

    def while_it_runs(arguments: list[Any]) -> tuple[bool, Any]:
        process.send_signal(number)
        if number == signal.SIGTERM:
            process.wait(20)
        else:
            assert process.stdout is not None
            said.append(process.stdout.readline())
            while "Cancel" not in said[-1]:
                said.append(process.stdout.readline())
        return True, [["success"]] * len(arguments[0])

    said: list[str] = []
    master.answers["QueryJobs"] = while_it_runs
    with subprocess.Popen(
        [sys.executable, "-c", RUN, f"-L{master.path}", "-X", "-l4"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        process.wait(60)
        assert process.stdout is not None
        said.append(process.stdout.read())
    assert len(master.submitted) == 1
    if number == signal.SIGTERM:
        assert process.returncode == execution.EXIT_TERMINATED
        assert said[-1].endswith("Got job IDs 101,102\n")
    else:
        assert process.returncode == 0
        assert "1 jobset(s) submitted:\n  Executing jobset for instances " in said[-1]
