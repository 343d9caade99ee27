# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about the machine itself: version, capacity, names, addresses, bridges."""

import ipaddress
import os
import socket

from ganeti.base.errors import ParameterError
from ganeti.model.node_calls.mastership import MasterNodeName
from ganeti.model.node_calls.node import (
    AbortAttempt,
    BridgesExist,
    NodeFacts,
    NodeHasIpAddress,
    NodeInfo,
    TestDelay,
    Version,
)
from ganeti.model.objects import CONFIG_VERSION
from ganeti.node.actions.instances import find_instances
from ganeti.node.actions.registry import answers
from ganeti.node.actions.storage import space_of
from ganeti.node.state import NodeState
from ganeti.system.boot import boot_identity


@answers(Version)
async def version(node: NodeState, asked: Version) -> int:
    return CONFIG_VERSION


@answers(NodeInfo)
async def node_info(node: NodeState, asked: NodeInfo) -> NodeFacts:
    """Guests first: one that starts between the two is then counted twice, and not left out of both."""
    found = await find_instances(node, list(asked.hypervisors)) if asked.guests else None
    return NodeFacts(
        guests=found,
        boot_id=boot_identity(),
        storage=[await space_of(node, unit) for unit in asked.storage],
        hypervisors={name: await node.hypervisor(name).capacity() for name in asked.hypervisors},
    )


@answers(MasterNodeName)
async def master_node_name(node: NodeState, asked: MasterNodeName) -> str:
    path = node.paths.ssconf_file("master_node")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError as err:
        raise ParameterError(f"This node knows no master: {path} is missing") from err


@answers(NodeHasIpAddress)
async def node_has_ip_address(node: NodeState, asked: NodeHasIpAddress) -> bool:
    return owns_address(asked.address)


def owns_address(address: str) -> bool:
    """Whether *address* is one of this machine's."""
    try:
        family, _, _, _, target = socket.getaddrinfo(address, 0, flags=socket.AI_NUMERICHOST)[0]
    except OSError as err:
        raise ParameterError(f"'{address}' is not an address: write one such as 192.0.2.1") from err
    if ipaddress.ip_address(address.partition("%")[0]).is_unspecified:
        return False  # every machine can listen there
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(target)
        except OSError:
            return False
    return True


@answers(BridgesExist)
async def bridges_exist(node: NodeState, asked: BridgesExist) -> list[str]:
    return missing_bridges(asked.bridges)


def missing_bridges(bridges: list[str]) -> list[str]:
    for name in bridges:
        if "/" in name or name in ("", ".", ".."):
            raise ParameterError(f"'{name}' is not the name of a network interface")
    return [name for name in bridges if not os.path.isdir(f"/sys/class/net/{name}/bridge")]


@answers(TestDelay)
async def test_delay(node: NodeState, asked: TestDelay) -> None:
    duration = asked.duration
    if duration < 0:
        raise ParameterError(f"A delay cannot last {duration:g} seconds: give a positive number")
    await node.world.sleep(duration)


@answers(AbortAttempt)
async def abort_attempt(node: NodeState, asked: AbortAttempt) -> int:
    ended = await node.calls.abort(asked.job, asked.attempt)
    node.world.log(f"job {asked.job} attempts up to {asked.attempt} superseded, {ended} running calls ended")
    return ended
