# SPDX-License-Identifier: BSD-2-Clause
"""A note that copies of a running guest's disks are the valid ones, ``exchanged/NAME`` in the data directory.

It is on disk before the guest uses the first of the copies, and names them all: after a loss of power, the
code that completes the conversion knows which disks hold what the guest wrote last.
"""

import contextlib
import os
from collections.abc import Sequence

import msgspec

from ganeti.base.errors import UNREADABLE_JSON
from ganeti.base.paths import Paths
from ganeti.model.node_requests import DiskSpec
from ganeti.system.files import write_atomically


def write(paths: Paths, instance: str, disks: Sequence[DiskSpec]) -> None:
    """Note *disks* as the valid ones, durably."""
    os.makedirs(os.path.dirname(_path(paths, instance)), mode=0o750, exist_ok=True)
    write_atomically(_path(paths, instance), msgspec.json.encode([disk.uuid for disk in disks]), mode=0o640)


def has(paths: Paths, instance: str, disks: Sequence[DiskSpec]) -> bool:
    """Whether just these disks are noted."""
    try:
        with open(_path(paths, instance), "rb") as source:
            noted = msgspec.json.decode(source.read(), type=list[str])
    except (FileNotFoundError, *UNREADABLE_JSON):
        return False
    return noted == [disk.uuid for disk in disks]


def forget(paths: Paths, instance: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_path(paths, instance))


def _path(paths: Paths, instance: str) -> str:
    return f"{paths.data_dir}/exchanged/{instance}"
