# SPDX-License-Identifier: BSD-2-Clause
"""How much fits, which order to reboot in, what to switch off, what is unhealthy: CPU seconds beside Debian's tools.

    .venv/bin/python bench/capacity.py [PART…] [--no-peer] [--peer-limit S] [--json]

Parts: space (hspace of the models, tiered and standard), drawn (hspace on the small clusters of the differential runs),
upkeep (hroller, hcheck with simulation, hsqueeze at 200x4000). The peer needs about 22 s for hspace at 80x1000u30.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import htools
from measure import BIN, TREE, report

DRAWN = range(20)
"""Seeds of ``tests/differential``."""
UPKEEP_BAR_S = 5.0


def beside(name: str, arguments: tuple[str, ...], bar_s: float, with_peer: bool, exits: tuple[int, ...] = (0,)) -> None:
    """Report a tool's CPU seconds against a bar."""
    own = least(str(BIN / arguments[0]), arguments[1:], exits)
    other = htools.peer(*arguments) if with_peer and exits == (0,) else None
    htools.figure(name, own, "s", bar_s, f"{bar_s:g} s", other.cpu_s if other else None)


def least(program: str, arguments: tuple[str, ...], exits: tuple[int, ...] = (0,), runs: int = 3) -> float:
    """The least CPU seconds of some runs: what others do beside it only adds to them."""
    return min(cpu_s([program, *arguments], exits) for _ in range(runs))


def cpu_s(command: list[str], exits: tuple[int, ...], place: Path | None = None) -> float:
    before = os.times()
    done = subprocess.run(command, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    after = os.times()
    if done.returncode not in exits:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return after.children_user + after.children_system - before.children_user - before.children_system


def space() -> None:
    """20x200 at most 0.4 s for any template; 80x1000u30 at least 50 times the peer; 500x10000u30 at most 20 s."""
    for template in ("drbd", "plain", "rbd"):
        words = ("-t", str(htools.data("20x200")), f"--disk-template={template}")
        beside(f"hspace {template}, 20x200", ("hspace", *words), 0.4, with_peer=template == "drbd")
    words = ("-t", str(htools.data("80x1000u30")), "--disk-template=drbd")
    own, other = least(str(BIN / "hspace"), words), htools.peer("hspace", *words)
    report("hspace drbd, 80x1000u30", own, "s", peer=other.cpu_s if other else None)
    if other:
        htools.figure("  times faster", other.cpu_s / own, "x", 50, "50 times", low=False)
    words = ("-t", str(htools.data("500x10000u30")), "--disk-template=drbd")
    beside("hspace drbd, 500x10000u30", ("hspace", *words), 20, with_peer=False)


def drawn() -> None:
    """Small clusters: at most 0.15 s each."""
    sys.path.insert(0, str(TREE))
    from tests.differential.cases import cases

    worst = (0.0, 0)
    for seed in DRAWN:
        (case,) = cases(seed, ["hspace"])
        with tempfile.TemporaryDirectory() as place:
            for name, content in case.files.items():
                (Path(place) / name).write_text(content)
            command = [str(BIN / "hspace"), *case.arguments]
            worst = max(worst, (min(cpu_s(command, (0, 1), Path(place)) for _ in range(2)), seed))
    htools.figure(f"hspace, slowest of {len(DRAWN)} small clusters (seed {worst[1]})", worst[0], "s", 0.15, "0.15 s")


def upkeep() -> None:
    """At most 5 s each at 200x4000."""
    for size in ("200x4000", "200x4000u30"):
        path = str(htools.data(size))
        beside(f"hroller, {size}", ("hroller", "-t", path), UPKEEP_BAR_S, with_peer=False)
        beside(f"hsqueeze, {size}", ("hsqueeze", "-t", path), UPKEEP_BAR_S, with_peer=False)
        beside(f"hcheck with simulation, {size}", ("hcheck", "-t", path), UPKEEP_BAR_S, with_peer=False, exits=(0, 1))


PARTS: dict[str, Callable[[], None]] = {"space": space, "drawn": drawn, "upkeep": upkeep}


def main() -> None:
    chosen = [word for word in sys.argv[1:] if word in PARTS]
    try:
        for name in chosen or PARTS:
            PARTS[name]()
    finally:
        htools.clean()


if __name__ == "__main__":
    main()
