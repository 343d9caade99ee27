# SPDX-License-Identifier: BSD-2-Clause
"""What answers about large clusters cost: nothing is gone through once a row, and nobody is asked in vain."""

import asyncio
from typing import Any

import pytest
from tests.fakes.context import FakeNodes
from tests.fakes.node_answers import disk_status, guest
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import TransportError
from ganeti.master.query import resources
from ganeti.master.query.collecting import Inquiry, NodeAsker, collector
from ganeti.master.query.fields import FullNames, QueryWorld, StoredRows
from ganeti.master.query.running import run_query
from ganeti.model.configuration import Configuration
from ganeti.model.copies import Copies
from ganeti.model.objects import Network, Nic, NodeGroup

NODES = 4


def cluster() -> Configuration:
    """Each instance has the same number as its node, and its other copy on node1."""
    config: Configuration = configuration(NODES)
    for number in range(5):
        config.put("nodegroups", f"group{number}", NodeGroup(uuid=f"group{number}", name=f"group{number}"))
        config.put(
            "networks", f"net{number}", Network(uuid=f"net{number}", name=f"net{number}", network="192.0.2.0/29")
        )
    for number in range(2, NODES + 1):
        made = add_instance(config, f"web{number}.example.com", f"uuid-node{number}", template="local")
        [disk] = config.instance_disks(made)
        config.put("disks", disk.uuid, _with(disk, nodes=[made.primary_node, "uuid-node1"]))
        nic = Nic(mac="aa:00:00:00:00:01", uuid=f"nic{number}", network="net1")
        config.put("instances", made.uuid, _with(made, nics=[nic]))
    return config


def _with(obj: Any, **values: Any) -> Any:
    from msgspec.structs import replace

    return replace(obj, **values)


class Counted(Configuration):
    """Counts how often all instances and all nodes are gone through."""

    passes = 0

    def all(self, kind: str) -> list[Any]:
        self.passes += kind in ("instances", "nodes")
        return super().all(kind)


def test_lists_of_groups_networks_and_nodes_go_through_the_instances_once() -> None:
    for what, fields, passes in (
        ("group", ["node_list", "pinst_cnt", "pinst_list"], 2),
        ("network", ["inst_cnt", "inst_list"], 1),
        ("node", ["pinst_cnt", "pinst_list", "sinst_cnt", "sinst_list"], 3),
    ):
        config = Counted.from_plain(cluster().to_plain())
        assert isinstance(config, Counted)
        rows = answer(config, what, fields)
        assert len(rows) > 3
        assert config.passes == passes, what
    assert answer(cluster(), "network", ["name", "inst_list"])[1] == [
        "net1",
        [f"web{n}.example.com" for n in (2, 3, 4)],
    ]
    assert answer(cluster(), "node", ["pinst_list", "sinst_cnt"])[:2] == [[[], 3], [["web2.example.com"], 0]]
    assert answer(cluster(), "group", ["name", "pinst_cnt", "node_cnt"])[0] == ["default", 3, 4]


def answer(config: Configuration, what: str, fields: list[str], nodes: FakeNodes | None = None, name: str = "") -> Any:
    world, resource = QueryWorld(config, catalogue()), resources.build(catalogue())[what]
    assert isinstance(resource.rows, StoredRows)
    qfilter = ["==", resource.key, name] if name else None
    rows = resource.rows.named(world, [name]) if name else resource.rows(world)
    assert rows is not None
    collect = collector(Inquiry(world, NodeAsker(nodes or FakeNodes(config, [])), _no_copies))
    _, data = asyncio.run(run_query(resource, rows, fields, qfilter, collect))
    return [[value for _, value in row] for row in data]


async def _no_copies() -> Copies:
    raise TransportError("WConfD is not there")


def test_only_the_rows_that_are_named_are_made() -> None:
    world, rows = QueryWorld(cluster(), catalogue()), resources.build(catalogue())["instance"].rows
    assert isinstance(rows, StoredRows)

    def named(*names: Any) -> list[str] | None:
        found = rows.named(world, names)
        return None if found is None else [row.instance.name for row in found]

    assert named("web3.example.com") == ["web3.example.com"]
    assert named("web4", "web2", "web4.example") == ["web2.example.com", "web4.example.com"]
    assert named("web3", "gone") is None, "the message about it names those there are"
    assert named("web", 3) is None
    groups = resources.build(catalogue())["group"].rows
    assert isinstance(groups, StoredRows)
    assert groups.named(world, ["def"]) is None


@pytest.mark.parametrize(
    ("name", "full"),
    [("a.b.c", "a.b.c"), ("a.b", "a.b.c"), ("a", None), ("d", "d.e"), ("d.", None), ("d.e.f", None), (7, None)],
)
def test_a_host_is_found_by_the_first_parts_of_its_name_if_it_is_the_only_one(name: Any, full: str | None) -> None:
    names = ["a.b.c", "a.x", "d.e", "de.f"]
    assert FullNames(names, names.__contains__).of(name) == full


def test_one_instance_is_asked_for_at_its_own_nodes() -> None:
    config, story = cluster(), list[str]()
    nodes = FakeNodes(config, story)
    nodes.handlers["all_instances_info"] = lambda name, **_: [guest(f"web{name[-1]}.example.com")]
    assert answer(config, "instance", ["oper_state"], nodes, "web3") == [[True]]
    assert story == ["node1 all_instances_info", "node3 all_instances_info"]


def test_a_guest_that_is_not_there_is_looked_for_everywhere() -> None:
    config, story = cluster(), list[str]()
    nodes = FakeNodes(config, story)
    nodes.handlers["all_instances_info"] = lambda name, **_: [guest("web3.example.com")] if name == "node4" else []
    assert answer(config, "instance", ["status"], nodes, "web3") == [["ERROR_wrongnode"]]
    assert sorted(story) == [f"node{number} all_instances_info" for number in range(1, NODES + 1)]


def test_each_node_is_asked_once_for_the_copies_of_all_disks() -> None:
    config, story = cluster(), list[str]()
    added = add_instance(config, "web9.example.com", "uuid-node2", template="local")
    [disk] = config.instance_disks(added)
    config.put("disks", disk.uuid, _with(disk, nodes=["uuid-node2", "uuid-node1"]))
    nodes = FakeNodes(config, story)

    def find(name: str, disks: list[Any]) -> list[Any]:
        if name == "node3":
            return [{"fault": "no such device"}]
        return [{"status": disk_status(is_degraded=True, sync_percent=40.0 + number)} for number, _ in enumerate(disks)]

    nodes.handlers["blockdev_find_each"] = find
    found = answer(config, "instance", ["name", "disk.sync_percents"], nodes)
    assert [[name.partition(".")[0], percents] for name, percents in found] == [
        *(["web2", [40.0]], ["web3", None], ["web4", [40.0]], ["web9", [41.0]])
    ]
    assert sorted(story) == [f"node{number} blockdev_find_each" for number in (2, 3, 4)]


def test_the_map_of_a_large_network_has_what_was_given_away_and_what_is_kept() -> None:
    config = cluster()
    bits = "1" * 100 + "0" * 65436
    net = Network(uuid="net1", name="net1", network="10.0.0.0/16", reservations=bits, ext_reservations="01" * 101)
    config.put("networks", "net1", net)
    fields = ["map", "free_count", "reserved_count", "external_reservations"]
    [shown, free, taken, kept] = answer(config, "network", fields, name="net1")[0]
    assert shown == "X" * 100 + ".X" * 51 + "." * (65536 - 202)
    assert (free, taken) == (65536 - 151, 151)
    assert kept.split(", ") == [f"10.0.0.{number}" for number in range(1, 202, 2)]
