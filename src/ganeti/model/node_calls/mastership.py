# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about who is the master, and about the address of the cluster, which is where the master is."""

import msgspec

from ganeti.model.node_calls import URGENT_S, NodeRequest


class MasterAddress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ip: str
    netdev: str
    netmask: int
    """Length of the prefix."""
    ip_family: int = 2
    """2 for IPv4, 10 for IPv6."""


class MasterEnded(msgspec.Struct, frozen=True, kw_only=True):
    """What was ended."""

    daemons: list[str] = []
    jobs: int = 0
    """How many were running."""


class NodeStopMaster(NodeRequest[MasterEnded], frozen=True, kw_only=True):
    """End the daemons of a master and its jobs here, and give the cluster's address up, for another node to take over.

    Harmless where none runs.
    """

    answer_within_s = URGENT_S
    changes_node = False
    takes_slot = False


class NodeActivateMasterIp(NodeRequest[None], frozen=True, kw_only=True):
    """Take the cluster's address; harmless when this node has it. Refused while another machine answers there.

    The hooks `master-ip-turnup` run around it; raises `HooksAbort` where one of them says no.
    """

    master: MasterAddress
    use_external_mip_script: bool = False


class NodeDeactivateMasterIp(NodeRequest[None], frozen=True, kw_only=True):
    """Give the cluster's address up; harmless when this node does not have it.

    *on_purpose*, a user wants it down on the master: the watcher leaves it so until the next power-on. The hooks
    `master-ip-turndown` run around it. A node that is the master no longer must not keep the address: unless it is
    *on_purpose*, they have little time and cannot refuse.
    """

    master: MasterAddress
    use_external_mip_script: bool = False
    on_purpose: bool = False


class MasterNodeName(NodeRequest[str], frozen=True, kw_only=True):
    """Whom this node takes for the master: its vote when a daemon asks whether it may serve."""

    answer_within_s = URGENT_S
    changes_node = False
