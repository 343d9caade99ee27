# SPDX-License-Identifier: BSD-2-Clause
"""Volume groups: one that cannot be used, and nodes whose physical volumes differ too much for exclusive storage."""

from __future__ import annotations

import json
from pathlib import Path

from msgspec.structs import replace

from ganeti.base.errors import NodeUnreachableError
from ganeti.master.verify.nodes import NodeReport, storage
from ganeti.master.verify.physical_volumes import differing, exclusive, shared, unit_of
from ganeti.model.configuration import Configuration
from ganeti.model.node_calls.storage import StorageUnit, StorageUnitState, VolumeSegment
from ganeti.model.node_calls.verify import NodeFindings
from ganeti.node.catalogue import build_catalogue
from ganeti.ports.nodes import NodeAnswer

GOLDEN = Path(__file__).resolve().parents[3] / "golden/config/config-3.1.json"


def sample(*templates: str) -> Configuration:
    config = Configuration.from_plain(json.loads(GOLDEN.read_text()))
    cluster = replace(config.cluster, enabled_disk_templates=list(templates), volume_group_name="xenvg")
    config.put("cluster", "cluster", cluster)
    return config


def test_only_nodes_with_exclusive_storage_are_asked() -> None:
    config = sample("file", "plain")
    assert unit_of(config, build_catalogue()) == StorageUnit(template="plain", setting="xenvg")
    assert unit_of(sample("file"), build_catalogue()) is None
    assert exclusive(config, config.nodes()) == []
    group = config.groups()[0]
    config.put("nodegroups", group.uuid, replace(group, ndparams={"exclusive_storage": True}))
    members = config.group_nodes(group.uuid)
    unable = replace(members[0], vm_capable=False)
    assert exclusive(config, [unable, *members[1:]]) == [node.uuid for node in members[1:]] != []


def test_sizes_may_differ_by_one_percent() -> None:
    config = sample("plain")
    group = config.groups()[0]
    names = {node.uuid: node.name for node in config.nodes()}
    one, other, *_ = names

    def told(*sizes: int) -> list[tuple[str, str, str]]:
        volumes = [
            StorageUnitState(template="plain", name=f"/dev/{number}", size_mib=size, free_mib=0)
            for number, size in enumerate(sizes)
        ]
        answers = [NodeAnswer(one, volumes[:1]), NodeAnswer(other, volumes[1:])]
        silent = NodeAnswer(one, error=NodeUnreachableError("away"))
        return [(each.code, each.name, each.message) for each in differing(config, group, [*answers, silent])]

    assert told() == told(1000) == told(1000, 1000, 1010) == []
    message = f"smallest (1000 MB) is on {names[one]}, biggest (1011 MB) is on {names[other]}"
    sentence = f"PV sizes differ too much in the group; {message}"
    assert told(1000, 1000, 1011) == [("EGROUPDIFFERENTPVSIZE", group.name, sentence)]


def test_a_physical_volume_holds_one_disk() -> None:
    """The parts of a mirrored disk, and its snapshots, are one disk."""
    config = sample("drbd")
    disk = next(disk for disk in config.disks() if disk.children)
    data, meta = ("/".join(part.logical_id) for part in disk.children)
    node = config.nodes()[0]

    def told(*volumes: tuple[str, str]) -> list[tuple[str, str, str]]:
        segments = [
            VolumeSegment(device=device, group=name.partition("/")[0], name=name.partition("/")[2], size_mib=4)
            for device, name in volumes
        ]
        answers = [NodeAnswer(node.uuid, segments), NodeAnswer(node.uuid, error=NodeUnreachableError("away"))]
        return [(each.code, each.name, each.message) for each in shared(config, [disk], answers)]

    alone = [("/dev/a", data), ("/dev/a", f"{data}.snap-before"), ("/dev/a", meta), ("/dev/b", "xenvg/stray")]
    assert told(*alone) == []
    [(code, name, message)] = told(*alone, ("/dev/a", "xenvg/other"))
    assert (code, name) == ("ENODELVM", node.name)
    assert message.startswith("physical volume /dev/a is shared by several disks (") and "xenvg/other" in message


def test_a_volume_group_that_cannot_be_used() -> None:
    answer = NodeFindings(storage={"drbd xenvg": ["it is missing"], "plain xenvg": ["it is missing"]})
    [found] = storage(NodeReport(sample("plain").nodes()[0], answer), build_catalogue())
    assert (found.code, found.message) == ("ENODELVM", "The configured volume group is unusable: it is missing")
