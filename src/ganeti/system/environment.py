# SPDX-License-Identifier: BSD-2-Clause
"""Which node this process belongs to: its paths and its name, from the process environment (D9)."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from ganeti.base.paths import Paths


@dataclass(frozen=True)
class Environment:
    paths: Paths
    hostname: str
    """Full name of this node, as `hostname` gives it: the cluster knows the node by it."""

    def is_named(self, node_name: str) -> bool:
        """True if *node_name* is this node; a host that only knows its short name is accepted."""
        return node_name == self.hostname or ("." not in self.hostname and node_name.startswith(self.hostname + "."))


def read_environment(variables: Mapping[str, str] = os.environ) -> Environment:
    """`GANETI_ROOTDIR` and `GANETI_HOSTNAME` make this process one node of a virtual cluster."""
    root = variables.get("GANETI_ROOTDIR", "").rstrip("/")
    return Environment(Paths(root), variables.get("GANETI_HOSTNAME") or socket.gethostname())
