# SPDX-License-Identifier: BSD-2-Clause
"""Putting a backup in place of what a master has: all of it, or nothing.

The configuration is restored as `config.data` alone: WConfD takes it for what the administrator wants and begins an
epoch above every one that this node knows of, so that no candidate's newer copy wins over it (`config/importing`).
"""

import os
import shutil
import time
from contextlib import suppress

from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.bootstrap.foreign_daemons import check_no_daemon
from ganeti.system.files import read_if_there, sync_directory, write_atomically
from ganeti.tools.cluster_backup import archive, making
from ganeti.tools.cluster_backup.archive import Content, Manifest
from ganeti.tools.ensure_dirs import ensure
from ganeti.tools.take_over.unfinished_jobs import unfinished_jobs

_EPOCH = "noded-epoch.json"
_IDS_LEFT_OUT = 10_000
"""At least so many: those of jobs that have run since the backup was made. Nodes keep answers by job id."""


class Restored:
    def __init__(self, manifest: Manifest, kept: str, dropped: list[int]) -> None:
        self.manifest = manifest
        self.kept = kept
        """Directory that has what was there before; empty if nothing was."""
        self.dropped = dropped
        """Jobs that had not ended when the backup was made: they are not run again."""


def restore(paths: Paths, path: str, hostname: str, *, over: bool) -> Restored:
    """Put the backup *path* in place; *over* allows this where a cluster is. Raises `PrerequisiteError`, `OSError`."""
    manifest = making.verify(path)
    check_no_daemon(paths)
    if hostname.partition(".")[0] != manifest.master.partition(".")[0]:
        raise PrerequisiteError(
            f"The backup is of the master {manifest.master}, this machine is {hostname}: restore it on a machine of "
            "that name and address",
            WRONG_STATE,
        )
    there = os.path.isdir(paths.data_dir) and bool(os.listdir(paths.data_dir))
    if there and not over:
        raise PrerequisiteError(
            f"{paths.data_dir} is not empty: add --yes-do-it to replace it; what is there is kept beside it",
            WRONG_STATE,
        )
    fresh = f"{paths.data_dir}.restored"
    shutil.rmtree(fresh, ignore_errors=True)
    os.makedirs(fresh, mode=0o755)
    try:
        with archive.reading(path) as (_, contents):
            for content in contents:
                _put(fresh, content)
        _keep_epoch(paths, fresh)
        dropped = _drop_unfinished(f"{fresh}/queue")
        _leave_ids_out(f"{fresh}/queue/serial")
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    kept = f"{paths.data_dir}-{time.strftime('%Y%m%d-%H%M%S')}" if there else ""
    if kept:
        os.rename(paths.data_dir, kept)
    elif os.path.isdir(paths.data_dir):
        os.rmdir(paths.data_dir)
    os.rename(fresh, paths.data_dir)
    sync_directory(os.path.dirname(paths.data_dir))
    ensure(paths, full=True)
    return Restored(manifest, kept, dropped)


def _put(directory: str, content: Content) -> None:
    path = os.path.normpath(f"{directory}/{content.name}")
    if not path.startswith(f"{directory}/"):
        raise PrerequisiteError(
            f"The backup holds '{content.name}', which lies outside of the cluster's data", WRONG_STATE
        )
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content.data)
        os.fchmod(file.fileno(), content.mode & 0o777)
        os.fsync(file.fileno())


def _keep_epoch(paths: Paths, fresh: str) -> None:
    """What this node has promised since the backup holds: the restored state begins above it."""
    with suppress(FileNotFoundError):
        shutil.copy2(f"{paths.data_dir}/{_EPOCH}", f"{fresh}/{_EPOCH}")


def _leave_ids_out(serial_path: str) -> None:
    """New jobs begin at a round number beyond."""
    digits = (read_if_there(serial_path) or b"").strip()
    highest = int(digits) if digits.isdigit() else 0
    os.makedirs(os.path.dirname(serial_path), exist_ok=True)
    write_atomically(serial_path, b"%d\n" % ((highest // _IDS_LEFT_OUT + 2) * _IDS_LEFT_OUT))


def _drop_unfinished(queue_dir: str) -> list[int]:
    dropped = unfinished_jobs(queue_dir)
    for job in dropped:
        for name in (f"job-{job}", f"job-{job}.undo"):
            with suppress(FileNotFoundError):
                os.unlink(f"{queue_dir}/{name}")
    return dropped
