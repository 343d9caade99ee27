# SPDX-License-Identifier: BSD-2-Clause
"""Where files of disks may lie on this node: the administrator's list, and what no list may allow.

``/etc/ganeti/file-storage-paths`` holds one directory a line; a disk's file lies in a directory below one of them.
A symbolic link below an allowed directory that leads out of it is refused; the allowed directory itself may be one.
"""

import os

from ganeti.base import names
from ganeti.base.errors import FileStoragePathError
from ganeti.base.paths import Paths
from ganeti.system.files import plain_file

FORBIDDEN_TREES = (
    *(
        "/bin",
        "/boot",
        "/dev",
        "/etc",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        "/proc",
        "/root",
        "/run",
        "/sbin",
        "/sys",
    ),
    *("/usr/bin", "/usr/include", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/sbin", "/usr/share"),
    *(
        "/usr/local/bin",
        "/usr/local/lib",
        "/usr/local/sbin",
        "/var/lib/dpkg",
        "/var/lib/ganeti",
        "/var/log",
        "/var/run",
    ),
)
"""Nothing of these may hold disks."""

FORBIDDEN_DIRECTORIES = (
    "/",
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/srv",
    "/tmp",  # noqa: S108 - a name to refuse
    "/usr",
    "/usr/local",
    "/var",
    "/var/lib",
)
"""Only directories of their own below these may."""


def forbidden(path: str) -> str | None:
    """Say why *path* (absolute, normalised) must not hold disks, or None."""
    if path in FORBIDDEN_DIRECTORIES:
        return f"{path} is a directory of the system: make one of its own below it"
    for tree in FORBIDDEN_TREES:
        if path == tree or path.startswith(tree + "/"):
            return f"{tree} belongs to the system"
    return None


def malformed(path: str) -> str | None:
    """Say why *path* cannot name a place, or None."""
    return names.absolute_path_fault(path)


class AllowedPaths:
    """The list of this node, read anew for every question (an administrator's edit counts at once)."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    def listed(self) -> list[str]:
        """Give the lines of the file, without comments; empty when there is none."""
        try:
            with open(self._paths.file_storage_paths_file, encoding="utf-8", opener=plain_file) as file:
                lines = [line.strip() for line in file]
        except FileNotFoundError:
            return []
        return [line for line in lines if line and not line.startswith("#")]

    def problems(self) -> list[str]:
        """Sentences about lines that allow nothing, because they must not."""
        found = []
        for line in self.listed():
            reason = malformed(line) or self._forbidden(line)
            if reason is not None:
                found.append(f"'{line}' in {self._paths.file_storage_paths_file} is not used: {reason}")
        return found

    def check(self, path: str, *, directory: bool = False) -> str:
        """Give the place of *path* on this node; raises `FileStoragePathError` when it may not be there.

        *path* is a disk's file, or with *directory* a directory of disks, which may be an allowed one itself.
        """
        reason = malformed(path) or self._forbidden(path if directory else os.path.dirname(path))
        if reason is not None:
            raise FileStoragePathError(f"'{names.shown(path)}' cannot hold a disk: {reason}")
        allowed = [line for line in self.listed() if malformed(line) is None and self._forbidden(line) is None]
        if not allowed:
            raise FileStoragePathError(
                f"'{path}' cannot hold a disk: this node allows no directory; list one a line in "
                f"{self._paths.file_storage_paths_file}"
            )
        full = self._paths.under(path)
        for line in allowed:
            base = self._paths.under(line)
            if full.startswith(base + "/") or (directory and full == base):
                return self._inside(full, base, path, directory=directory)
        raise FileStoragePathError(
            f"'{path}' cannot hold a disk: it is not below {' or '.join(allowed)}, which "
            f"{self._paths.file_storage_paths_file} lists"
        )

    def check_if_there(self, path: str) -> str | None:
        """As `check`, of a disk's file; but None for a path that is refused and at which nothing is."""
        try:
            return self.check(path)
        except FileStoragePathError:
            if path.startswith("/") and os.path.lexists(self._paths.under(path)):
                raise
            return None

    def is_listed(self, path: str) -> bool:
        return any(self._paths.under(line) == self._paths.under(path) for line in self.listed())

    def _inside(self, full: str, base: str, path: str, *, directory: bool) -> str:
        real = os.path.realpath(full if directory else os.path.dirname(full))
        real_base = os.path.realpath(base)
        if real != real_base and not real.startswith(real_base + "/"):
            raise FileStoragePathError(f"'{path}' cannot hold a disk: a symbolic link leads it out to {real}")
        if not directory and os.path.islink(full):
            raise FileStoragePathError(f"'{path}' cannot hold a disk: it is a symbolic link")
        return full

    def _forbidden(self, path: str) -> str | None:
        reason = forbidden(path)
        if reason is None and not self._paths.root:
            real = os.path.realpath(path)
            if real != path and (reason := forbidden(real)) is not None:
                reason = f"it leads to {real}, and {reason}"
        return reason
