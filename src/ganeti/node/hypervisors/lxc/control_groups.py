# SPDX-License-Identifier: BSD-2-Clause
"""Control groups of this node, of version 1 and 2 or both at once, and what they tell of a container."""

import contextlib
import os
import re
from dataclasses import dataclass

from ganeti.base.errors import HypervisorError

NEEDED = ("cpu", "cpuset", "devices", "memory")
_PAYLOAD = "lxc.payload."
_NS = 1_000_000_000
_US = 1_000_000


@dataclass(frozen=True)
class Hierarchies:
    """Where the controllers are mounted."""

    old: dict[str, str]
    """Controllers of version 1."""
    unified: str = ""
    """The mount point of version 2; empty for none."""
    unified_controllers: frozenset[str] = frozenset()

    def version(self, controller: str) -> int:
        """1 or 2, or 0 where no hierarchy has it. Version 2 has devices always: by programs, not by files."""
        if controller in self.old:
            return 1
        is_there = self.unified and (controller in self.unified_controllers or controller == "devices")
        return 2 if is_there and not (controller == "devices" and self.old) else 0


def hierarchies(mounts: str = "/proc/self/mountinfo") -> Hierarchies:
    """Read what this process sees; raises `HypervisorError`."""
    old: dict[str, str] = {}
    unified = ""
    try:
        with open(mounts, encoding="utf-8") as source:
            lines = [line.partition(" - ") for line in source]
    except OSError as err:
        raise HypervisorError(f"Cannot read {mounts}: {err.strerror}") from err
    for mount, _, kind in lines:
        place = mount.split()[4]
        kind_words = kind.split()
        if kind_words[0] == "cgroup2":
            unified = unified or place
        elif kind_words[0] == "cgroup":
            old |= {word: place for word in kind_words[2].split(",") if re.fullmatch(r"[a-z_]+", word)}
    controllers: list[str] = []
    if unified:
        with contextlib.suppress(OSError), open(f"{unified}/cgroup.controllers", encoding="ascii") as source:
            controllers = source.read().split()
    return Hierarchies(old, unified, frozenset(controllers))


@dataclass(frozen=True)
class ContainerGroups:
    """The control groups of a container, found by a process in it; all figures are 0 where nothing tells them."""

    places: Hierarchies
    paths: dict[str, str]
    """By controller of version 1; version 2 has the empty name."""

    def directory(self, controller: str) -> str:
        """Of a controller, in the hierarchy that has it; empty for none."""
        version = self.places.version(controller)
        if version == 1:
            return self.places.old[controller] + self.paths.get(controller, "/nowhere")
        return self.places.unified + self.paths.get("", "/nowhere") if version == 2 else ""

    def cpu_time_s(self) -> float:
        if "cpuacct" in self.places.old:
            return _number(f"{self.directory('cpuacct')}/cpuacct.usage") / _NS
        return _field(f"{self.directory('cpu')}/cpu.stat", "usage_usec") / _US

    def resident_bytes(self) -> int:
        """What its processes hold, without what the node could drop at once."""
        return _field(f"{self.directory('memory')}/memory.stat", "total_rss", "anon")


def groups_of(pid: int, places: Hierarchies) -> ContainerGroups:
    """The groups of the container that a process is in; what its init has made below them is left off."""
    paths: dict[str, str] = {}
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup", encoding="utf-8") as source:
        for line in source:
            _, names, path = line.rstrip("\n").split(":", 2)
            before, found, rest = path.partition(_PAYLOAD)
            whole = f"{before}{found}{rest.partition('/')[0]}"
            paths |= dict.fromkeys(names.split(","), whole)
    return ContainerGroups(places, paths)


def container_runs(name: str) -> bool:
    """Whether a process is in a container of that name, started by this driver or not, of any version of LXC."""
    there = re.compile(rf"/lxc(\.payload\.|\.monitor\.|/){re.escape(name)}(-[0-9]+)?(/|$)", re.MULTILINE)
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{entry}/cgroup", encoding="utf-8", errors="replace") as source:
            if there.search(source.read()):
                return True
    return False


def sweep(name: str, places: Hierarchies) -> None:
    """Remove the empty groups of a container whose monitor was killed: LXC has nobody left to do that."""
    own = _own_paths()
    for controller, mount in [*places.old.items(), ("", places.unified)]:
        for part in (_PAYLOAD, "lxc.monitor."):
            base = f"{mount}{own.get(controller, '')}".rstrip("/")
            for parent in {mount, base} - {""}:
                _remove_empty(f"{parent}/{part}{name}")


def _remove_empty(top: str) -> None:
    for directory, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def _own_paths() -> dict[str, str]:
    with open("/proc/self/cgroup", encoding="utf-8") as source:
        lines = [line.rstrip("\n").split(":", 2) for line in source]
    return {name: path for _, names, path in lines for name in names.split(",")}


def _number(path: str) -> int:
    try:
        with open(path, encoding="ascii") as source:
            return int(source.read())
    except (OSError, ValueError):
        return 0


def _field(path: str, *names: str) -> int:
    with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as source:
        for line in source:
            name, _, value = line.partition(" ")
            if name in names:
                return int(value)
    return 0
