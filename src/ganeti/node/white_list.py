# SPDX-License-Identifier: BSD-2-Clause
"""Directories of commands that the cluster may run on a node (protocols, section 11; S4.11)."""

import os
import stat

from ganeti.model.data_collectors import is_command

ROOT = (0, 0)
_WIDEST = 0o755


def fault_of(directory: str, name: str, owner: tuple[int, int] = ROOT, *, links: bool = False) -> str | None:
    """Why the command *name* of *directory* may not run; None if it may.

    With *links*, the command may be a symbolic link of *owner*; what it leads to must be as a command must be.
    """
    if not is_command(name):
        return f"'{name}' is no plain name: letters, digits, '-' and '_' are allowed"
    path = f"{directory}/{name}"
    for place, is_kind, kind in ((directory, stat.S_ISDIR, "directory"), (path, stat.S_ISREG, "regular file")):
        try:
            found = os.lstat(place)
            owners = [(found.st_uid, found.st_gid)]
            if links and place == path and stat.S_ISLNK(found.st_mode):
                found = os.stat(place)
                owners.append((found.st_uid, found.st_gid))
        except OSError as err:
            return f"{place}: {err.strerror}"
        if not is_kind(found.st_mode):
            return f"{place} is no {kind}"
        if any(each != owner for each in owners):
            return f"{place} does not belong to root:root"
        if stat.S_IMODE(found.st_mode) & ~_WIDEST:
            return f"{place} has mode {stat.S_IMODE(found.st_mode):04o}: the widest is {_WIDEST:04o}"
        if not found.st_mode & stat.S_IXUSR:
            return f"{place} is not executable"
    return None
