# SPDX-License-Identifier: BSD-2-Clause
"""hspace beyond what it prints in the end (``test_outputs``): progress, interruption, units, limits."""

import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ganeti.tools.htools.command_line.option_values import size_mib
from ganeti.tools.htools.printing.progress import Progress
from ganeti.tools.htools.programs import hspace

CLUSTER = ("--simulate", "p,4,100g,16g,8", "--disk-template=plain")
INTERRUPTED = """
import sys
from ganeti.placement.capacity.count import Allocation
from ganeti.tools.htools.programs import hspace
{patch}
def interrupted(self, *rest):
    before(self, *rest)
    raise KeyboardInterrupt
Allocation.{method} = interrupted
sys.exit(hspace.main(sys.argv[1:]))
"""


def interrupt_after(method: str) -> subprocess.CompletedProcess[str]:
    code = INTERRUPTED.format(patch=f"before = Allocation.{method}", method=method)
    return subprocess.run([sys.executable, "-c", code, *CLUSTER], capture_output=True, text=True, check=False)


def test_an_interrupt_prints_the_best_so_far() -> None:
    run = interrupt_after("fill_tiered")
    words = run.stderr.splitlines()
    assert words[0].startswith("Interrupted: tiered allocation found room for ")
    total = int(words[0].split()[6])
    assert total == sum(int(line.split()[1]) for line in words[1:]) > 0
    assert all("instances of spec MEM " in line for line in words[1:])
    assert run.returncode == -signal.SIGINT
    assert "initial instances on the cluster." in run.stdout


def test_an_interrupt_at_first_says_so() -> None:
    run = interrupt_after("__init__")
    assert run.stderr == "Interrupted before anything was found.\n"
    assert run.returncode == -signal.SIGINT


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_told_on_a_terminal_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, now_s = Terminal(), iter(range(10**6))
    monkeypatch.setattr(hspace, "Progress", lambda: Progress(terminal, lambda: float(next(now_s))))
    assert hspace.main([*CLUSTER, "-l", "3"]) == 0
    assert "Standard allocation: 3 instances so far" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_limit_of_nothing_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    """3.0.2 ends with an internal error there."""
    assert hspace.main([*CLUSTER, "-l", "0"]) == 0
    assert "  - no instances allocated\n" in capsys.readouterr().out


TWO_RANGES = """default|u|preferred||

node1|65536|0|65536|1048576|1048576|64|M|u
node2|65536|0|65536|1048576|1048576|64|N|u



|512,1,1024,1,1,1|128,1,1024,1,1,1;512,1,2048,1,1,1;1024,1,1024,1,1,1;2048,1,2048,1,1,1|plain|4.0|32.0
default|512,1,1024,1,1,1|128,1,1024,1,1,1;512,1,2048,1,1,1;1024,1,1024,1,1,1;2048,1,2048,1,1,1|plain|4.0|32.0
"""


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_limit_is_one_for_all_ranges_of_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str], limit: int) -> None:
    (tmp_path / "cluster").write_text(TWO_RANGES)
    arguments = ["-t", str(tmp_path / "cluster"), "--disk-template=plain", "--machine-readable"]
    assert hspace.main([*arguments, "-l", str(limit)]) == 0
    said = capsys.readouterr().out
    assert f"\nHTS_TSPEC='512,2048,1,1={limit}'\n" in said
    assert f"\nHTS_TRL_INST_CNT={limit}\n" in said


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000m", 1000), ("1000M", 953), ("10g", 10240), ("10G", 9536), ("10Gb", 9536), ("10GIB", 10240), ("1T", 953674)],
)
def test_single_capital_letters_are_decimal_units(text: str, size: int) -> None:
    assert size_mib(text, "size") == size
