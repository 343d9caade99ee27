# SPDX-License-Identifier: BSD-2-Clause
"""Volumes of which this node knows that they are not there: it removed them, or their provider did not make them.

A provider has no script that says whether a volume is there. ``VOLUME.absent`` is a note in a directory that is empty
after a restart of the node; a volume without one may be there.
"""

import contextlib
import os
import time

from ganeti.node.storage.image_io import unlink

_SUFFIX = ".absent"
_KEPT_S = 7 * 86400
"""Longer than any job repeats a removal."""


class Absences:
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def has(self, volume: str) -> bool:
        return os.path.exists(self._path(volume))

    def note(self, volume: str) -> None:
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        self._forget_old()
        os.close(os.open(self._path(volume), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))

    def forget(self, volume: str) -> None:
        unlink(self._path(volume))

    def _path(self, volume: str) -> str:
        return f"{self._directory}/{volume}{_SUFFIX}"

    def _forget_old(self) -> None:
        before_s = time.time() - _KEPT_S
        with os.scandir(self._directory) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if entry.name.endswith(_SUFFIX) and entry.stat(follow_symlinks=False).st_mtime < before_s:
                        unlink(entry.path)
