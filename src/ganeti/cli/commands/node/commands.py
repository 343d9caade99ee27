# SPDX-License-Identifier: BSD-2-Clause
"""gnt-node restricted-command: the same command on several nodes, the output of each."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.commands.cluster.ssh import online_nodes
from ganeti.cli.failures import Failure
from ganeti.cli.invocation import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation

_LINE = "-" * 48


def run(call: Invocation) -> int:
    """Status 1 where it failed on a node."""
    if not call.get("nodes") and call.get("nodegroup") is None:
        raise Failure("gnt-node restricted-command needs nodes: name them, or a node group with -g")
    nodes = [node.name for node in online_nodes(call)]
    given = call.parameters("nodes", "nodegroup", "show_machine_names")
    answers = jobs.submit_or_wait(call, {"OP_ID": call.command.op_id, "nodes": nodes, **given})
    if answers is jobs.SUBMITTED:
        return 0
    for node, (succeeded, text) in zip(nodes, answers, strict=True):
        out(_LINE)
        if not succeeded:
            out(f"node: {node}\nerror: {text}")
        elif call.get("show_machine_names"):
            for line in text.splitlines():
                out(f"{node}: {line}")
        else:
            out(f"node: {node}")
            out(text)
    return 0 if all(succeeded for succeeded, _ in answers) else 1
