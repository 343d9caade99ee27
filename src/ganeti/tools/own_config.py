# SPDX-License-Identifier: BSD-2-Clause
"""Whose disks are whose on this node, by its own copy of the configuration.

Only a master candidate's copy counts: of another node it would be one that was left behind. Where it is damaged, not to
be read, or that of another cluster, nothing is said.
"""

import json
from pathlib import Path

from ganeti.base.paths import Paths
from ganeti.node.collectors.owners import Owned, of_config
from ganeti.system.ssconf import ssconf, ssconf_words


def owners_by_own_config(paths: Paths, node: str) -> Owned | None:
    """What instances have on this node, which the cluster knows by the name *node*; None where it is not known."""
    try:
        candidates = ssconf_words(paths, "master_candidates")
        cluster = ssconf(paths, "cluster_name")
        if node not in candidates or not cluster:
            return None
        config = json.loads(Path(paths.config_file).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    match config:
        case {"cluster": {"cluster_name": str(name)}} if name == cluster:
            return of_config(config, node)
    return None
