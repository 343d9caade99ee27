# SPDX-License-Identifier: BSD-2-Clause
"""The node call that switches other machines' power: it is made to the master, which has the programs."""

from ganeti.base.errors import CommandError, ExecutionError
from ganeti.model.power import PowerCommand
from ganeti.node.actions.registry import SLOW_S, node_call
from ganeti.node.state import NodeState


@node_call(timeout_s=SLOW_S)
async def run_oob(node: NodeState, *, oob_program: str, command: PowerCommand, remote_node: str, timeout: float) -> str:
    """Give what the out-of-band program prints; raises `ExecutionError` if it fails or takes *timeout* seconds."""
    if not oob_program.startswith("/"):
        raise ExecutionError(f"'{oob_program}' is not a program's full path: set the node parameter oob_program to one")
    try:
        done = await node.world.run([node.paths.under(oob_program), command, remote_node], timeout_s=timeout)
    except CommandError as err:
        raise ExecutionError(str(err)) from err
    return done.stdout
