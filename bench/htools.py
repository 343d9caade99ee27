# SPDX-License-Identifier: BSD-2-Clause
"""The placement tools beside Debian's in one run: CPU seconds and memory, over the sizes of ``model_cluster``.

    .venv/bin/python bench/htools.py [PART…] [--no-peer] [--peer-limit S] [--json]

Parts: end (hbal to the end), move (hbal a move, and its growth), large (500x10000 to the end, 1000x20000 a move), hail
(the command), many (multi-allocate), worker (one mirrored pair over a cluster that is kept), small, start. All but
``large`` by default. The peer takes 100 CPU seconds a move at 200x4000; where it is stopped, the limit is a bound.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import model_cluster
from measure import BIN, TREE, report

PARTS: dict[str, Callable[[], None]] = {}
SIZES = ("20x200", "80x1000", "200x4000", "500x10000", "1000x20000")
PLACE = Path(tempfile.mkdtemp(prefix="bench-htools-"))
RUNS = 3


@dataclass(frozen=True)
class Run:
    """One run of a tool. *ended* is false when it was stopped at the limit."""

    cpu_s: float
    memory_mib: float
    output: str
    ended: bool = True


@dataclass(frozen=True)
class Moves:
    """CPU seconds of a move; a lower bound where the tool was stopped before it had made one."""

    each_s: float
    bound: bool = False


def part(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def register(function: Callable[[], None]) -> Callable[[], None]:
        PARTS[name] = function
        return function

    return register


def data(size: str, request: str = "", count: int = 10) -> Path:
    """The file of a cluster, made once."""
    path = PLACE / f"{size}-{request}{count if request == 'multi-allocate' else ''}"
    if not path.exists():
        model = model_cluster.build(size)
        path.write_text(model_cluster.to_message(model, request, count) if request else model_cluster.to_text(model))
    return path


def run(command: list[str], limit_s: float = 3600.0) -> Run:
    """Run a tool, to its end or until it has run for *limit_s*."""
    with tempfile.TemporaryFile() as output:
        started_s = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        ended, status, usage = 0, 0, None
        while not ended:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG if limit_s < math.inf else 0)
            if not ended and time.monotonic() - started_s > limit_s:
                process.send_signal(signal.SIGKILL)
                limit_s = math.inf
            elif not ended:
                time.sleep(min(0.05, limit_s / 100))
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"{' '.join(command)} ended with {process.returncode}: {text}")
    assert usage is not None
    return Run(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text, process.returncode == 0)


def ours(tool: str, *arguments: str, runs: int = RUNS, limit_s: float = 3600.0) -> Run:
    """The run of median CPU."""
    found = [run([str(BIN / tool), *arguments], limit_s) for _ in range(runs)]
    return sorted(found, key=lambda one: one.cpu_s)[len(found) // 2]


def peer(tool: str, *arguments: str, limit_s: float | None = None, runs: int = 1) -> Run | None:
    """The same with Debian's tools, if they can be had."""
    if "--no-peer" in sys.argv or not _peer_command:
        return None
    found = [run([*_peer_command, tool, *arguments], _limit_s if limit_s is None else limit_s) for _ in range(runs)]
    return sorted(found, key=lambda one: one.cpu_s)[len(found) // 2]


def find_peer() -> list[str]:
    if "--no-peer" in sys.argv:
        return []
    found = subprocess.run([TREE / "setup/peer-htools"], capture_output=True, text=True, check=False)
    if found.returncode:
        print(f"no peer to compare with: {found.stderr.strip()}", file=sys.stderr)
    return [found.stdout.strip()] if found.returncode == 0 else []


def moves(output: str) -> list[str]:
    return re.findall(r"^ +\d+\. .*$", output, re.MULTILINE)


def a_move(of: Callable[..., Run | None], size: str, count: int) -> Moves | None:
    """CPU of a move: what *count* moves take beyond reading and telling."""
    whole, none = of("hbal", "-t", str(data(size)), "-l", str(count)), of("hbal", "-t", str(data(size)), "-l", "0")
    if whole is None or none is None:
        return None
    done = len(moves(whole.output))
    return Moves((whole.cpu_s - none.cpu_s) / max(1, done), bound=not whole.ended and not done)


def figure(
    name: str, value: float, unit: str, bar: float, words: str, other: float | None = None, low: bool = True
) -> None:
    """Report with the verdict: at most *bar*, or at least where *low* is false."""
    report(name, value, unit, peer=other, bar=words, met=value <= bar if low else value >= bar)


@part("end")
def hbal_to_the_end() -> None:
    """20x200: the same moves and scores, at most 0.6 CPU s."""
    own, other = ours("hbal", "-t", str(data("20x200"))), peer("hbal", "-t", str(data("20x200")))
    figure("hbal to the end, 20x200", own.cpu_s, "s", 0.6, "0.6 s", other.cpu_s if other else None)
    report("  memory", own.memory_mib, "MiB", peer=other.memory_mib if other else None)
    if other:
        same = sum(a == b for a, b in zip(moves(own.output), moves(other.output), strict=False))
        count = len(moves(other.output))
        report("  moves with the same text and score", same, "moves", bar=f"all {count}", met=same == count)


@part("move")
def hbal_a_move() -> None:
    """80x1000 and 200x4000 against the peer, and how time grows with size."""
    bars = {"80x1000": (300.0, 1000.0), "200x4000": (600.0, 2000.0)}
    points: list[tuple[int, float]] = []
    others: list[tuple[int, float]] = []
    for size, count in (("20x200", 20), ("80x1000", 40), ("200x4000", 40), ("500x10000", 30), ("1000x20000", 15)):
        own = a_move(lambda *words: ours(*words), size, count)
        assert own is not None
        points.append((_instances(size), own.each_s))
        other = a_move(peer, size, {"20x200": 10, "80x1000": 2}.get(size, 1)) if _instances(size) <= 4000 else None
        report(f"hbal a move, {size}", 1000 * own.each_s, "ms", peer=1000 * other.each_s if other else None)
        if other:
            others.append((_instances(size), other.each_s))
            if size in bars:
                least, goal = bars[size]
                ratio = other.each_s / own.each_s
                words = f"{least:.0f} times, {goal:.0f} the goal"
                figure(f"  times faster{', at least' if other.bound else ''}", ratio, "x", least, words, low=False)
    for name, found in (("ours", points), ("peer", others)):
        for (small, before), (large, after) in itertools.pairwise(found):
            report(
                f"  growth of a move, {name}, {small} to {large} instances", exponent(small, before, large, after), ""
            )


def _instances(size: str) -> int:
    return int(re.sub(r"^\d+x|u\d+$", "", size))


def exponent(small: int, before_s: float, large: int, after_s: float) -> float:
    """The power of the number of instances that time grows with."""
    return math.log(max(after_s, 1e-9) / max(before_s, 1e-9)) / math.log(large / small)


@part("large")
def hbal_on_large_clusters() -> None:
    """500x10000 to the end within ten minutes and 2 GB; 1000x20000 at most 1.5 s a move."""
    whole = ours("hbal", "-t", str(data("500x10000")), runs=1)
    figure("hbal to the end, 500x10000", whole.cpu_s, "s", 600, "600 s")
    figure("  memory", whole.memory_mib, "MiB", 2048, "2,048 MiB")
    report("  moves", len(moves(whole.output)), "moves")
    own = a_move(lambda *words: ours(*words, runs=1), "1000x20000", 20)
    assert own is not None
    figure("hbal a move, 1000x20000", own.each_s, "s", 1.5, "1.5 s")


@part("hail")
def hail_command() -> None:
    """500x10000u30: a quarter of the peer for allocate, half for the others; and how each grows."""
    for request, share in (("allocate", 0.25), ("relocate", 0.5), ("node-evacuate", 0.5)):
        points = []
        for size in ("20x200u30", "80x1000u30", "200x4000u30", "500x10000u30"):
            own, other = ours("hail", str(data(size, request))), peer("hail", str(data(size, request)), runs=RUNS)
            points.append((_instances(size), own.cpu_s))
            report(f"hail {request}, {size}", own.cpu_s, "s", peer=other.cpu_s if other else None)
            if other and size == "500x10000u30":
                figure("  share of the peer's", own.cpu_s / other.cpu_s, "", share, f"{share}")
                report("  memory", own.memory_mib, "MiB", peer=other.memory_mib)
                same = own.output == other.output
                report("  the same answer", float(same), "", bar="yes", met=same)
        (small, before), (large, after) = points[-2:]
        report(f"  growth, {small} to {large} instances", exponent(small, before, large, after), "")


@part("many")
def multi_allocate() -> None:
    """500x10000u30: 10 instances within 1 s, 100 within 3 s."""
    for count, bar in ((10, 1.0), (100, 3.0)):
        own = ours("hail", str(data("500x10000u30", "multi-allocate", count)))
        other = peer("hail", str(data("500x10000u30", "multi-allocate", count)), limit_s=60) if count == 10 else None
        figure(
            f"hail multi-allocate of {count}, 500x10000u30",
            own.cpu_s,
            "s",
            bar,
            f"{bar:.0f} s",
            other.cpu_s if other else None,
        )


@part("worker")
def worker() -> None:
    """One mirrored pair over a cluster that is kept, 1,000 nodes and 20,000 instances: at most 5 ms."""
    from ganeti.placement.dispatch import answer_over
    from ganeti.placement.kernel.state import ClusterState
    from ganeti.placement.request.reading import read_cluster, read_request
    from ganeti.placement.request.terms import Options, Placement

    points = []
    for size in ("200x4000u30", "500x10000u30", "1000x20000u30"):
        message = json.loads(data(size, "allocate").read_text())
        state, request = ClusterState(read_cluster(message)), read_request(message["request"])
        spent = []
        for _ in range(9):
            started_s = time.process_time()
            found = answer_over(state, request, Options(why=False))
            spent.append(1000 * (time.process_time() - started_s))
            assert isinstance(found, Placement), found
        points.append((_instances(size), statistics.median(spent)))
        if size.startswith("1000x"):
            figure(f"one mirrored pair over a kept {size}", points[-1][1], "ms", 5, "5 ms")
        else:
            report(f"one mirrored pair over a kept {size}", points[-1][1], "ms")
    (small, before), (large, after) = points[-2:]
    report(f"  growth, {small} to {large} instances", exponent(small, before, large, after), "")


@part("small")
def small_clusters() -> None:
    """Any tool on 20 nodes: at most 0.15 CPU s."""
    for tool in ("hinfo", "hcheck"):
        words = ["-t", str(data("20x200u30"))] + (["--no-simulation"] if tool == "hcheck" else [])
        own, other = ours(tool, *words, runs=5), peer(tool, *words, runs=3)
        figure(
            f"{' '.join([tool, *words[2:]])}, 20x200u30", own.cpu_s, "s", 0.15, "0.15 s", other.cpu_s if other else None
        )
    words = ["-t", str(data("20x200u30")), "-l", "3"]
    own, other = ours("hbal", *words), peer("hbal", *words)
    figure("hbal -l 3, 20x200u30", own.cpu_s, "s", 0.15, "0.15 s", other.cpu_s if other else None)
    for request in ("allocate", "relocate", "node-evacuate", "multi-allocate"):
        path = str(data("20x200u30", request))
        own, other = ours("hail", path, runs=5), peer("hail", path, runs=3)
        figure(f"hail {request}, 20x200u30", own.cpu_s, "s", 0.15, "0.15 s", other.cpu_s if other else None)


@part("start")
def start_up() -> None:
    """``--version`` and ``--help``: at most 0.04 CPU s."""
    for tool in ("hbal", "hail", "hinfo", "hcheck"):
        for option in ("--version", "--help"):
            own, other = ours(tool, option, runs=7), peer(tool, option, runs=5)
            figure(f"{tool} {option}", own.cpu_s, "s", 0.04, "0.04 s", other.cpu_s if other else None)


def main() -> None:
    chosen = [word for word in sys.argv[1:] if word in PARTS]
    try:
        for name in chosen or [name for name in PARTS if name != "large"]:
            PARTS[name]()
    finally:
        clean()


def clean() -> None:
    """Remove the files that were made."""
    for path in PLACE.iterdir():
        path.unlink()
    PLACE.rmdir()


_limit_s = float(sys.argv[sys.argv.index("--peer-limit") + 1]) if "--peer-limit" in sys.argv else 300.0
_peer_command = find_peer()

if __name__ == "__main__":
    main()
