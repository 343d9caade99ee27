# SPDX-License-Identifier: BSD-2-Clause
"""The files of the job queue that candidates have copies of: `job-N`, `job-N.undo` and `drain`.

They are state and no log: what is sent is the file as it is when it is read.
"""

import asyncio
import hashlib
import os
import re
from collections.abc import Mapping, Sequence

from ganeti.base.errors import JobQueueError
from ganeti.base.paths import Paths
from ganeti.stores.job_files import JobFiles
from ganeti.system.files import read_if_there

PIECE_BYTES = 4 * 1024 * 1024
_NAME = re.compile(r"(?:job-([1-9][0-9]{0,17})(\.undo)?|drain)", re.ASCII)
_READ_AT_ONCE = 8
_DIGITS = 16
Files = dict[str, str | None]


def check_names(names: Sequence[str]) -> None:
    """Raise `JobQueueError` for a name that no copy is kept of."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise JobQueueError(f"{name!r} is no file of the queue that is copied: write job-N, job-N.undo or drain")


def digest_of(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGITS]


def pieces_of(files: Files) -> list[Files]:
    """At least one piece, possibly empty; none longer than `PIECE_BYTES` unless it is one file."""
    pieces: list[Files] = [{}]
    size_bytes = 0
    for name, content in files.items():
        length = len(content or "")
        if pieces[-1] and size_bytes + length > PIECE_BYTES:
            pieces.append({})
            size_bytes = 0
        pieces[-1][name] = content
        size_bytes += length
    return pieces


class QueueFiles:
    """The queue of this node, read."""

    def __init__(self, paths: Paths) -> None:
        self._directory = paths.queue_dir
        self._files = JobFiles(paths)
        self._serial = 0

    async def read(self, names: Sequence[str]) -> Files:
        """The contents, None for what is not there. Raises `OSError`."""
        if len(names) <= _READ_AT_ONCE:
            return self._read(names)
        return await asyncio.to_thread(self._read, names)

    async def serial(self, *, fresh: bool) -> int:
        """The highest job id given away, by the file of the queue."""
        if fresh or not self._serial:
            digits = (read_if_there(f"{self._directory}/serial") or b"").strip()
            self._serial = max(self._serial, int(digits) if digits.isdigit() and len(digits) < 19 else 0)
        return self._serial

    async def differences(self, there: Mapping[str, str]) -> tuple[list[str], list[int]]:
        """What a copy with these digests lacks: files to send or remove, and jobs to archive. Raises `OSError`."""
        return await asyncio.to_thread(self._differences, there)

    def _read(self, names: Sequence[str]) -> Files:
        return {name: self._content(name) for name in names}

    def _content(self, name: str) -> str | None:
        data = read_if_there(f"{self._directory}/{name}")
        return None if data is None else data.decode("utf-8", "replace")

    def _differences(self, there: Mapping[str, str]) -> tuple[list[str], list[int]]:
        try:
            here = sorted(name for name in os.listdir(self._directory) if _NAME.fullmatch(name))
        except FileNotFoundError:
            here = []
        changed = []
        for name in here:
            content = self._content(name)
            if content is not None and there.get(name) != digest_of(content):
                changed.append(name)
        archived = []
        for name in sorted(set(there).difference(here)):
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            job_id = int(match[1]) if match[1] and not match[2] else None
            if job_id is not None and self._files.is_archived(job_id):
                archived.append(job_id)
            else:
                changed.append(name)
        return changed, archived
