# SPDX-License-Identifier: BSD-2-Clause
"""What is interrupted at every point: each operation there is, and the cluster that it needs (issue 4).

Node 1 is the master at the beginning, and node 3 is the one that changes its role: the candidates are the first nodes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ganeti.master.operation import REGISTRY
from ganeti.master.operations import load

Opcode = Mapping[str, Any]
DOMAIN: Final = "example.com"
DISK_MIB: Final = 64


@dataclass(frozen=True)
class Case:
    """One operation on a prepared cluster of three nodes."""

    name: str
    opcode: Opcode | None = None
    request: tuple[str, tuple[Any, ...]] | None = None
    """A LUXI request instead of a job: (method, arguments)."""
    before: tuple[Opcode, ...] = ()
    """Jobs that make what the operation needs."""
    stops_first: bool = False
    """The instance is stopped, and said to be, before anything else; that stays so where the rest does not happen."""


def create(node: int = 2, template: str = "sharedfile", disks: int = 1, *, start: bool = True) -> Opcode:
    return {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": f"one.{DOMAIN}",
        "mode": "create",
        "disk_template": template,
        "disks": [{"size": DISK_MIB}] * disks,
        "nics": [{}],
        "os_type": "noop",
        "no_install": True,
        "pnode": f"node{node}.{DOMAIN}",
        "beparams": {"maxmem": 128, "minmem": 128, "vcpus": 1},
        "start": start,
    }


def _on_instance(opcode: str, **fields: Any) -> Opcode:
    return {"OP_ID": opcode, "instance_name": f"one.{DOMAIN}", **fields}


def _node(number: int = 3, **fields: Any) -> Opcode:
    return {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": f"node{number}.{DOMAIN}", "force": True, **fields}


def _power(verb: str) -> Opcode:
    return {"OP_ID": "OP_OOB_COMMAND", "node_names": [f"node3.{DOMAIN}"], "command": f"power-{verb}"}


_RUNS = (create(),)
_STOPPED = (create(start=False),)
_NODE_3 = f"node3.{DOMAIN}"
_TAGS: Final[Opcode] = {"OP_ID": "OP_TAGS_SET", "kind": "node", "name": _NODE_3, "tags": ["a", "b"]}
_RULE = "11111111-1111-4111-8111-111111111111"
_FILTER: Final[tuple[Any, ...]] = (_RULE, 5, [["jobid", [">", "id", 0]]], "ACCEPT", [])

_OF_THE_SIMULATOR: Final = (
    Case("create", create()),
    Case("create-on-master", create(node=1)),
    Case("create-stopped", create(start=False)),
    Case("create-diskless", create(template="diskless", disks=0)),
    Case("create-diskless-stopped", create(template="diskless", disks=0, start=False)),
    Case("startup", _on_instance("OP_INSTANCE_STARTUP", force=False), before=_STOPPED),
    Case("shutdown", _on_instance("OP_INSTANCE_SHUTDOWN"), before=_RUNS),
    Case("reboot", _on_instance("OP_INSTANCE_REBOOT", reboot_type="hard"), before=_RUNS),
    Case("reboot-full", _on_instance("OP_INSTANCE_REBOOT", reboot_type="full"), before=_RUNS),
    Case("remove", _on_instance("OP_INSTANCE_REMOVE", ignore_failures=False), before=_RUNS, stops_first=True),
    Case("remove-stopped", _on_instance("OP_INSTANCE_REMOVE", ignore_failures=False), before=_STOPPED),
    Case("migrate", _on_instance("OP_INSTANCE_MIGRATE", target_node=_NODE_3), before=_RUNS),
    Case("migrate-to-master", _on_instance("OP_INSTANCE_MIGRATE", target_node=f"node1.{DOMAIN}"), before=_RUNS),
    Case("failover", _on_instance("OP_INSTANCE_FAILOVER", target_node=_NODE_3), before=_RUNS),
    Case("failover-stopped", _on_instance("OP_INSTANCE_FAILOVER", target_node=_NODE_3), before=_STOPPED),
    Case("console", _on_instance("OP_INSTANCE_CONSOLE"), before=_RUNS),
    Case("query-data", {"OP_ID": "OP_INSTANCE_QUERY_DATA", "use_locking": True, "instances": []}, before=_RUNS),
    Case("node-offline", _node(offline=True)),
    Case("node-online", _node(offline=False), before=(_node(offline=True),)),
    Case("node-drained", _node(drained=True)),
    Case("node-undrained", _node(drained=False), before=(_node(drained=True),)),
    Case("node-demoted", _node(master_candidate=False)),
    Case("node-promoted", _node(master_candidate=True), before=(_node(master_candidate=False),)),
    Case(
        "node-migrate",
        {"OP_ID": "OP_NODE_MIGRATE", "node_name": f"node2.{DOMAIN}", "target_node": _NODE_3},
        before=_RUNS,
    ),
    Case("node-remove", {"OP_ID": "OP_NODE_REMOVE", "node_name": _NODE_3}),
    Case("node-readd", {"OP_ID": "OP_NODE_ADD", "node_name": _NODE_3, "readd": True}, before=(_node(offline=True),)),
    Case("cluster-limit", {"OP_ID": "OP_CLUSTER_SET_PARAMS", "max_running_jobs": 17}),
    Case("cluster-verify", {"OP_ID": "OP_CLUSTER_VERIFY"}),
    Case("cluster-verify-config", {"OP_ID": "OP_CLUSTER_VERIFY_CONFIG"}),
    Case("cluster-verify-group", {"OP_ID": "OP_CLUSTER_VERIFY_GROUP", "group_name": "default"}),
    Case("cluster-query", {"OP_ID": "OP_CLUSTER_QUERY"}),
    Case("master-ip-off", {"OP_ID": "OP_CLUSTER_DEACTIVATE_MASTER_IP"}),
    Case("master-ip-on", {"OP_ID": "OP_CLUSTER_ACTIVATE_MASTER_IP"}),
    Case("post-init", {"OP_ID": "OP_CLUSTER_POST_INIT"}),
    Case("os-diagnose", {"OP_ID": "OP_OS_DIAGNOSE", "output_fields": ["name"], "names": []}),
    Case("query", {"OP_ID": "OP_QUERY", "what": "cluster", "fields": ["name"], "use_locking": True}),
    Case("query-fields", {"OP_ID": "OP_QUERY_FIELDS", "what": "cluster", "fields": ["name"]}),
    Case("dummy", {"OP_ID": "OP_TEST_DUMMY", "result": "it", "messages": ["m"], "fail": False, "submit_jobs": None}),
    Case("os-params", {"OP_ID": "OP_TEST_OS_PARAMS", "osparams_secret": {"word": "secret"}}),
    Case("capacity", {"OP_ID": "OP_COMPUTE_CAPACITY", "iallocator": "hail"}, before=_RUNS),
    Case("group-cache", {"OP_ID": "OP_UPDATE_NODE_GROUP_CACHE", "group_name": "default"}, before=_RUNS),
    Case("power-off", _power("off"), before=(_node(offline=True, ndparams={"oob_program": "/usr/sbin/power"}),)),
    Case("power-status", _power("status")),
    Case("tags-set", _TAGS),
    Case("tags-deleted", {**_TAGS, "OP_ID": "OP_TAGS_DEL"}, before=(_TAGS,)),
    Case("tags-get", {"OP_ID": "OP_TAGS_GET", "kind": "cluster", "use_locking": True}),
    Case("tags-search", {"OP_ID": "OP_TAGS_SEARCH", "pattern": "."}),
    Case("filter-made", request=("ReplaceFilter", _FILTER)),
    Case("queue-drained", request=("SetDrainFlag", (True,))),
)


def _examples() -> Iterator[Case]:
    """The examples that the operations give of themselves."""
    load()
    examples = {
        example.name: (op_id, example) for op_id, operation in REGISTRY.items() for example in operation.examples
    }

    def opcode(name: str) -> Opcode:
        op_id, example = examples[name]
        return {"OP_ID": op_id, **example.parameters}

    for name, (_, example) in examples.items():
        before = tuple(opcode(each) if isinstance(each, str) else each for each in example.before)
        yield Case(name, opcode(name), before=before, stops_first=example.stops_first)


CASES: Final = (*_OF_THE_SIMULATOR, *_examples())
WITHOUT: Final = {
    "OP_CLUSTER_DESTROY": "nothing is left afterwards that could be checked; bootstrap does the rest",
    "OP_TEST_ALLOCATOR": "it asks where instances would go, and changes nothing",
}
"""Operations that are not interrupted, and why."""
WITHOUT.update((op_id, operation.not_played) for op_id, operation in REGISTRY.items() if operation.not_played)
