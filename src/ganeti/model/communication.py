# SPDX-License-Identifier: BSD-2-Clause
"""Instance communication: the NIC by which a guest reaches the metadata of its own node (protocols, 21).

Its name begins with `PREFIX`; its network is one of link-local addresses, which means something on the node alone.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

PREFIX = "ganeti:communication:"
METADATA_ADDRESS = "169.254.169.254"
"""Where every guest finds its metadata: the node has it on each of these taps."""
METADATA_PORT = 80
NETWORK, NETWORK6 = "169.254.0.0/16", "fe80::/10"
MAC_PREFIX = "52:54:00"
NICPARAMS = {"mode": "routed", "link": "communication_rt", "vlan": ""}
"""How node groups attach NICs to the network, in the words of 3.1; the node's end is made by the hypervisor."""


class Named(Protocol):
    """What may be such a NIC."""

    @property
    def name(self) -> str | None: ...


SomeNic = TypeVar("SomeNic", bound=Named)


def nic_name(instance_name: str) -> str:
    return f"{PREFIX}{instance_name}"


def is_communication(nic: Named) -> bool:
    return (nic.name or "").startswith(PREFIX)


def nic_of(nics: Iterable[SomeNic]) -> SomeNic | None:
    """The NIC for communication among an instance's; None for an instance without one."""
    return next((nic for nic in nics if is_communication(nic)), None)
