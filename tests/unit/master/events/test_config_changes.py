# SPDX-License-Identifier: BSD-2-Clause
"""What a step of the configuration is told as."""

from msgspec.structs import replace
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.master.cache.replica import Replica
from ganeti.master.events.config_changes import ConfigStep, config_rows, node_rows
from ganeti.model.objects import Node
from ganeti.model.traits import Catalogue

CATALOGUE = Catalogue()


def step(event, replica):
    taken = ConfigStep(event, replica.configuration, CATALOGUE)
    replica.apply(event)
    return taken.events(replica.configuration)


SAMPLE = configuration()
add_instance(SAMPLE, "web1")


def filled():
    replica = Replica()
    replica.apply({"event": "snapshot", "position": [1, 5], "config": SAMPLE.to_plain()})
    return replica


def commit(put=(), remove=()):
    return {"event": "commit", "position": [1, 6], "put": [list(item) for item in put], "remove": list(remove)}


def test_objects_put_and_removed_are_named():
    replica = filled()
    instance = replica.configuration.instances()[0]
    node: Node = replica.configuration.nodes()[0]
    renewed = replace(node, serial_no=node.serial_no + 1, ndparams={"oob_program": "/bin/true"})
    event = commit([["nodes", node.uuid, renewed.to_plain()]], [["instances", instance.uuid]])
    config, nodes = step(event, replica)
    assert config == {
        "commit": [1, 6],
        "put": [["nodes", node.uuid, node.name, renewed.serial_no]],
        "remove": [["instances", instance.uuid, instance.name, instance.serial_no]],
    }
    assert nodes == []  # neither its name nor its role has changed


def test_a_change_of_role_is_an_event_of_the_node():
    replica = filled()
    node: Node = replica.configuration.nodes()[-1]
    changed = replace(node, drained=True, master_candidate=False)
    _, nodes = step(commit([["nodes", node.uuid, changed.to_plain()]]), replica)
    assert [(event["what"], event["uuid"], event["role"]) for event in nodes] == [("changed", node.uuid, "D")]


def test_nodes_come_and_go():
    replica = filled()
    node: Node = replica.configuration.nodes()[-1]
    new = replace(node, uuid="new", name="new.example.com")
    event = commit([["nodes", "new", new.to_plain()]], [["nodes", node.uuid]])
    _, nodes = step(event, replica)
    assert [(event["what"], event["name"]) for event in nodes] == [
        ("added", "new.example.com"),
        ("removed", node.name),
    ]


def test_a_whole_new_configuration_is_told_by_its_differences():
    replica = filled()
    plain = SAMPLE.to_plain()
    ((uuid, gone),) = plain["instances"].items()
    plain["instances"] = {}
    group = next(iter(plain["nodegroups"].values()))
    group["name"] = "other"
    config, _ = step({"event": "snapshot", "position": [2, 1], "config": plain}, replica)
    assert config["commit"] == [2, 1]
    assert [(kind, name) for kind, _, name, _ in config["put"]] == [("nodegroups", "other")]
    assert [row[:3] for row in config["remove"]] == [["instances", uuid, gone["name"]]]


def test_rows_of_a_snapshot():
    config = filled().configuration
    rows = config_rows(config)
    assert ["nodes", config.nodes()[0].uuid, config.nodes()[0].name, config.nodes()[0].serial_no] in rows
    assert {row[0] for row in rows} >= {"cluster", "nodes", "instances"}
    silent = config.nodes()[-1].uuid
    nodes = node_rows(config, CATALOGUE, {silent})
    assert [node["uuid"] for node in nodes if not node["reachable"]] == [silent]
    assert [node["role"] for node in nodes if node["uuid"] == config.cluster.master_node] == ["M"]
