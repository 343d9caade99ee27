# SPDX-License-Identifier: BSD-2-Clause
"""Daemons of a node that are not always wanted: which ones the cluster wants here now, by the node's ssconf files.

Imports little: cron asks every few minutes.
"""

import os
from collections.abc import Collection

from ganeti.base.names import is_named
from ganeti.base.paths import Paths
from ganeti.system.ssconf import ssconf_words

BY_CLUSTER = ("ganeti-kvmd", "ganeti-metad")
"""The cluster's values, or what they have to do, say whether they are to run."""
ON_DEMAND = ("ganeti-mirrord", *BY_CLUSTER)
"""Started by node calls when there is something for them to do."""


def demanded(paths: Paths, own_name: str) -> list[str]:
    """Daemons of `ON_DEMAND` that must run on this node.

    Those of hypervisors whose users may end their guests, the one of metadata where guests want some, and the one of
    mirrored disks while any is open here: whatever is written meanwhile would be on one node alone.
    """
    wanted = ["ganeti-metad"] if os.path.exists(f"{paths.run_dir}/metad.json") else []
    if any(name.endswith(".json") for name in _names(f"{paths.run_dir}/mirror")):
        wanted.append("ganeti-mirrord")
    if ssconf_words(paths, "enabled_user_shutdown") != ["True"] or not _is_vm_capable(paths, own_name):
        return wanted
    hypervisors = [f"ganeti-{name}d" for name in ssconf_words(paths, "hypervisor_list")]
    return [*wanted, *(daemon for daemon in hypervisors if daemon in BY_CLUSTER)]


def _is_vm_capable(paths: Paths, own_name: str) -> bool:
    unable = [word.removesuffix("=False") for word in ssconf_words(paths, "node_vm_capable") if word.endswith("=False")]
    return not any(is_named(own_name, name) for name in unable)


def _names(directory: str) -> Collection[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
