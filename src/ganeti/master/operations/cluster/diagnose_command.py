# SPDX-License-Identifier: BSD-2-Clause
"""Whether nodes have the diagnose command that the cluster is to use: one that is missing says nothing, for ever."""

from dataclasses import dataclass

from ganeti.base.paths import Paths
from ganeti.model.node_calls.verify import NodeChecks, NodeVerify
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask_many

DIRECTORY = Paths().diagnose_commands_dir


@dataclass(frozen=True)
class Missing:
    """Sentences about nodes without the command: *problem* where none has it, *note* where some have."""

    problem: str = ""
    note: str = ""


async def missing(ctx: OperationContext, view: ConfigView, name: str) -> Missing:
    """Ask the nodes in service; one that does not answer counts for nothing."""
    path = f"{DIRECTORY}/{name}"
    nodes = [node.uuid for node in view.nodes() if not node.offline]
    answers = await ask_many(ctx.nodes, nodes, NodeVerify(checks=NodeChecks(filelist=[path])))
    told = {each.node_uuid: each.value.filelist for each in answers if each.error is None and each.value.filelist}
    without = sorted(view.node(uuid).name for uuid, found in told.items() if found.get(path) is None)
    if without and len(without) == len(told):
        where = f"put it into {DIRECTORY} of each node first"
        return Missing(problem=f"No node has the diagnose command '{name}': {where}")
    if without:
        return Missing(note=f"There is no {path} on {', '.join(without)}: put it there, or the node counts as well")
    return Missing()
