# SPDX-License-Identifier: BSD-2-Clause
"""The node call that switches other machines' power: it is made to the master, which has the programs."""

from ganeti.base.errors import CommandError, ExecutionError
from ganeti.model.node_calls.programs import RunOob
from ganeti.node.actions.registry import answers
from ganeti.node.state import NodeState


@answers(RunOob)
async def run_oob(node: NodeState, asked: RunOob) -> str:
    oob_program = asked.oob_program
    if not oob_program.startswith("/"):
        raise ExecutionError(f"'{oob_program}' is not a program's full path: set the node parameter oob_program to one")
    try:
        done = await node.world.run(
            [node.paths.under(oob_program), asked.command, asked.remote_node],
            timeout_s=asked.timeout,
            leaves_background=True,
        )
    except CommandError as err:
        raise ExecutionError(str(err)) from err
    return done.stdout
