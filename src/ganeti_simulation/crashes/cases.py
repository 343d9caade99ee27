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
    Case("power-off", _power("off"), before=(_node(offline=True, ndparams={"oob_program": "/usr/sbin/power"}),)),
    Case("power-status", _power("status")),
    Case("filter-made", request=("ReplaceFilter", _FILTER)),
    Case("queue-drained", request=("SetDrainFlag", (True,))),
)


def _examples() -> Iterator[Case]:
    """The examples that the operations give of themselves."""
    load()
    examples = [(op_id, example) for op_id, operation in REGISTRY.items() for example in operation.examples]
    opcodes = {case.name: case.opcode for case in _OF_THE_SIMULATOR if case.opcode is not None}
    opcodes |= {example.name: {"OP_ID": op_id, **example.parameters} for op_id, example in examples}
    for _, example in examples:
        before = tuple(opcodes[each] if isinstance(each, str) else each for each in example.before)
        yield Case(example.name, opcodes[example.name], before=before, stops_first=example.stops_first)


CASES: Final = (*_OF_THE_SIMULATOR, *_examples())
WITHOUT: Final = {op_id: operation.not_played for op_id, operation in REGISTRY.items() if operation.not_played}
"""Operations that are not interrupted, and why."""
