# SPDX-License-Identifier: BSD-2-Clause
"""How a network is told to scripts: the same for hooks, an OS and the connection of NICs (protocols, 8 and 10)."""

from collections.abc import Mapping
from typing import Any

_NAMES = (
    ("NETWORK_NAME", "name"),
    ("NETWORK_UUID", "uuid"),
    ("NETWORK_SUBNET", "network"),
    ("NETWORK_GATEWAY", "gateway"),
    ("NETWORK_SUBNET6", "network6"),
    ("NETWORK_GATEWAY6", "gateway6"),
    ("NETWORK_MAC_PREFIX", "mac_prefix"),
)


def network_variables(network: Mapping[str, Any]) -> dict[str, str]:
    """The variables of a network in the form of `config.data`; what it does not have is left out, tags apart."""
    values = {name: str(network[key]) for name, key in _NAMES if network.get(key)}
    values["NETWORK_TAGS"] = " ".join(network.get("tags") or ())
    return values
