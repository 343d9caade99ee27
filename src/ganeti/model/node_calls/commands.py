# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that run what the administrator of the node allows, or restart the node.

A command is named without its directory and gets no arguments. Of a command that may not run, the answer is the same
whatever is wrong with it, and comes after ten seconds: the reason stands in the log of the node.
"""

from ganeti.model.node_calls import SLOW_S, NodeRequest


class RestrictedCommand(NodeRequest[str], frozen=True, kw_only=True):
    """Run a command of the directory ``restricted-commands``; gives what it prints."""

    answer_within_s = SLOW_S
    name: str


class RepairCommand(NodeRequest[str], frozen=True, kw_only=True):
    """Run a command of the directory ``node-repair-commands``; gives what it prints."""

    answer_within_s = SLOW_S
    name: str
    input: str = ""
    """Its standard input: what the node's diagnose command has told."""


class NodePowercycle(NodeRequest[str], frozen=True, kw_only=True):
    """Restart the machine without stopping anything; gives when that is.

    The node answers first, so that the job ends. It fails where ``/sbin/reboot`` is missing: nothing else is tried,
    and the machine keeps running.
    """
