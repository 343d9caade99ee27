# SPDX-License-Identifier: BSD-2-Clause
"""Kills daemons and jobs of a one-node cluster: whom and when follows from a seed, or from a named pause point.

After each blow the daemon that died is started again, as the watcher would.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from tests.campaign.load import History
from tests.fakes.master_daemons import Master, children_of

SOURCES = Path(__file__).resolve().parents[2] / "src/ganeti"
STEPS = 4
DELAY_LONGEST_S = 0.15
AWAIT_STOP_S = 1.5


def pause_points(*modules: str) -> list[str]:
    """Names given to `reach` in modules of ``ganeti``; numbered ones stand for their first steps."""
    found: list[str] = []
    for module in modules:
        for name in re.findall(r'\breach\(f?"([^"]+)"\)', (SOURCES / f"{module}.py").read_text()):
            found += [re.sub(r"\{.*?\}", str(step), name) for step in range(1, STEPS + 1)] if "{" in name else [name]
    return sorted(set(found))


def _below(path: Path) -> str:
    return str(path.relative_to(SOURCES).with_suffix(""))


def points_in_turn(seed: str) -> Iterator[tuple[str, str]]:
    """All pause points over and over, in an order drawn from the seed, with the daemon to start with them."""
    found = {point: "luxid" for path in SOURCES.rglob("*.py") for point in pause_points(_below(path))}
    found |= dict.fromkeys(pause_points("stores/publisher", "wconfd/commits"), "wconfd")
    order = sorted(found)
    random.Random(seed).shuffle(order)
    return itertools.cycle([(found[point], point) for point in order])


class Cluster:
    """The processes of one master, looked at and signalled from outside."""

    def __init__(self, master: Master) -> None:
        self.master = master
        self._mark = f"GANETI_ROOTDIR={master.root}\0".encode()

    def processes(self) -> dict[int, str]:
        """Every process of this cluster, by what it is: a daemon's module, or "job"."""
        found: dict[int, str] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit() and (kind := self._kind(int(entry))):
                found[int(entry)] = kind
        return found

    def jobs(self) -> list[int]:
        return sorted(pid for pid, kind in self.processes().items() if kind == "job")

    def stopped(self) -> dict[int, str]:
        return {pid: kind for pid, kind in self.processes().items() if state_of(pid) == "T"}

    def let_go_on(self, but: Iterable[int] = ()) -> None:
        for pid in self.stopped():
            if pid not in but:
                self.signal(pid, signal.SIGCONT)

    def signal(self, pid: int, number: int) -> bool:
        """Signal a process if it still is one of this cluster's; never a stranger that got its number."""
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            if not self._kind(pid):
                return False
            signal.pidfd_send_signal(descriptor, number)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def spawner(self) -> int | None:
        luxid = self.master.daemons.get("luxid")
        if luxid is None:
            return None
        kinds = self.processes()
        return next((pid for pid in children_of(luxid.pid) if kinds.get(pid) == "spawner"), None)

    def _kind(self, pid: int) -> str:
        try:
            if self._mark not in Path(f"/proc/{pid}/environ").read_bytes():
                return ""
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return ""
        if words[0].startswith(b"ganeti job "):
            return "job"
        modules = [word.decode() for word in words if word.startswith(b"ganeti.")]
        name = modules[0].rpartition(".")[2] if modules else ""
        if name == "spawner" and b"ganeti.daemons.luxid" not in _command_line(_parent(pid)):
            return "job"  # a fork of the spawner; or the spawner of a LuxiD that just died, which ends at once
        return name


def _command_line(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def state_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


class Killer:
    """Strikes one blow after the other, each drawn from a seed."""

    def __init__(self, cluster: Cluster, seed: str, history: History, points: Iterator[tuple[str, str]]) -> None:
        self.kills = 0
        self.reached: set[str] = set()
        """Pause points at which something was killed."""
        self._cluster = cluster
        self._master = cluster.master
        self._choice = random.Random(seed)
        self._history = history
        self._points = points

    def strike(self) -> None:
        """One blow, and what follows: the daemons are there again when this returns."""
        blows = {
            self._kill_jobs: 9,
            self._kill_spawner: 2,
            self._kill_luxid: 3,
            self._kill_wconfd: 3,
            self._kill_both: 2,
            self._stop_for_a_while: 2,
            self._kill_at_a_point: 6,
        }
        self._pass(self._choice.uniform(0.0, DELAY_LONGEST_S))
        (blow,) = self._choice.choices(list(blows), list(blows.values()))
        blow()
        self._cluster.let_go_on()
        self.restart_the_dead()

    def restart_the_dead(self, **variables: str) -> None:
        """What the watcher does. WConfD first, as LuxiD needs it to begin."""
        for name in ("wconfd", "luxid"):
            process = self._master.daemons.get(name)
            if process is None or process.poll() is not None:
                if process is not None:
                    raise AssertionError(f"{name} ended by itself with {process.returncode}")
                self._master.start(name, **variables)

    # Blows

    def _kill_jobs(self) -> None:
        jobs = self._cluster.jobs()
        for pid in self._choice.sample(jobs, min(len(jobs), self._choice.randint(1, 3))):
            self._kill(pid, "a job")

    def _kill_spawner(self) -> None:
        pid = self._cluster.spawner()
        if pid is not None:
            self._kill(pid, "the spawner")

    def _kill_luxid(self) -> None:
        self._kill_daemon("luxid")
        self._pass(self._choice.choice([0.0, 0.0, 0.2]))

    def _kill_wconfd(self) -> None:
        self._kill_daemon("wconfd")
        self._pass(self._choice.choice([0.0, 0.0, 0.2]))

    def _kill_both(self) -> None:
        names = ["luxid", "wconfd"]
        self._choice.shuffle(names)
        for name in names:
            self._kill_daemon(name)
        jobs = self._cluster.jobs()
        if jobs and self._choice.random() < 0.5:
            self._kill(self._choice.choice(jobs), "a job, while LuxiD and WConfD are away")
        self._pass(self._choice.choice([0.0, 0.3]))

    def _stop_for_a_while(self) -> None:
        """A process that hangs and comes back, or hangs and dies."""
        kind = self._choice.choice(["luxid", "wconfd", "spawner", "job"])
        pids = sorted(pid for pid, name in self._cluster.processes().items() if name == kind)
        if not pids:
            return
        pid = self._choice.choice(pids)
        self._cluster.signal(pid, signal.SIGSTOP)
        self._history.tell(f"{kind} {pid} hangs")
        self._pass(self._choice.uniform(0.05, 0.6))
        if kind in ("luxid", "wconfd"):
            if self._choice.random() < 0.5:
                self._kill_daemon(kind)
        elif self._choice.random() < 0.5:
            self._kill(pid, f"{kind}, hanging")

    def _kill_at_a_point(self) -> None:
        name, point = next(self._points)
        with_luxid = self._choice.random() < 0.3
        with_wconfd = self._choice.random() < 0.2
        self._kill_daemon(name)
        self.restart_the_dead(GANETI_PAUSE_AT=point)
        pid = self._await_stop()
        if pid is None:
            self._history.tell(f"nobody came to {point}")
        else:
            self.reached.add(point)
            kind = self._cluster.stopped().get(pid, "?")
            if with_wconfd and kind != "wconfd":
                self._kill_daemon("wconfd")
            if with_luxid and kind != "luxid":
                self._kill_daemon("luxid")
            if kind in ("luxid", "wconfd"):
                self._history.tell(f"{kind} has come to {point}")
                self._kill_daemon(kind)
            else:
                self._kill(pid, f"a {kind} at {point}")
        if name in self._master.daemons:
            self._kill_daemon(name)

    # How

    def _kill(self, pid: int, what: str) -> None:
        if self._cluster.signal(pid, signal.SIGKILL):
            self.kills += 1
            self._history.tell(f"kill {self.kills}: {what}, {pid}")

    def _kill_daemon(self, name: str) -> None:
        if name in self._master.daemons:
            pid = self._master.daemons[name].pid
            self._master.kill(name)
            self.kills += 1
            self._history.tell(f"kill {self.kills}: {name}, {pid}")

    def _await_stop(self) -> int | None:
        end_s = time.monotonic() + AWAIT_STOP_S
        while time.monotonic() < end_s:
            stopped = self._cluster.stopped()
            if stopped:
                return min(stopped)
            self._pass(0.01)
        return None

    def _pass(self, seconds: float) -> None:
        select.select([], [], [], seconds)
