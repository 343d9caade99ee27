# SPDX-License-Identifier: BSD-2-Clause
"""Which life of the machine this is: what was started before the last power-on is gone.

A node in a namespace shares the kernel's boot id with its neighbours; there the start of its process 1 is its
power-on.
"""

import os
import time
import uuid
from functools import cache

from ganeti.system.files import read_if_there

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
_KERNEL_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@cache
def boot_identity() -> str:
    """Give a text that changes with every power-on; on a real machine it is the kernel's boot id."""
    with open(_KERNEL_BOOT_ID, encoding="ascii") as file:
        kernel = file.read().strip()
    try:
        if os.readlink("/proc/self/ns/pid") == _INITIAL_PID_NAMESPACE:
            return kernel
    except OSError:
        return kernel
    return str(uuid.uuid5(uuid.UUID(kernel), f"{_pid_namespace()} {process_start(1)}"))


def kernel_boot_id() -> str:
    """Tell one run of the machine from another; without the kernel's help none is the one before."""
    data = read_if_there(_KERNEL_BOOT_ID)
    return data.decode().strip() if data else f"unknown at {time.time_ns()}"


def process_lives(pid: int, began: str) -> bool:
    """Whether the process that began then runs; one that has ended and is not collected yet does not."""
    fields = _stat(pid)
    return fields is not None and fields[19] == began and fields[0] not in ("Z", "X")


def process_start(pid: int) -> str | None:
    """Give when process *pid* began (clock ticks since the kernel's boot), or None when there is none."""
    fields = _stat(pid)
    return fields[19] if fields is not None else None


def _stat(pid: int) -> list[str] | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            stat = file.read()
    except OSError:
        return None
    # The name in parentheses may hold anything, also spaces and parentheses.
    return stat.rpartition(")")[2].split()


def _pid_namespace() -> str:
    return os.readlink("/proc/self/ns/pid")
