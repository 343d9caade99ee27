# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about the daemons of a node, the watcher's pause, and leaving the cluster."""

from ganeti.model.node_calls import URGENT_S, NodeRequest


class NodeEnsureDaemon(NodeRequest[None], frozen=True, kw_only=True):
    """Start a daemon of this node that is not running, or stop one."""

    answer_within_s = URGENT_S
    daemon: str
    run: bool


class GetWatcherPause(NodeRequest[float | None], frozen=True, kw_only=True):
    """Until when (seconds since the epoch) the watcher pauses; null when it does not."""

    answer_within_s = URGENT_S
    changes_node = False


class SetWatcherPause(NodeRequest[None], frozen=True, kw_only=True):
    """Pause the watcher until a time, or with null let it go on."""

    answer_within_s = URGENT_S
    until: float | None


class NodeLeaveCluster(NodeRequest[None], frozen=True, kw_only=True):
    """Forget the cluster: its configuration, queue, keys and certificates go, then the daemons end.

    With *modify_ssh_setup*, root of the cluster's nodes may not log in here any more.
    """

    answer_within_s = URGENT_S
    modify_ssh_setup: bool = False
