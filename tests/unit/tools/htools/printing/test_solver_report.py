# SPDX-License-Identifier: BSD-2-Clause
"""``hbal --solver``: what it prints, progress on a terminal, and an interrupt that gives the best so far."""

import io
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ganeti.placement.balance.plan_price import Price, price_of_hop
from ganeti.placement.cluster.picture import Instance
from ganeti.tools.htools.printing.progress import Progress
from ganeti.tools.htools.printing.solver_report import clock
from ganeti.tools.htools.programs import hbal

TAGGED = str(Path(__file__).resolve().parents[4] / "golden" / "htools" / "clusters" / "tagged.data")
SCORE = re.compile(r"Cluster score improved from \S+ to (\S+)")
LENGTH = re.compile(r"Solution length=(\d+)")


def said(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert hbal.main(["-t", TAGGED, *options]) == 0
    return capsys.readouterr().out


def found(pattern: re.Pattern[str], text: str) -> float:
    match = pattern.search(text)
    assert match, text
    return float(match[1])


def test_it_is_no_worse_and_says_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    usual, own = said(capsys), said(capsys, "--solver")
    assert found(SCORE, own) <= found(SCORE, usual)
    assert found(LENGTH, own) <= found(LENGTH, usual)
    for word in ("Plan: ", "Time: ", "Bound: no plan gets below "):
        assert sum(line.startswith(word) for line in own.splitlines()) == 1
        assert word not in usual


def test_a_faster_link_takes_less_time(capsys: pytest.CaptureFixture[str]) -> None:
    slow, fast = (said(capsys, "--solver", f"--link-speed={mbit}") for mbit in (10, 10000))
    times = [re.search(r"Time: (\S+ \S+) one move", text) for text in (slow, fast)]
    assert times[0]
    assert times[1]
    assert times[0][1].endswith(("h", "min"))
    assert times[1][1].endswith("s")


@pytest.mark.parametrize("speed", ["0", "-3", "Infinity", "NaN"])
def test_a_link_carries_something(speed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        hbal.main(["-t", TAGGED, f"--link-speed={speed}"])
    assert left.value.code == 1
    assert "link" in capsys.readouterr().err


INTERRUPTED = """
import sys
from ganeti.placement.balance import solver
from ganeti.tools.htools.programs import hbal
rounds = solver.Solver._rounds
def interrupted(self):
    rounds(self)
    raise KeyboardInterrupt
solver.Solver._rounds = interrupted
sys.exit(hbal.main(['-t', sys.argv[1], '--solver']))
"""


def test_an_interrupt_prints_the_best_so_far() -> None:
    run = subprocess.run([sys.executable, "-c", INTERRUPTED, TAGGED], capture_output=True, text=True, check=False)
    steps = run.stdout.count(" => ")
    assert steps > 0
    last = run.stderr.splitlines()[-1]
    assert re.fullmatch(rf"Interrupted: the {steps} steps found so far lower the score from \S+ to \S+\.", last)
    assert run.returncode == -signal.SIGINT


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_that_is_left_empty() -> None:
    now_s, terminal = [0.0], Terminal()
    progress = Progress(terminal, lambda: now_s[0])
    progress.tell("too early")
    now_s[0] = 1.5
    progress.tell("first")
    progress.tell("too soon after it")
    now_s[0] = 3.0
    progress.tell("second" * 100)
    progress.end()
    shown = terminal.getvalue().split("\r\x1b[K")
    assert shown[:2] == ["", "first"]
    assert shown[2].startswith("secondsecond")
    assert len(shown[2]) < 600
    assert shown[3] == ""
    assert "\n" not in terminal.getvalue()


def test_nothing_is_told_to_what_is_no_terminal() -> None:
    stream = io.StringIO()
    progress = Progress(stream, iter([0.0, 9.0, 18.0]).__next__)
    progress.tell("words")
    progress.end()
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("kind", "dead", "price"),
    [
        ("f", False, Price(0, 100)),
        ("f", True, Price(0, 0)),
        ("fa", False, Price(0, 100)),
        ("r", False, Price(7, 0)),
        ("r", True, Price(7, 0)),
        ("rf", False, Price(7, 100)),
        ("frf", False, Price(7, 200)),
        ("frf", True, Price(7, 100)),
        ("fr", True, Price(7, 0)),
    ],
)
def test_each_move_has_its_price(kind: str, dead: bool, price: Price) -> None:
    assert price_of_hop(Instance("one", 100, 7, 1, "drbd"), kind, from_dead_primary=dead) == price


def test_times_are_rounded_as_people_do() -> None:
    assert [clock(seconds) for seconds in (0, 59.4, 61, 7200)] == ["0 s", "59 s", "1 min", "2.0 h"]


def test_a_mebibyte_over_a_megabit() -> None:
    assert Price(1000, 0).seconds(8.388608) == pytest.approx(1000)
