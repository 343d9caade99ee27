# SPDX-License-Identifier: BSD-2-Clause
"""hbal beyond what it prints in the end (``test_outputs``): streams, interruption, what it cannot do."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ganeti.tools.htools.programs import hbal

CLUSTERS = Path(__file__).resolve().parents[4] / "golden" / "htools" / "clusters"
TAGGED = str(CLUSTERS / "tagged.data")


def test_an_unwritable_file_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("-C", "-S"):
        path = tmp_path / "missing" / "file"
        arguments = [f"{option}{path}"]
        assert hbal.main(["-t", TAGGED, "-q", *arguments]) == 1
        assert capsys.readouterr().err.splitlines()[-1].startswith(f"hbal: {path}")


def test_jobs_need_luxi(capsys: pytest.CaptureFixture[str]) -> None:
    assert hbal.main(["-t", TAGGED, "-q", "-X"]) == 1
    assert capsys.readouterr().err == "Error: hbal: Execution of commands possible only on LUXI\n"


def test_without_steps_there_is_nothing_to_execute(capsys: pytest.CaptureFixture[str]) -> None:
    assert hbal.main(["-t", TAGGED, "-q", "-X", "-l", "0"]) == 0
    assert capsys.readouterr().err == ""


RUN = "import sys; from ganeti.tools.htools.programs import hbal; sys.exit(hbal.main(sys.argv[1:]))"
PAUSING = """
import sys, threading
from ganeti.placement.balance import steps as real
from ganeti.tools.htools.programs import hbal
steps = real.balance
def balance(*arguments):
    found = steps(*arguments)
    for _ in range(int(sys.argv[1])):
        yield next(found)
    print('waiting', file=sys.stderr, flush=True)
    threading.Event().wait()
real.balance = balance
sys.exit(hbal.main(['-t', sys.argv[2], '-q']))
"""


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        (2, "Interrupted: the 2 steps found so far lower the score from 34.39870379 to 7.39596021."),
        (0, "Interrupted before a step was found."),
    ],
)
def test_ctrl_c_tells_what_was_found(steps: int, sentence: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PAUSING, str(steps), TAGGED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert process.stderr.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == f"{sentence}\n"
        assert process.stdout.read().count(" => ") == steps
    assert process.returncode == -signal.SIGINT


def test_each_step_is_out_before_the_next_is_sought() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PAUSING, "1", TAGGED], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert process.stderr.readline() == b"waiting\n"
        assert b"    1. old    node5:node3 => node2:node3" in os.read(process.stdout.fileno(), 4096)
        process.kill()


def test_a_reader_that_goes_away_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUN, "-t", TAGGED], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
