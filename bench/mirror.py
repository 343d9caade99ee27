# SPDX-License-Identifier: BSD-2-Clause
"""Mirrored disks between two nodes on loopback, over TLS, beside a plain file in the same run.

4k writes at depth 1 and 16 (bar: 3 times the plain file), the longest write while the secondary hangs (2 s), memory of
a disk's processes (25 MB), CPU of an idle disk, what is copied after 1 % has changed (1.5 %).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from measure import report
from tests.real.mirror_lab import MIB, Guest, Pair, run, status, wait_until

from ganeti.model.node_requests import DiskSpec

ROUNDS = 5
COUNTS = {1: 1500, 16: 12000}
SIZE_MIB = 256
STALLS = 5
IDLE_S = 10.0
_TICKS = os.sysconf("SC_CLK_TCK")


def write_us(target: list[str], depth: int) -> float:
    """Microseconds a write of 4k takes, one after the other or many at once."""
    words = [
        "qemu-img",
        "bench",
        "-w",
        "-t",
        "none",
        "-f",
        "raw",
        "-c",
        str(COUNTS[depth]),
        "-d",
        str(depth),
        "-s",
        "4k",
    ]
    done = subprocess.run([*words, *target], capture_output=True, text=True, check=True)
    found = re.search(r"completed in ([0-9.]+) seconds", done.stdout)
    assert found is not None, done.stdout
    return float(found[1]) / COUNTS[depth] * 1e6


def report_writes(pair: Pair, disk: DiskSpec, plain: Path) -> None:
    mirrored = [pair.one.url(disk)]
    for depth in COUNTS:
        pairs = [(write_us([str(plain)], depth), write_us(mirrored, depth)) for _ in range(ROUNDS)]
        file_us, mirror_us = (statistics.median(values) for values in zip(*pairs, strict=True))
        report(f"4k write, depth {depth}, plain file", file_us, "us")
        report(f"4k write, depth {depth}, mirror", mirror_us, "us", bar="3 times the plain file")
        report(f"mirror to plain file, depth {depth}", mirror_us / file_us, "times", bar="3")


def report_stalls(pair: Pair, disk: DiskSpec) -> None:
    """The secondary's storage daemon is stopped in the midst of writing."""
    longest = 0.0
    for _ in range(STALLS):
        hanging = pair.two.storage_daemons()[0]
        guest = Guest(pair.one, disk)
        assert guest.write(0, 1)
        os.kill(hanging, signal.SIGSTOP)
        begun = time.monotonic()
        for number in range(1, 50):
            assert guest.write(number * 4096, number)
            longest = max(longest, time.monotonic() - begun)
            begun = time.monotonic()
        wait_until(lambda: status(pair.one, disk).is_degraded, "the loss is seen")
        os.kill(hanging, signal.SIGCONT)
        guest.end()
        pair.wait_equal(disk, pair.one)
    report(f"longest write while the secondary hangs, {STALLS} times", longest, "s", bar="2 s")


def report_resync(pair: Pair, disk: DiskSpec) -> None:
    """The secondary's storage daemon stands still while 1 % changes: what it is sent then."""
    guest = Guest(pair.one, disk)
    hanging = pair.two.storage_daemons()[0]
    os.kill(hanging, signal.SIGSTOP)
    changed = SIZE_MIB * MIB // 100
    for offset in range(0, changed, 65536):
        assert guest.write(offset, 7, 65536)
    wait_until(lambda: status(pair.one, disk).is_degraded, "the loss is seen")
    before = written_bytes(hanging)
    os.kill(hanging, signal.SIGCONT)
    pair.wait_equal(disk, pair.one)
    copied = written_bytes(hanging) - before
    guest.end()
    assert pair.are_equal(disk)
    report("copied after 1 % changed", 100.0 * copied / (SIZE_MIB * MIB), "%", bar="1.5 %")


def written_bytes(process_id: int) -> int:
    found = re.search(r"^write_bytes: (\d+)", Path(f"/proc/{process_id}/io").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def report_idle(pair: Pair) -> None:
    assert pair.one.daemon is not None
    own, mirrord = pair.one.storage_daemons()[0], pair.one.daemon.pid
    before = cpu_s(own), cpu_s(mirrord)
    time.sleep(IDLE_S)
    after = cpu_s(own), cpu_s(mirrord)
    report("storage daemon of a disk, PSS", pss_mib(own), "MiB", bar="25 MB with its part of ganeti-mirrord")
    report("ganeti-mirrord of the node, PSS", pss_mib(mirrord), "MiB")
    for name, begun, ended in zip(("storage daemon", "ganeti-mirrord"), before, after, strict=True):
        report(f"CPU of an idle disk, {name}", 100 * (ended - begun) / IDLE_S, "% of a core")


def pss_mib(process_id: int) -> float:
    found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{process_id}/smaps_rollup").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def cpu_s(process_id: int) -> float:
    words = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS


@contextlib.contextmanager
def beside_file() -> Iterator[tuple[Path, Pair, DiskSpec, Path]]:
    """A directory, two nodes, an open mirrored disk between them, and a plain file of its size."""
    root = Path(tempfile.mkdtemp(prefix="gntm", dir="/var/tmp"))
    pair = Pair(root)
    try:
        disk = pair.opened(pair.disk(size_mib=SIZE_MIB))
        plain = root / "plain"
        plain.write_bytes(b"")
        os.truncate(plain, SIZE_MIB * MIB)
        yield root, pair, disk, plain
    finally:
        pair.close()
        shutil.rmtree(root)


def main() -> None:
    with beside_file() as (_, pair, disk, plain):
        report_writes(pair, disk, plain)
        pair.wait_equal(disk, pair.one)
        report_stalls(pair, disk)
        report_resync(pair, disk)
        report_idle(pair)
        for node in pair.nodes:
            run(node.driver.deactivate(disk))


if __name__ == "__main__":
    main()
