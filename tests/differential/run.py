# SPDX-License-Identifier: BSD-2-Clause
"""Compares the tools over seeds: ``python -m tests.differential.run SEEDS [--tools A,B] [--drawing KIND]``."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.differential import dedicated_cases, odd_requests, other_cases, replay, third_cases
from tests.differential.cases import TOOLS, Case, cases
from tests.differential.differences import crashed, differences
from tests.differential.execution import Outcome, execute, ours, peer

DRAWINGS = {
    "usual": cases,
    "other": other_cases.cases,
    "third": third_cases.cases,
    "odd": odd_requests.cases,
    "dedicated": dedicated_cases.cases,
}
"""How a seed becomes cases: several authors' notions of a cluster and of what is asked about it."""
KNOWN_TOOLS = {
    "usual": TOOLS,
    "other": other_cases.TOOLS,
    "third": third_cases.TOOLS,
    "odd": odd_requests.TOOLS,
    "dedicated": dedicated_cases.TOOLS,
}


def compare(case: Case, place: Path) -> list[str]:
    """Run both sides below *place*; nothing, or what is wrong. A peer that takes too long is not compared with."""
    theirs = execute([*peer()[0], case.tool], case, place / "peer")
    own = execute(ours(case.tool), case, place / "ours")
    found = _faults_of_plan(case, theirs, own) if case.tool == "hbal" and case.cluster.nodes else []
    return found if theirs.exit is None or crashed(theirs) else found + differences(case, theirs, own)


def _faults_of_plan(case: Case, theirs: Outcome, own: Outcome) -> list[str]:
    found = replay.faults(case, own.stdout)
    reached, goal = replay.final_score(own.stdout), replay.final_score(theirs.stdout)
    if theirs.exit is not None and goal is not None and (reached is None or reached > goal):
        found.append(f"the peer reaches {goal}, ours {reached}")
    return found


def seeds_of(text: str) -> list[int]:
    """``7`` or ``1-20``."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def look(seed: int, tools: list[str], keep: Path, drawing: str = "usual") -> list[str]:
    """Compare every tool for one seed; keeps the files of what differs, and says where."""
    told = []
    for tool, case in zip(tools, DRAWINGS[drawing](seed, tools), strict=False):
        place = Path(tempfile.mkdtemp(prefix="htools-"))
        try:
            found = compare(case, place)
            if found:
                kept = keep / f"{drawing}-{seed}-{tool}"
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(place, kept)
                text = "\n".join([f"cd {kept}/peer && {case.command(peer()[0])}", *found])
                (kept / "README").write_text(text + "\n")
                told.append(text)
        finally:
            shutil.rmtree(place)
    return told


def _shortened(text: str) -> str:
    return "\n".join(line if len(line) < 400 else f"{line[:380]}[…]" for line in text.splitlines()[:40])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", type=seeds_of, help="one, or FIRST-LAST")
    parser.add_argument("--tools", help="separated by commas; all there are")
    parser.add_argument("--drawing", choices=DRAWINGS, default="usual")
    parser.add_argument("--keep", type=Path, default=Path("/tmp/htools-differences"))
    chosen = parser.parse_args()
    if not peer()[0]:
        print(peer()[1], file=sys.stderr)
        return 2
    known = KNOWN_TOOLS[chosen.drawing]
    tools, differing = chosen.tools.split(",") if chosen.tools else list(known), 0
    for seed in chosen.seeds:
        told = look(seed, tools, chosen.keep, chosen.drawing)
        differing += bool(told)
        for text in told:
            print(f"seed {seed}: {_shortened(text)}\n", flush=True)
    print(f"{differing} of {len(chosen.seeds)} seeds differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
