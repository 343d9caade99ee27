# SPDX-License-Identifier: BSD-2-Clause
"""How full the file systems are that hold what the node daemon keeps: guests' files, and its own (protocols, 5)."""

import os
from collections.abc import Iterable
from typing import Any

NAME, CATEGORY = "storage", "storage"


def read(places: Iterable[str]) -> list[dict[str, Any]]:
    """Sizes in bytes of the file system at each path that is there; *free* is what others than root may use."""
    found = []
    for place in dict.fromkeys(places):
        try:
            told = os.statvfs(place)
        except OSError:
            continue
        size, free = told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize
        found.append({"path": place, "size": size, "used": size - told.f_bfree * told.f_frsize, "free": free})
    return found
