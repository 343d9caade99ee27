# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that run what the administrator of the node allows (protocols, section 11), or restart the node."""

import asyncio
import fcntl
import os

from ganeti.base.errors import CommandError, ExecutionError
from ganeti.model.node_calls import SLOW_S
from ganeti.model.node_calls.commands import NodePowercycle, RepairCommand, RestrictedCommand
from ganeti.node import white_list
from ganeti.node.actions.registry import answers
from ganeti.node.state import NodeState
from ganeti.system.files import open_lock

LOCK_TIMEOUT_S = 8.0
INVALID_DELAY_S = 10.0
"""How long the lock is held after a command that may not run: names are not to be tried one after the other."""
_POLL_S = 0.1
REBOOT_DELAY_S = 5.0
_REBOOT = "/sbin/reboot"
_scheduled: set[asyncio.Future[None]] = set()


@answers(RestrictedCommand)
async def restricted_command(node: NodeState, asked: RestrictedCommand) -> str:
    """Run a command of the white list, without arguments; raises `ExecutionError`, whose reason is in the log."""
    directory = node.paths.restricted_commands_dir
    if not os.path.isdir(directory):
        raise ExecutionError(f"Restricted commands are off on this node: make {directory}, of root and mode 0755")
    return await _run_allowed(node, directory, asked.name, b"")


@answers(RepairCommand)
async def repair_command(node: NodeState, asked: RepairCommand) -> str:
    """Run a repair command with what it is given to read; raises as `restricted_command`."""
    return await _run_allowed(node, node.paths.repair_commands_dir, asked.name, asked.input.encode())


@answers(NodePowercycle)
async def node_powercycle(node: NodeState, asked: NodePowercycle) -> str:
    """Restart the machine shortly after the answer; raises `ExecutionError` where it has no program for that."""
    program = node.paths.under(_REBOOT)
    if not os.access(program, os.X_OK):
        raise ExecutionError(f"There is no program {program}: use gnt-node power cycle, or the machine's switch")

    async def reboot() -> None:
        await node.world.sleep(REBOOT_DELAY_S)
        node.world.log("Restarting this machine, as gnt-node powercycle asks")
        await node.world.spawn([program, "-f"])

    _keep(asyncio.ensure_future(reboot()))
    return f"Reboot scheduled in {REBOOT_DELAY_S:.0f} seconds"


def _keep(task: asyncio.Future[None]) -> None:
    """Event loops keep no reference to what nobody waits for."""
    _scheduled.add(task)
    task.add_done_callback(_scheduled.discard)


async def _run_allowed(node: NodeState, directory: str, name: str, stdin: bytes) -> str:
    await _look_up(node, directory, name)
    try:
        words = [f"{directory}/{name}"]
        done = await node.world.run(words, env={}, stdin=stdin, timeout_s=SLOW_S, check=False, leaves_background=True)
    except CommandError as err:
        raise ExecutionError(f"Command '{name}' failed: {err}") from err
    if done.status:
        raise ExecutionError(f"Command '{name}' failed with status {done.status}; output: {done.output}")
    return done.stdout + done.stderr


async def _look_up(node: NodeState, directory: str, name: str) -> None:
    """Raise `ExecutionError` unless the command may run; why not stands in this node's log alone."""
    os.makedirs(node.paths.lock_dir, exist_ok=True)
    descriptor = open_lock(node.paths.restricted_commands_lock, 0o600)
    try:
        if not await _locked(node, descriptor):
            fault: str | None = f"the lock {node.paths.restricted_commands_lock} is held"
        else:
            owner = (os.geteuid(), os.getegid())  # root, but in tests
            fault = white_list.fault_of(directory, name, owner, links=True)
            if fault is not None:
                await node.world.sleep(INVALID_DELAY_S)
    finally:
        os.close(descriptor)
    if fault is not None:
        node.world.log(f"The command '{name}' is not run: {fault}")
        raise ExecutionError(f"Executing command '{name}' failed: the log of the node daemon says why")


async def _locked(node: NodeState, descriptor: int) -> bool:
    for _ in range(round(LOCK_TIMEOUT_S / _POLL_S)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await node.world.sleep(_POLL_S)
        else:
            return True
    return False
