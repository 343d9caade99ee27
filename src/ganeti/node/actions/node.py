# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about the machine itself: version, capacity, names, addresses, bridges."""

import os
import socket

from ganeti.base.errors import ParameterError
from ganeti.model.node_calls.node import NodeFacts, NodeInfo
from ganeti.model.objects import CONFIG_VERSION
from ganeti.node.actions.instances import find_instances
from ganeti.node.actions.registry import DAY_S, FAST_S, URGENT_S, answers, node_call
from ganeti.node.actions.storage import space_of
from ganeti.node.state import NodeState
from ganeti.system.boot import boot_identity


@node_call(timeout_s=URGENT_S, changes=False)
async def version(node: NodeState) -> int:
    """The version of the protocol, which is that of the configuration."""
    return CONFIG_VERSION


@answers(NodeInfo, timeout_s=URGENT_S, changes=False)
async def node_info(node: NodeState, asked: NodeInfo) -> NodeFacts:
    """Guests first: one that starts between the two is then counted twice, and not left out of both."""
    found = await find_instances(node, list(asked.hypervisors)) if asked.guests else None
    return NodeFacts(
        guests=found,
        boot_id=boot_identity(),
        storage=[await space_of(node, unit) for unit in asked.storage],
        hypervisors={name: await node.hypervisor(name).capacity() for name in asked.hypervisors},
    )


@node_call(timeout_s=URGENT_S, changes=False)
async def master_node_name(node: NodeState) -> str:
    """Whom this node takes for the master: its vote when a daemon asks whether it may serve."""
    path = node.paths.ssconf_file("master_node")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError as err:
        raise ParameterError(f"This node knows no master: {path} is missing") from err


@node_call(timeout_s=FAST_S, changes=False)
async def node_has_ip_address(node: NodeState, *, address: str) -> bool:
    return owns_address(address)


def owns_address(address: str) -> bool:
    """Whether *address* is one of this machine's."""
    try:
        family, _, _, _, target = socket.getaddrinfo(address, 0, flags=socket.AI_NUMERICHOST)[0]
    except OSError as err:
        raise ParameterError(f"'{address}' is not an address: write one such as 192.0.2.1") from err
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(target)
        except OSError:
            return False
    return True


@node_call(timeout_s=URGENT_S, changes=False)
async def bridges_exist(node: NodeState, *, bridges: list[str]) -> list[str]:
    """The names among *bridges* that are no bridges of this node: empty when all is well."""
    return missing_bridges(bridges)


def missing_bridges(bridges: list[str]) -> list[str]:
    for name in bridges:
        if "/" in name or name in ("", ".", ".."):
            raise ParameterError(f"'{name}' is not the name of a network interface")
    return [name for name in bridges if not os.path.isdir(f"/sys/class/net/{name}/bridge")]


@node_call(timeout_s=DAY_S, changes=False)
async def test_delay(node: NodeState, *, duration: float) -> None:
    """Do nothing for *duration* seconds."""
    if duration < 0:
        raise ParameterError(f"A delay cannot last {duration:g} seconds: give a positive number")
    await node.world.sleep(duration)


@node_call(timeout_s=FAST_S, changes=False)
async def abort_attempt(node: NodeState, *, job: int, attempt: int) -> int:
    """End everything that attempts up to *attempt* of *job* do here, and refuse what they may still ask.

    Answers when it has ended, with the number of calls that were. Its caller is the successor, which undoes.
    """
    ended = await node.calls.abort(job, attempt)
    node.world.log(f"job {job} attempts up to {attempt} superseded, {ended} running calls ended")
    return ended
