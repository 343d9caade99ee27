# SPDX-License-Identifier: BSD-2-Clause
"""Instances as queries show them: the computed status, and that every field of every resource has an answer."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeNodes
from tests.fakes.node_answers import found_instance, node_facts
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import GanetiError, TransportError
from ganeti.master.query import resources
from ganeti.master.query.collecting import NODE_ANSWER_S, SILENT_ANSWER_S, Inquiry, NodeAsker, collector
from ganeti.master.query.fields import Missing, QueryWorld
from ganeti.master.query.instance_rows import InstanceRow, LiveInstance
from ganeti.master.query.running import run_query
from ganeti.model.copies import Copies, Copy
from ganeti.model.membership import Membership
from ganeti.model.node_calls.instances import AllInstancesInfo
from ganeti.model.objects import Instance, Network, Nic
from ganeti.ports.nodes import NodeAnswer

PRIMARY = "uuid-node1"
RUNNING = replace(found_instance(memory_mib=512), vcpus=2)
SHUT_DOWN = replace(RUNNING, state="shutdown")


def cluster_with(**instance: Any) -> Any:
    config = configuration()
    nics = [Nic(mac="aa:00:00:00:00:01", uuid="nic", network="net", nicparams={})]
    given = {"name": "web1", "primary_node": PRIMARY, "hypervisor": "pretend", "os": "noop", "nics": nics, **instance}
    config.put("instances", "inst", Instance(uuid="inst", **given))
    config.put("networks", "net", Network(uuid="net", name="net1", network="192.0.2.0/29", reservations="11000001"))
    return config


@pytest.mark.parametrize(
    ("state", "source", "live", "status"),
    [
        ("up", "admin", LiveInstance(True, PRIMARY, RUNNING), "running"),
        ("down", "admin", LiveInstance(True, PRIMARY, RUNNING), "ERROR_up"),
        ("up", "admin", LiveInstance(True), "ERROR_down"),
        ("down", "admin", LiveInstance(True), "ADMIN_down"),
        ("down", "user", LiveInstance(True), "USER_down"),
        ("offline", "admin", LiveInstance(True), "ADMIN_offline"),
        ("up", "admin", LiveInstance(True, "uuid-node2", RUNNING), "ERROR_wrongnode"),
        ("up", "admin", LiveInstance(False), "ERROR_nodedown"),
        ("up", "admin", None, "ERROR_nodedown"),
        ("up", "admin", LiveInstance(True, PRIMARY, SHUT_DOWN), "USER_down"),
        ("down", "admin", LiveInstance(True, PRIMARY, SHUT_DOWN), "ADMIN_down"),
    ],
)
def test_status(state, source, live, status):
    config = cluster_with(admin_state=state, admin_state_source=source)
    config.put("cluster", "cluster", replace(config.cluster, enabled_user_shutdown=True))
    row = InstanceRow(config.instance("inst"), QueryWorld(config, catalogue()), live)
    assert row.status == status


def test_status_without_user_shutdown_and_on_an_offline_node():
    config = cluster_with(admin_state="up")
    world = QueryWorld(config, catalogue())
    row = InstanceRow(config.instance("inst"), world, LiveInstance(True, PRIMARY, SHUT_DOWN))
    assert row.status == "ERROR_down" and row.running is False
    config.put("nodes", PRIMARY, replace(config.node(PRIMARY), offline=True))
    row = InstanceRow(config.instance("inst"), world)
    assert row.status == "ERROR_nodeoffline"
    assert isinstance(row.running, Missing) and row.running.status == 4


async def no_copies() -> Copies:
    raise TransportError("WConfD is not there")


def ask(config: Any, what: str, fields: list[str], handlers: dict[str, Any], dead: set[str] | None = None) -> Any:
    world = QueryWorld(config, catalogue())
    nodes = FakeNodes(config, [])
    nodes.handlers = handlers
    nodes.dead = dead or set()
    resource = resources.build(catalogue())[what]
    collect = collector(Inquiry(world, NodeAsker(nodes), no_copies))
    _, data = asyncio.run(run_query(resource, resource.rows(world), fields, None, collect))
    return data


def test_live_fields_of_instances_come_from_wherever_they_run():
    config = cluster_with(admin_state="up")
    found = {"all_instances_info": lambda name, **arguments: [msgspec.to_builtins(RUNNING)] if name == "node1" else []}
    fields = ["status", "oper_state", "oper_ram", "oper_vcpus"]
    assert ask(config, "instance", fields, found) == [[[0, "running"], [0, True], [0, 512], [0, 2]]]
    nowhere = {"all_instances_info": lambda name, **arguments: []}
    assert ask(config, "instance", fields, nowhere) == [[[0, "ERROR_down"], [0, False], [3, None], [3, None]]]
    assert ask(config, "instance", fields, found, {"node1"}) == [
        [[0, "ERROR_nodedown"], [2, None], [2, None], [2, None]]
    ]


def test_live_fields_of_nodes():
    config = configuration()
    config.put("nodes", "uuid-node2", replace(config.node("uuid-node2"), offline=True))
    info = node_facts(memory_free_mib=7, storage_free_mib=40)
    data = ask(config, "node", ["name", "mfree", "dfree"], {"node_info": lambda name, **arguments: info}, {"node3"})
    assert data == [
        [[0, "node1"], [0, 7], [0, 40]],
        [[0, "node2"], [4, None], [4, None]],
        [[0, "node3"], [2, None], [2, None]],
    ]


def test_a_node_that_tells_of_less_storage_than_was_asked_has_not_answered():
    """What a node without the template tells, as one of another release: the others are listed."""
    facts = {"node1": node_facts(storage_free_mib=None), "node2": node_facts(), "node3": node_facts()}
    data = ask(configuration(), "node", ["name", "mfree"], {"node_info": lambda name, **_: facts[name]})
    assert [status for _, (status, _) in data] == [2, 0, 0]


@pytest.mark.parametrize("what", ["node", "instance", "group", "network", "filter"])
def test_every_field_has_an_answer(what):
    config = cluster_with()
    names = list(resources.build(catalogue())[what].fields)
    for row in ask(config, what, names, {"all_instances_info": lambda name, **arguments: []}):
        assert all(status in range(5) and status != 1 for status, _ in row)
        assert all(value is None for status, value in row if status != 0)


def test_parameters_and_aliases():
    fields = ["be/memory", "vcpus", "hv/kernel", "nic.network.name/0", "nic_mode", "nic.mac/1", "disk.count", "ip"]
    config = cluster_with(beparams={"maxmem": 256}, hvparams={"kernel": "/k"})
    (row,) = ask(config, "instance", fields, {})
    assert row == [[0, 256], [0, 1], [0, "/k"], [0, "net1"], [0, "bridged"], [3, None], [0, 0], [3, None]]


def test_networks_count_their_addresses():
    (row,) = ask(cluster_with(), "network", ["map", "free_count", "reserved_count", "inst_list", "gateway"], {})
    assert row == [[0, "XX.....X"], [0, 5], [0, 3], [0, ["web1"]], [3, None]]


def test_a_silent_node_is_not_waited_for_twice():
    config = cluster_with(admin_state="up")
    asked: list[tuple[str, float]] = []

    class Nodes(FakeNodes):
        async def call(self, node_uuid: str, call: str, /, *, deadline_s: float | None = None, **arguments: Any) -> Any:
            asked.append((node_uuid, deadline_s or 0))
            return await super().call(node_uuid, call, **arguments)

        async def call_many(self, node_uuids, call, /, *, deadline_s=None, **arguments):
            answers = []
            for uuid in node_uuids:
                try:
                    answers.append(NodeAnswer(uuid, await self.call(uuid, call, deadline_s=deadline_s, **arguments)))
                except GanetiError as err:
                    answers.append(NodeAnswer(uuid, error=err))
            return answers

    nodes = Nodes(config, [])
    nodes.dead = {config.node(PRIMARY).name}
    asker = NodeAsker(nodes)
    told: list[tuple[str, bool]] = []
    asker.observers.append(lambda uuid, answered: told.append((uuid, answered)))
    for _ in range(2):
        asyncio.run(asker.ask([PRIMARY], AllInstancesInfo(hypervisors={})))
    nodes.dead = set()
    for _ in range(2):
        asyncio.run(asker.ask([PRIMARY], AllInstancesInfo(hypervisors={})))
    assert [deadline_s for _, deadline_s in asked] == [NODE_ANSWER_S, SILENT_ANSWER_S, SILENT_ANSWER_S, NODE_ANSWER_S]
    assert told == [(PRIMARY, False), (PRIMARY, True)]


def test_a_candidate_that_has_not_been_heard_of_is_waited_for_briefly_from_the_first_time_on():
    config = cluster_with(admin_state="up")
    given: dict[str, list[float]] = {}

    class Nodes(FakeNodes):
        async def call_many(self, node_uuids, call, /, *, deadline_s=None, **arguments):
            for uuid in node_uuids:
                given.setdefault(uuid, []).append(deadline_s)
            return [NodeAnswer(uuid, []) for uuid in node_uuids]

    questions = []

    async def copies() -> Copies:
        questions.append("copies")
        known = {PRIMARY: Copy(state="away"), "uuid-node2": Copy(state="in-sync")}
        return Copies(
            epoch=2, membership=Membership(version=(2, 1), members=("uuid-node2",)), position=(2, 1), nodes=known
        )

    asker = NodeAsker(Nodes(config, []), copies)
    for _ in range(2):
        asyncio.run(asker.ask([PRIMARY, "uuid-node2"], AllInstancesInfo(hypervisors={})))
    assert given == {PRIMARY: [SILENT_ANSWER_S, NODE_ANSWER_S], "uuid-node2": [NODE_ANSWER_S, NODE_ANSWER_S]}
    assert len(questions) == 1 and not asker.silent
