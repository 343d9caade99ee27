# SPDX-License-Identifier: BSD-2-Clause
"""What the benchmarks share: CPU and memory of processes, repeated runs, a report line, the peer if it is there.

Absolute times on a shared machine are noise: quote the ratio to the peer measured in the same run, CPU seconds, growth.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ganeti.tools.testbed.layout import Layout

TREE = Path(__file__).resolve().parent.parent
BIN = TREE / ".venv/bin"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
WATCHER_EVERY_S = 300
"""As cron calls it on a real node."""
PEER_NAMESPACE = os.environ.get("PEER_NETNS", "gntpeer")
PEER_PID = os.environ.get("PEER_PID", "")
PEER_ROOT = Path(os.environ.get("PEER_ROOT", "/var/tmp/peer-vcluster"))


@dataclass(frozen=True)
class Cost:
    """One command: wall seconds, and CPU seconds of itself and its children."""

    wall_s: float
    cpu_s: float


@contextlib.contextmanager
def precedence() -> Iterator[None]:
    """Processes begun meanwhile run before all others: for figures that are about an idle machine."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def run(*command: str, env: dict[str, str] | None = None) -> Cost:
    """Run a command to a successful end."""
    before = os.times()
    started_s = time.monotonic()
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    wall_s = time.monotonic() - started_s
    after = os.times()
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(wall_s, cpu_s)


def median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(cost.wall_s for cost in costs), statistics.median(cost.cpu_s for cost in costs))


def repeat(times: int, work: Callable[[int], Cost]) -> Cost:
    return median([work(index) for index in range(times)])


def cpu_s(pid: int) -> float:
    """CPU seconds a process and its ended children have used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(fields[index]) for index in (11, 12, 13, 14)) / TICKS_PER_S


@contextlib.contextmanager
def counted() -> Iterator[Callable[[], float]]:
    """Have the kernel count the CPU seconds of this process and of all that it begins meanwhile; gives the count.

    `cpu_s` and `run` count ticks of 10 ms: as many as a small command takes.
    """
    older = Path("/sys/fs/cgroup/cpuacct")
    above = older if older.is_dir() else Path("/sys/fs/cgroup")
    group = above / f"ganeti-bench-{os.getpid()}"
    group.mkdir()
    (group / "cgroup.procs").write_text("0")

    def count_s() -> float:
        if above == older:
            return int((group / "cpuacct.usage").read_text()) / 1e9
        return int((group / "cpu.stat").read_text().split()[1]) / 1e6

    try:
        yield count_s
    finally:
        (above / "cgroup.procs").write_text("0")
        for _ in range(50):
            with contextlib.suppress(OSError):  # what was killed may not have gone yet
                group.rmdir()
                break
            time.sleep(0.1)


def memory_mib(pid: int, *kinds: str) -> float:
    """Memory of a process, the named lines of its smaps_rollup together."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.partition(":")[0] in kinds) / 1024


def pss_mib(pid: int) -> float:
    return memory_mib(pid, "Pss")


def private_mib(pid: int) -> float:
    return memory_mib(pid, "Private_Clean", "Private_Dirty")


def processes(node_init_pid: int) -> dict[int, str]:
    """All processes in the pid namespace of a testbed node: pid -> command line."""
    wanted = os.stat(f"/proc/{node_init_pid}/ns/pid").st_ino
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if os.stat(entry / "ns/pid").st_ino == wanted:
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


def report(
    figure: str, value: float, unit: str, *, peer: float | None = None, bar: str = "", met: bool | None = None
) -> None:
    """One line for people; with ``--json``, one object for programs. *met* is the verdict where there is a bar."""
    if "--json" in sys.argv:
        print(json.dumps({"figure": figure, "value": value, "unit": unit, "peer": peer, "bar": bar, "met": met}))
        return
    line = f"{figure:<52} {value:>10.3f} {unit}"
    if peer is not None:
        line += f"   peer {peer:.3f} {unit}, ratio {peer / value if value else float('inf'):.1f}"
    if bar:
        line += f"   (bar: {bar}{'' if met is None else ', met' if met else ', MISSED'})"
    print(line, flush=True)


@contextlib.contextmanager
def testbed(hypervisor: str, nodes: int = 3) -> Iterator[Layout]:
    """A cluster of its own for one benchmark."""
    from ganeti.tools.testbed import bed, cluster

    directory = Path(tempfile.mkdtemp(prefix="bench-", dir="/var/tmp"))
    directory.rmdir()
    layout = bed.up(directory, nodes, hypervisor, watcher_interval_s=WATCHER_EVERY_S)
    try:
        cluster.create(layout)
        yield layout
    finally:
        bed.down(layout)


def peer_command(*command: str) -> list[str] | None:
    """The same command on the peer's master, where a peer cluster is up (see the peer's own scripts).

    With PEER_PID, the peer is installed where that process sees it: in a mount namespace whose root is an overlay, so
    that no other test meets its files.
    """
    files = f"/proc/{PEER_PID}/root" if PEER_PID else ""
    is_there = any(os.path.lexists(f"{files}/usr/{place}/{command[0]}") for place in ("sbin", "bin"))
    if not Path(f"/run/netns/{PEER_NAMESPACE}").exists() or not is_there:
        return None
    return [
        *(("nsenter", "-t", PEER_PID, "-m", "-r") if PEER_PID else ()),
        *("ip", "netns", "exec", PEER_NAMESPACE),
        *("env", f"PATH={PEER_ROOT}/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        *("GANETI_HOSTNAME=node1", f"GANETI_ROOTDIR={PEER_ROOT}/node1"),
        *command,
    ]


def peer_daemons_cpu_s() -> float:
    """CPU seconds of the peer's daemons and jobs, by the control group its scripts put them into.

    Jobs of the peer leave their daemon and end by themselves: no process has them among its children.
    """
    group = Path(f"/sys/fs/cgroup/cpuacct/{PEER_NAMESPACE}/cpuacct.usage")
    if group.exists():
        return int(group.read_text()) / 1e9
    done = subprocess.run(["ip", "netns", "pids", PEER_NAMESPACE], capture_output=True, text=True, check=True)
    return sum(cpu_s(int(pid)) for pid in done.stdout.split())


def peer(times: int, *command: str) -> Cost | None:
    words = peer_command(*command)
    return repeat(times, lambda _: run(*words)) if words is not None else None
