# SPDX-License-Identifier: BSD-2-Clause
"""The demo, told again and again beside a loop that keeps one core busy: how often it ends well, and what it leaves.

`--runs 30` as many times; `--delay-ms 500` with every node call held back by up to that; `--idle` without the loop.
After each run the machine must be as it was: no process, mount or control group of the run is left, and no new file in
/dev/shm or /run, so nobody else should be at work there.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import TREE, report

from ganeti.tools.testbed.layout import Layout

PLACE = Path("/var/tmp")
DIRECTORIES = "ganeti-demo-*"
IN_MEMORY = (Path("/dev/shm"), Path("/run"), Path("/run/netns"))
GROUPS = Path("/sys/fs/cgroup")
LEFT_WITHIN_S = 10.0
LOOK_EVERY_S = 0.2
LINES_SHOWN = 40


def in_memory() -> set[str]:
    """Files there have names of their makers' choice."""
    return {str(path) for place in IN_MEMORY if place.is_dir() for path in place.iterdir()}


def standing(directories: set[Path]) -> set[str]:
    """What there is of the testbeds that lie, or lay, in these directories."""
    names = {str(path) for path in directories}
    names |= {Layout(path, TREE, "kvm", 1).tag for path in directories}
    found = {f"directory {path}" for path in directories if path.exists()}
    found |= {f"mount {line}" for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    found |= {f"control group {group}" for group in GROUPS.glob("**/gnt-testbed-*")}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                mounts = (entry / "mountinfo").read_text()
                found.add(f"process {entry.name}: {words[:100]} {mounts}")
    return {thing.splitlines()[0] for thing in found if any(name in thing for name in names)}


def left_behind(directories: set[Path], before: set[str]) -> list[str]:
    """What is there, and was not before, when it does not go away by itself."""
    deadline_s = time.monotonic() + LEFT_WITHIN_S
    while (left := standing(directories) | (in_memory() - before)) and time.monotonic() < deadline_s:
        time.sleep(LOOK_EVERY_S)
    return sorted(left)


@contextlib.contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """Keep one core busy."""
    if not wanted:
        yield
        return
    loop = subprocess.Popen([sys.executable, "-IS", "-c", "while True: pass"])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def tell_once(number: int, options: argparse.Namespace) -> bool:
    """Tell the story; gives whether it ended well and left nothing."""
    words = ["make", "-s", "demo"]
    if options.delay_ms:
        words += [f"DELAY_MS={options.delay_ms}", f"DELAY_SEED={options.seed}-{number}"]
    others, before, own = set(PLACE.glob(DIRECTORIES)), in_memory(), set[Path]()
    begun_s = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        story = subprocess.Popen(words, cwd=TREE, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        while story.poll() is None:
            own |= set(PLACE.glob(DIRECTORIES)) - others
            time.sleep(LOOK_EVERY_S)
        took_s = time.monotonic() - begun_s
        output.seek(0)
        said = output.read().splitlines()
    left = left_behind(own, before)
    outcome = "FAILED" if story.returncode else "ended well" if own else "made no testbed"
    report(f"run {number}: {outcome}, {len(left)} things left", took_s, "s")
    if story.returncode:
        print("".join(f"    {line}\n" for line in said[-LINES_SHOWN:]), end="")
    for thing in left:
        print(f"    left: {thing}")
    return outcome == "ended well" and not left


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--delay-ms", type=int, default=0)
    parser.add_argument("--seed", default="demo")
    parser.add_argument("--idle", action="store_true", help="without the loop")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    with busy(not options.idle):
        well = sum(tell_once(number, options) for number in range(1, options.runs + 1))
    what = f"with node calls held back up to {options.delay_ms} ms" if options.delay_ms else "beside a busy core"
    report(f"the demo {what}, of {options.runs}", well, "well", bar=str(options.runs), met=well == options.runs)
    return 0 if well == options.runs else 1


if __name__ == "__main__":
    sys.exit(main())
