# SPDX-License-Identifier: BSD-2-Clause
"""What verification says of nodes that mirror volumes: module, helper, versions and minors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ganeti.master.verify.nodes import NodeReport
from ganeti.master.verify.replication import Minors, of_node, templates, versions
from ganeti.model.configuration import Configuration
from ganeti.model.node_calls.disks import Replication
from ganeti.model.node_calls.verify import NodeFindings, ReplicationFound
from ganeti.model.objects import Node
from ganeti.node.catalogue import build_catalogue

GOLDEN = Path(__file__).resolve().parents[3] / "golden/config/config-3.1.json"


def sample() -> Configuration:
    """A cluster of 3.1 whose one mirrored disk, with minor 0 on its nodes, is in use."""
    config = Configuration.from_plain(json.loads(GOLDEN.read_text()))
    mirrored = {disk.uuid for disk in config.disks() if disk.dev_type == "drbd"}
    for instance in config.instances():
        config.put("instances", instance.uuid, replace(instance, disks_active=bool(mirrored & set(instance.disks))))
    cluster = replace(config.cluster, drbd_usermode_helper="/bin/true", enabled_disk_templates=["drbd", "plain"])
    config.put("cluster", "cluster", cluster)
    return config


def reports(config: Configuration, **answers: Any) -> list[NodeReport]:
    (disk,) = [disk for disk in config.disks() if disk.dev_type == "drbd"]
    good: dict[str, Any] = {"version": "8.4.11", "helper": "/bin/true", "minors": [0]}
    return [
        report_of(config.node(uuid), ReplicationFound(found=Replication(**(good | answers if number else good))))
        for number, uuid in enumerate(disk.nodes)
    ]


def told(config: Configuration, **answers: Any) -> list[tuple[str, str]]:
    found = reports(config, **answers)
    return [(each.code, each.message) for report in found for each in of_node(Minors(config), report)] + [
        (each.code, each.message) for each in versions(found)
    ]


def test_nodes_that_are_well_give_no_findings() -> None:
    config = sample()
    assert templates(config, build_catalogue()) == ["drbd"]
    assert told(config) == []


def test_each_fault_has_its_code() -> None:
    config = sample()
    assert told(config, helper="/bin/false") == [("ENODEDRBDHELPER", "wrong drbd usermode helper: /bin/false")]
    assert told(config, helper=None) == [("ENODEDRBDHELPER", "no drbd usermode helper set")]
    assert [code for code, _ in told(config, version="9.1.7")] == ["ENODEDRBDVERSION"] * 2
    assert told(config, minors=[0, 7]) == [("ENODEDRBD", "unallocated drbd minor 7 is in use")]
    [(code, message)] = told(config, minors=[])
    assert code == "ENODEDRBD" and message.startswith("drbd minor 0 of disk/0 of instance ")
    report = report_of(reports(config)[0].node, ReplicationFound(error="no module"))
    assert [each.code for each in of_node(Minors(config), report)] == ["ENODEDRBD"]


def report_of(node: Node, part: ReplicationFound) -> NodeReport:
    return NodeReport(node, NodeFindings(replication={"drbd": part}))
