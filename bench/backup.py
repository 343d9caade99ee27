# SPDX-License-Identifier: BSD-2-Clause
"""Copying the disks of a running guest for its backup, beside a plain copy of the same image in the same run.

How long the guest does not answer pings meanwhile (bar: 100 ms), and the rate against that of `cp`.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from measure import report
from tests.real.kvm_lab import GUEST_ADDRESS, Lab

from ganeti.tools.testbed import guest

NAME = "copied"
SIZE_MIB = 512
ROUNDS = 3
PING_S = 0.02
MIB = 1024 * 1024


def filled(lab: Lab) -> Path:
    """The guest's disk, with data that is nowhere zero."""
    path = Path(lab.directory) / f"{NAME}.img"
    with path.open("wb") as image:
        for _ in range(SIZE_MIB):
            image.write(os.urandom(MIB))
    return path


def copy_rate(source: Path, target: Path) -> float:
    """MiB a second of `cp`, as far as the page cache."""
    begun_s = time.monotonic()
    subprocess.run(["cp", "--sparse=never", "--reflink=never", source, target], check=True)
    return SIZE_MIB / (time.monotonic() - begun_s)


def longest_gap_s(answers: str) -> float:
    numbers = [int(number) for number in re.findall(r"seq=(\d+)", answers)]
    return max(late - early for early, late in pairwise(numbers)) * PING_S


def measure(lab: Lab) -> None:
    disk, target = filled(lab), Path(lab.directory) / "copy"
    node = lab.nodes[0]
    lab.start(node, lab.instance(NAME))
    node.wait_console(NAME, "BOOTED-OK")
    node.wait_beats(NAME, 2)
    plain, live, gaps = [], [], []
    for _ in range(ROUNDS):
        plain.append(copy_rate(disk, target))
        target.write_bytes(b"")
        words = ["nsenter", f"--net=/run/netns/{node.namespace}", "busybox", "ping", "-i", str(PING_S), GUEST_ADDRESS]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as pinging:
            time.sleep(0.5)
            begun_s = time.monotonic()
            node.call("copy_disks", name=NAME, paths=[str(target)])
            live.append(SIZE_MIB / (time.monotonic() - begun_s))
            pinging.send_signal(2)
            gaps.append(longest_gap_s(pinging.communicate()[0]))
    ratio = statistics.median(live) / statistics.median(plain)
    report(f"copying a disk of {SIZE_MIB} MiB with cp", statistics.median(plain), "MiB/s")
    report("the same of a running guest, by its QEMU", statistics.median(live), "MiB/s")
    report("running guest to cp", ratio, "times")
    worst_ms = max(gaps) * 1000
    report(f"longest time without an answer, {ROUNDS} copies", worst_ms, "ms", bar="100 ms", met=worst_ms <= 100)
    node.call("stop", name=NAME, timeout_s=0)


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="bench-", dir="/var/tmp"))
    image = guest.ensure()
    lab = Lab(directory / "lab", image)
    try:
        lab.open()
        measure(lab)
    finally:
        lab.close()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
