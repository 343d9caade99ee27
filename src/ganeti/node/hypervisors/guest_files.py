# SPDX-License-Identifier: BSD-2-Clause
"""Which files of a node a guest may be given by its parameters: images of CDs and floppy disks, kernels, RAM disks.

The submitter of a job, who need not be root of the node, names them, and a process of root opens them. So no file is
given that holds keys, settings or disks of others. What must hold: the file itself counts, not a symbolic link to it.
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from typing import Any

from ganeti.base.errors import HypervisorError
from ganeti.base.paths import Paths
from ganeti.node.storage.allowed_paths import AllowedPaths, forbidden

PARAMETERS = ("cdrom_image_path", "cdrom2_image_path", "floppy_image_path", "kernel_path", "initrd_path")
_TREES = ("/var/lib/ganeti", "/etc", "/root", "/proc", "/sys", "/dev", "/run", "/var/run", "/var/log")
_SHARED_TREES = ("/home", "/opt", "/usr", "/var/backups", "/var/lib", "/var/mail", "/var/spool")
"""Where programs and users of the node keep things: their secrets are not for everybody to read."""
_DRIVE = re.compile(r"/dev/(sr|fd)[0-9]+")


def check_places(paths: Paths, hvparams: Mapping[str, Any], names: Iterable[str] = PARAMETERS) -> None:
    """Refuse files that no guest may read; what is not there is not refused here. Raises `HypervisorError`."""
    for name in names:
        value = hvparams.get(name)
        if value and value.startswith("/") and (reason := fault(paths, value)) is not None:
            raise HypervisorError(f"{name} cannot be {value}: {reason}")


def check_password(paths: Paths, name: str, path: str) -> None:
    """The password of a display is a file for that, not the first line of another secret.

    Raises `HypervisorError`.
    """
    if not path:
        return
    real = os.path.realpath(path)
    if os.path.dirname(real) == os.path.realpath(paths.sysconf_dir):
        if "password" not in os.path.basename(real):
            raise HypervisorError(
                f"{name} cannot be {path}: of {paths.sysconf_dir} it may be a file with 'password' in its name"
            )
    elif (reason := fault(paths, path)) is not None:
        raise HypervisorError(f"{name} cannot be {path}: {reason}, or name it {paths.sysconf_dir}/password-…")


def fault(paths: Paths, path: str) -> str | None:
    """Say why no guest may be given *path* (absolute), or None."""
    real = os.path.realpath(path)
    if _DRIVE.fullmatch(real):
        return None
    if os.path.dirname(real) == os.path.realpath(paths.sysconf_dir):
        return (
            None
            if everybody_may(stat.S_IROTH, real)
            else f"of {paths.sysconf_dir} a guest gets files that everybody may read"
        )
    for tree in map(paths.under, _TREES):
        if is_below(real, tree):
            return f"a guest gets nothing from below {tree}; put the file into a directory of its own, as /srv/iso"
    if (tree := _shared_tree(paths, real)) and not everybody_may(stat.S_IROTH, real):
        return f"of {tree} a guest gets files that everybody may read; put it into a directory of its own, as /srv/iso"
    kept = (paths.export_dir, paths.backup_dir, paths.backup_scratch_dir, paths.backup_files_dir)
    listed = [paths.under(line) for line in AllowedPaths(paths).listed() if forbidden(line) is None]
    for tree in (*kept, *listed):
        if is_below(real, tree) and not real.lower().endswith(".iso"):
            return f"disks of guests are kept below {tree}, of which a guest gets images of CDs (*.iso) only"
    return None


def is_below(real: str, tree: str) -> bool:
    found = os.path.realpath(tree)
    return real == found or real.startswith(found.rstrip("/") + "/")


def everybody_may(bit: int, path: str) -> bool:
    """Whether a file's mode has this bit (`stat.S_IROTH`, `stat.S_IWOTH`); there may be none."""
    try:
        return bool(os.stat(path).st_mode & bit)
    except OSError:
        return True


def _shared_tree(paths: Paths, real: str) -> str:
    if os.path.dirname(real) == os.path.realpath(paths.under("/")):
        return "/"  # swap files
    return next((tree for tree in map(paths.under, _SHARED_TREES) if is_below(real, tree)), "")
