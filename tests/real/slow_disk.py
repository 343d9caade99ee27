# SPDX-License-Identifier: BSD-2-Clause
"""A process whose disk hardly writes any more, by a control group of the kernel; not every machine allows that."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def held_writes(pid: int, image: Path, bytes_s: int = 1) -> Iterator[None]:
    """Let the process write so many bytes in a second to the disk of *image*; raises `OSError` where that cannot be."""
    device = _device(image)
    is_first_version = (_GROUPS / "blkio").is_dir()
    top = _GROUPS / "blkio" if is_first_version else _GROUPS
    group = top / f"storage-test-{pid}"
    if not is_first_version:
        (top / "cgroup.subtree_control").write_text("+io")
    group.mkdir()
    limit = group / ("blkio.throttle.write_bps_device" if is_first_version else "io.max")
    try:
        limit.write_text(f"{device} {bytes_s}" if is_first_version else f"{device} wbps={bytes_s}")
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        with contextlib.suppress(OSError):
            limit.write_text(f"{device} 0" if is_first_version else f"{device} wbps=max")
        with contextlib.suppress(OSError):
            (top / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def _device(image: Path) -> str:
    """Of the whole disk: a part of it has no limit of its own."""
    number = image.stat().st_dev
    place = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve(strict=True)
    whole = place.parent if (place / "partition").exists() else place
    return (whole / "dev").read_text().strip()
