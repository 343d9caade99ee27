# SPDX-License-Identifier: BSD-2-Clause
"""The table of hooks in `docs/spec/protocols.md`, 10, beside the operations: directory and variables of each opcode."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace as replace_dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import guest, node_facts
from tests.fakes.paired_disks import PairedDisks
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.master import operations
from ganeti.master.operation import REGISTRY, Hooks
from ganeti.model.node_calls.disks import FoundDisk
from ganeti.model.objects import Network, NodeGroup
from ganeti.model.traits import Catalogue
from ganeti.wire.export_file import Export, ExportedDisk, encode

operations.load()
PAGE = Path(__file__).resolve().parents[3] / "docs/spec/protocols.md"
VERIFICATION = "OP_CLUSTER_VERIFY_GROUP"
ELSEWHERE = ("OP_CLUSTER_IP_TURNUP", "OP_CLUSTER_TURNDOWN", VERIFICATION)
"""Hooks that the master's daemons run, or the operation itself."""
EXPORT = Export(
    name="old",
    timestamp=1000,
    source="node1",
    os="noop",
    disk_template="local",
    hypervisor="pretend",
    disks=[ExportedDisk(ivname="disk/0", dump="disk0.dump", size_mib=64)],
)
WEB = {"instance_name": "web1"}
REQUESTS: dict[str, dict[str, Any]] = {
    "OP_NODE_ADD": {"node_name": "node5", "group": "default"},
    "OP_NODE_REMOVE": {"node_name": "node3"},
    "OP_NODE_SET_PARAMS": {"node_name": "node3", "offline": True, "auto_promote": True},
    "OP_NODE_MIGRATE": {"node_name": "node1"},
    "OP_GROUP_ADD": {"group_name": "new"},
    "OP_GROUP_REMOVE": {"group_name": "empty"},
    "OP_GROUP_SET_PARAMS": {"group_name": "other", "alloc_policy": "last_resort"},
    "OP_GROUP_RENAME": {"group_name": "other", "new_name": "new"},
    "OP_GROUP_EVACUATE": {"group_name": "other", "iallocator": "hail"},
    "OP_NETWORK_ADD": {
        "network_name": "new",
        "network": "198.51.100.0/28",
        "gateway": "198.51.100.1",
        "network6": "2001:db8::/64",
        "gateway6": "2001:db8::1",
        "mac_prefix": "aa:00:02",
        "tags": ["a"],
    },
    "OP_NETWORK_SET_PARAMS": {"network_name": "net1", "gateway": "192.0.2.9"},
    "OP_NETWORK_REMOVE": {"network_name": "net2"},
    "OP_NETWORK_RENAME": {"network_name": "net1", "new_name": "new"},
    "OP_NETWORK_CONNECT": {
        "network_name": "net1",
        "group_name": "other",
        "network_mode": "bridged",
        "network_link": "br7",
        "network_vlan": "7",
    },
    "OP_NETWORK_DISCONNECT": {"network_name": "net1", "group_name": "default"},
    "OP_INSTANCE_CREATE": {
        "instance_name": "new",
        "mode": "import",
        "src_node": "node1",
        "src_path": "old",
        "disks": [],
        "nics": [],
        "pnode": "node2",
        "start": False,
    },
    "OP_INSTANCE_REINSTALL": {"instance_name": "down"},
    "OP_BACKUP_EXPORT": WEB | {"target_node": "node3", "shutdown": True},
    "OP_INSTANCE_STARTUP": {"instance_name": "down"},
    "OP_INSTANCE_SHUTDOWN": WEB,
    "OP_INSTANCE_REBOOT": WEB | {"reboot_type": "hard"},
    "OP_INSTANCE_SET_PARAMS": {"instance_name": "files", "disk_template": "common"},
    "OP_INSTANCE_FAILOVER": WEB | {"target_node": "node2"},
    "OP_INSTANCE_MIGRATE": WEB | {"target_node": "node2"},
    "OP_INSTANCE_REMOVE": WEB,
    "OP_INSTANCE_GROW_DISK": WEB | {"disk": 0, "amount": 64},
    "OP_INSTANCE_RENAME": {"instance_name": "down", "new_name": "new"},
    "OP_INSTANCE_MOVE": {"instance_name": "files", "target_node": "node2"},
    "OP_INSTANCE_RECREATE_DISKS": {"instance_name": "down"},
    "OP_INSTANCE_REPLACE_DISKS": {"instance_name": "pair", "mode": "replace_new_secondary", "remote_node": "node3"},
    "OP_INSTANCE_CHANGE_GROUP": {"instance_name": "far", "iallocator": "hail"},
    "OP_CLUSTER_POST_INIT": {},
    "OP_CLUSTER_DESTROY": {},
    "OP_CLUSTER_RENAME": {"name": "new"},
    "OP_CLUSTER_SET_PARAMS": {"vg_name": ""},
}
"""One request of each opcode, on the cluster of `context`."""
MEMORY = WEB | {"runtime_mem": 128}
"""Of `OP_INSTANCE_SET_PARAMS`, which changes the memory of a running guest alone."""
MOVE = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "far", "target_node": "node2"}


def rows() -> Iterator[tuple[str, str, list[str]]]:
    """(opcode, directory, variables)."""
    text = PAGE.read_text()
    table = text[text.index("| Directory | Opcode | Env") : text.index("Standard instance env")]
    for line in table.splitlines()[2:]:
        if not line.startswith("|"):
            continue
        directories, opcodes, env, _ = (cell.strip() for cell in line.strip("|").split("|"))
        env = env.replace("OLD_/NEW_ PRIMARY, SECONDARY", "OLD_PRIMARY, NEW_PRIMARY, OLD_SECONDARY, NEW_SECONDARY")
        variables = re.findall(r"\b[A-Z][A-Z_0-9]{3,}\b", env.partition(";")[0])
        directory, *other_directories = directories.split(" / ")
        opcode, *other_opcodes = opcodes.split(" / ")
        yield opcode, directory, variables
        for ending, other in zip(other_directories, other_opcodes, strict=True):
            noun = "_".join(opcode.split("_")[:2])
            yield f"{noun}{other}", f"{directory.rpartition('-')[0]}{ending}", variables


def context() -> FakeContext:
    traits = catalogue()
    hypervisors = {name: replace_dataclass(each, can_balloon=True) for name, each in traits.hypervisors.items()}
    known = Catalogue(traits.templates | {"pair": PairedDisks.traits}, hypervisors)
    found = FakeContext(configuration(4), known)
    config = found.config.config
    net1 = {
        "network": "192.0.2.0/28",
        "gateway": "192.0.2.1",
        "network6": "2001:db8:1::/64",
        "gateway6": "2001:db8:1::1",
        "mac_prefix": "aa:00:01",
    }
    config.put("networks", "uuid-net1", Network(uuid="uuid-net1", name="net1", **net1))
    connection = {"uuid-net1": {"mode": "bridged", "link": "br0", "vlan": "5"}}
    default = config.get("nodegroups", "uuid-group1")
    config.put("nodegroups", "uuid-group1", replace(default, networks=connection))
    for number, name in ((2, "other"), (3, "empty")):
        config.put("nodegroups", f"uuid-group{number}", NodeGroup(uuid=f"uuid-group{number}", name=name))
    config.put("nodes", "uuid-node4", replace(config.node("uuid-node4"), group="uuid-group2"))
    add_instance(config, "far", node="uuid-node4")
    add_instance(config, "web1")
    add_instance(config, "down", admin_state="down")
    add_instance(config, "files", template="local", admin_state="down")
    pair = add_instance(config, "pair", template="pair", admin_state="down")
    (disk,) = config.instance_disks(pair)
    both = ["uuid-node1", "uuid-node2"]
    config.put("disks", disk.uuid, replace(disk, nodes=both, logical_id=["pair", "node1", "node2", "pair-0"]))
    config.put("networks", "uuid-net2", Network(uuid="uuid-net2", name="net2", network="198.51.100.16/28"))
    found.allocation = {"success": True, "info": "", "result": [[["far", "default", ["node2"]]], [], [[MOVE]]]}
    found.nodes.handlers.update(
        node_info=lambda name, **_: node_facts(storage_free_mib=100000),
        all_instances_info=lambda name, **_: [],
        instance_info=lambda name, instance: guest() if (name, instance.name) == ("node1", "web1") else None,
        blockdev_find=lambda name, **_: None,
        blockdev_find_each=lambda name, disks: [FoundDisk() for _ in disks],
        export_list=lambda name, **_: ["old"] if name == "node1" else [],
        export_info=lambda name, **_: encode(EXPORT),
        export_dump_sizes=lambda name, *, dumps, **_: [4096 for _ in dumps],
    )
    return found


def phases(operation: Any, ctx: Any) -> Hooks:
    """What an operation says to the scripts before it begins, once it is checked."""

    async def checked() -> Hooks:
        view = ctx.config.view()
        facts = await operation.gather(ctx, view)
        hooks: Hooks | None = operation.hooks(view, operation.check(view, facts, ctx))
        assert hooks is not None
        return hooks

    return asyncio.run(checked())


def hooks_of(opcode: str) -> Hooks:
    ctx = context() if opcode != "OP_CLUSTER_DESTROY" else FakeContext(configuration(1), catalogue())
    hooks = phases(msgspec.convert(REQUESTS[opcode], REGISTRY[opcode]), ctx)
    if opcode != "OP_INSTANCE_SET_PARAMS":
        return hooks
    return replace_dataclass(hooks, env={**hooks.env, **phases(msgspec.convert(MEMORY, REGISTRY[opcode]), ctx).env})


@pytest.mark.parametrize(("opcode", "directory", "variables"), [row for row in rows() if row[0] not in ELSEWHERE])
def test_an_operation_has_the_hooks_of_3_1(opcode: str, directory: str, variables: list[str]) -> None:
    hooks = hooks_of(opcode)
    assert hooks.path == REGISTRY[opcode].hooks_path == directory
    assert [name for name in variables if name not in hooks.env] == []


def test_the_verification_runs_its_hooks_by_itself() -> None:
    """It has to report what they say."""
    ((_, directory, variables),) = [row for row in rows() if row[0] == VERIFICATION]
    ctx = context()
    ctx.outstanding_undo = list  # type: ignore[attr-defined]
    given: dict[str, dict[str, str]] = {}

    def runs(name: str, *, path: str, phase: str, env: dict[str, str]) -> list[Any]:
        assert (path, phase) == (directory, "post")
        given[name] = env
        return []

    ctx.nodes.handlers["hooks_runner"] = runs
    run(msgspec.convert({"group_name": "default"}, REGISTRY[VERIFICATION]), ctx)
    assert sorted(given) == ["node1", "node2", "node3"]
    assert all(f"GANETI_{name}" in env for env in given.values() for name in [*variables, "NODE_TAGS_node1"])
