# SPDX-License-Identifier: BSD-2-Clause
"""Removing from a machine what made it a node of a cluster."""

import os
import shutil
from collections.abc import Collection

from ganeti.base.paths import Paths

DIRECTORIES = ("queue", "rapi", "migrated")
"""Those below the data directory that belong to a cluster; others may be the administrator's."""


def forget_cluster(paths: Paths, *, keep: Collection[str] = ()) -> list[str]:
    """Empty the data directory but for the names of *keep*, and the state of daemons; gives the names removed."""
    removed = []
    for name in _names(paths.data_dir):
        if name in keep:
            continue
        path = f"{paths.data_dir}/{name}"
        if os.path.isdir(path) and not os.path.islink(path):
            if name not in DIRECTORIES:
                continue
            shutil.rmtree(path)
        else:
            os.unlink(path)
        removed.append(name)
    for directory in (paths.livelock_dir, paths.socket_dir, f"{paths.run_dir}/luxidmessages"):
        for name in _names(directory):
            path = f"{directory}/{name}"
            if not os.path.isdir(path):
                os.unlink(path)
    told = [name for name in _names(paths.run_dir) if name.startswith(("instance-status", "ganeti-watcher-look"))]
    for path in (paths.answers_file, *(f"{paths.run_dir}/{name}" for name in told)):
        if os.path.exists(path):
            os.unlink(path)
    return removed


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
