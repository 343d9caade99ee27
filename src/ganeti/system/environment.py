# SPDX-License-Identifier: BSD-2-Clause
"""Which node this process belongs to: its paths and its name, from the process environment (D9)."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from ganeti.base.names import is_named
from ganeti.base.paths import Paths
from ganeti.system.ssconf import ssconf

_ANY_ADDRESS = {"2": "0.0.0.0", "10": "::"}
"""By the address family of the cluster, as ssconf has it."""


@dataclass(frozen=True)
class Environment:
    paths: Paths
    hostname: str
    """Full name of this node, as `hostname` gives it: the cluster knows the node by it."""

    def is_named(self, node_name: str) -> bool:
        """True if *node_name* is this node; a host that only knows its short name is accepted."""
        return is_named(self.hostname, node_name)


def read_environment(variables: Mapping[str, str] = os.environ) -> Environment:
    """`GANETI_ROOTDIR` and `GANETI_HOSTNAME` make this process one node of a virtual cluster."""
    root = variables.get("GANETI_ROOTDIR", "").rstrip("/")
    return Environment(Paths(root), variables.get("GANETI_HOSTNAME") or socket.gethostname())


def any_address(paths: Paths) -> str:
    """What a daemon listens on unless it is told otherwise: all addresses, of IPv6 too where the cluster has it."""
    return _ANY_ADDRESS.get(ssconf(paths, "primary_ip_family"), _ANY_ADDRESS["2"])
