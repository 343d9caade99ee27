# SPDX-License-Identifier: BSD-2-Clause
"""What control groups, version 1 and 2, say of guests: the processor time and memory of all that a guest has running.

A guest's group is that of its process, where no other process is in it (a systemd scope, a container): figures of a
group that others share say nothing of the guest. Groups are found by ``/proc/PID/cgroup``, so nothing is configured.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ganeti.node.collectors.interface import Node, Sample, collector
from ganeti.node.collectors.report import PERFORMANCE
from ganeti.node.hypervisors.interface import Sighting
from ganeti.wire.prometheus import COUNTER, GAUGE

NAME = "inst-cgroup"
CONTROLLERS = "/sys/fs/cgroup"
_UNLIMITED = 2**62
"""From here on a limit of version 1 is none: it is the largest number of pages, in bytes."""


def read(guests: Iterable[Sighting], root: str = "") -> dict[str, Any]:
    """By name of a guest with a group of its own: its version, ``cpu_seconds``, ``memory_bytes`` and their limits.

    *root* is where a test keeps its ``/proc`` and ``/sys``. A figure that a group does not have is null.
    """
    found = {}
    for guest in guests:
        own = _of_process(guest.pid, root) if guest.pid else None
        if own is not None:
            found[guest.name] = own
    return found


def _of_process(pid: int, root: str) -> dict[str, Any] | None:
    groups = _groups(pid, root)
    if "cpuacct" in groups or "memory" in groups:
        cpu, memory = groups.get("cpuacct"), groups.get("memory")
        return _version_1(_own(cpu, pid), _own(memory, pid), _own(groups.get("cpu"), pid))
    return _version_2(_own(groups.get(""), pid))


def _groups(pid: int, root: str) -> Mapping[str, str]:
    """The directory of the process's group, by controller; that of version 2 is by the empty text."""
    text = _text(f"{root}/proc/{pid}/cgroup")
    found = {}
    for line in (text or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if not path.startswith("/") or path == "/" or "/../" in f"{path}/":
            continue
        mounted = f"{root}{CONTROLLERS}/{controllers}"
        for name in controllers.split(","):
            place = mounted if os.path.isdir(mounted) else f"{root}{CONTROLLERS}/{name}"
            found[name] = f"{place.rstrip('/')}{path}"
    return found


def _own(directory: str | None, pid: int) -> str | None:
    """The group, if nothing else is in it."""
    text = _text(f"{directory}/cgroup.procs") if directory is not None else None
    return directory if text is not None and text.split() == [str(pid)] else None


def _version_1(cpuacct: str | None, memory: str | None, cpu: str | None) -> dict[str, Any] | None:
    if cpuacct is None and memory is None:
        return None
    used_ns = _number(cpuacct, "cpuacct.usage")
    quota_us, period_us = _number(cpu, "cpu.cfs_quota_us"), _number(cpu, "cpu.cfs_period_us")
    limit = _number(memory, "memory.limit_in_bytes")
    return {
        "version": 1,
        "cpu_seconds": used_ns / 1e9 if used_ns is not None else None,
        "cpu_limit": quota_us / period_us if quota_us is not None and quota_us > 0 and period_us else None,
        "memory_bytes": _number(memory, "memory.usage_in_bytes"),
        "memory_limit_bytes": limit if limit is not None and limit < _UNLIMITED else None,
    }


def _version_2(directory: str | None) -> dict[str, Any] | None:
    if directory is None:
        return None
    stat = dict(line.split(" ", 1) for line in (_text(f"{directory}/cpu.stat") or "").splitlines() if " " in line)
    used_us = stat.get("usage_usec", "")
    quota_us, _, period_us = (_text(f"{directory}/cpu.max") or "").strip().partition(" ")
    limited = quota_us.isdigit() and period_us.isdigit() and int(period_us) > 0
    return {
        "version": 2,
        "cpu_seconds": int(used_us) / 1e6 if used_us.isdigit() else None,
        "cpu_limit": int(quota_us) / int(period_us) if limited else None,
        "memory_bytes": _number(directory, "memory.current"),
        "memory_limit_bytes": _number(directory, "memory.max"),
    }


def _number(directory: str | None, name: str) -> int | None:
    text = (_text(f"{directory}/{name}") or "").strip() if directory is not None else ""
    return int(text) if text.lstrip("-").isdigit() else None


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return None


_CPU, _MEMORY = "ganeti_instance_cgroup_cpu_seconds_total", "ganeti_instance_cgroup_memory_bytes"


def _samples(data: Any) -> Iterator[Sample]:
    for name, own in data.items():
        for metric, key in ((_CPU, "cpu_seconds"), (_MEMORY, "memory_bytes")):
            if own[key] is not None:
                yield Sample(metric, {"instance": name}, own[key])


@collector(
    *(NAME, None, PERFORMANCE),
    metrics={
        _CPU: (COUNTER, "Processor time of the guest's own control group."),
        _MEMORY: (GAUGE, "Memory of the guest's own control group."),
    },
    samples=_samples,
)
async def _collect(node: Node) -> Any:
    return read(await node.guests())
