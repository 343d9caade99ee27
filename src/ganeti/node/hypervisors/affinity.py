# SPDX-License-Identifier: BSD-2-Clause
"""Which processors a guest may use (``cpu_mask``): ``all``, a list such as ``0-3,6,^2``, or one list per virtual CPU.

Lists per virtual CPU are divided by colons: ``0-1:2:all``.
"""

import contextlib
import os
import re
from collections.abc import Mapping
from typing import Any

from ganeti.base.errors import HypervisorError

ALL = "all"


def problem_of(value: Any) -> str | None:
    """Give what is wrong with a mask, or None."""
    for part in str(value).split(":"):
        if part != ALL and not re.fullmatch(r"\^?[0-9]+(-[0-9]+)?(,\^?[0-9]+(-[0-9]+)?)*", part):
            return "write all, or processors such as 0-3,6, or one such list per virtual CPU with colons between them"
        if part != ALL and not _processors(part):
            return f"'{part}' names no processor"
    return None


def parse(mask: str) -> list[frozenset[int] | None]:
    """Give the sets of a mask; None stands for all processors."""
    return [None if part == ALL else frozenset(_processors(part)) for part in (mask or ALL).split(":")]


def check(mask: str, vcpus: int) -> None:
    """Hold a mask against the processors there are; raises `HypervisorError`."""
    sets = parse(mask)
    there = os.sched_getaffinity(0)
    for processors in sets:
        if processors is not None and not processors <= there:
            missing = ", ".join(str(number) for number in sorted(processors - there))
            raise HypervisorError(f"cpu_mask={mask} names processors this node does not have: {missing}")
    if len(sets) > 1 and len(sets) != vcpus:
        raise HypervisorError(f"cpu_mask={mask} has {len(sets)} lists, but the instance has {vcpus} virtual CPUs")


def apply(mask: str, pid: int, threads: Mapping[int, int], *, anywhere: frozenset[int] | None = None) -> None:
    """Pin a process (*threads*: virtual CPU to its thread id); raises `HypervisorError`.

    What may run on all processors is left alone, or put on those *anywhere*.
    """
    sets = [anywhere if processors is None else processors for processors in parse(mask)]
    try:
        if len(sets) == 1:
            if sets[0] is not None:
                for thread in sorted(int(entry) for entry in os.listdir(f"/proc/{pid}/task")):
                    with contextlib.suppress(ProcessLookupError):
                        os.sched_setaffinity(thread, sets[0])
            return
        for index, processors in enumerate(sets):
            if processors is not None and index in threads:
                os.sched_setaffinity(threads[index], processors)
    except OSError as err:
        raise HypervisorError(f"Cannot pin process {pid} to cpu_mask={mask}: {err}") from err


def _processors(part: str) -> set[int]:
    wanted: set[int] = set()
    for piece in part.split(","):
        first, _, last = piece.lstrip("^").partition("-")
        numbers = set(range(int(first), int(last or first) + 1))
        wanted = wanted - numbers if piece.startswith("^") else wanted | numbers
    return wanted
