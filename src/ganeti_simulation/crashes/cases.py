# SPDX-License-Identifier: BSD-2-Clause
"""What is interrupted at every point: each operation there is, and the cluster that it needs.

Node 1 is the master at the beginning, and node 3 is the one that changes its role: the candidates are the first nodes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ganeti.master.operation import REGISTRY
from ganeti.master.operations import load
from ganeti_simulation.facades.replicated_volumes import GROUP

Opcode = Mapping[str, Any]


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


_RULE = "11111111-1111-4111-8111-111111111111"
_FILTER: Final[tuple[Any, ...]] = (_RULE, 5, [["jobid", [">", "id", 0]]], "ACCEPT", [])

_TEMPLATES: Final = ["diskless", "sharedfile", "file", "mirror"]
_PREPARATIONS: Final[dict[str, Opcode]] = {
    "cluster-mirroring": {"OP_ID": "OP_CLUSTER_SET_PARAMS", "enabled_disk_templates": _TEMPLATES}
}
"""What examples may have before them beside other examples."""

_VOLUMES: Final[Opcode] = {
    "OP_ID": "OP_CLUSTER_SET_PARAMS",
    "enabled_disk_templates": ["diskless", "sharedfile", "file", "plain", "drbd"],
    "vg_name": GROUP,
}
_REPLICATED: Final[Opcode] = {
    "OP_ID": "OP_INSTANCE_CREATE",
    "instance_name": "one.example.com",
    "mode": "create",
    "disk_template": "drbd",
    "disks": [{"size": 64}],
    "nics": [{}],
    "os_type": "noop",
    "pnode": "node2.example.com",
    "snode": "node3.example.com",
}
"""Cases of volumes, which only the simulator's machines have from the beginning."""


def _replacing(name: str, mode: str, **fields: str) -> Case:
    opcode = {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "instance_name": "one.example.com", "mode": mode}
    return Case(name, opcode | fields, before=(_VOLUMES, _REPLICATED))


_OF_THE_SIMULATOR: Final = (
    _replacing("replace-volumes", "replace_new_secondary", remote_node="node1.example.com"),
    _replacing("replace-volumes-primary", "replace_on_primary"),
    _replacing("replace-volumes-secondary", "replace_on_secondary"),
    Case("filter-made", request=("ReplaceFilter", _FILTER)),
    Case("queue-drained", request=("SetDrainFlag", (True,))),
)


def _examples() -> Iterator[Case]:
    """The examples that the operations give of themselves."""
    load()
    examples = [(op_id, example) for op_id, operation in REGISTRY.items() for example in operation.examples]
    opcodes = {example.name: {"OP_ID": op_id, **example.parameters} for op_id, example in examples} | _PREPARATIONS
    for _, example in examples:
        before = tuple(opcodes[each] if isinstance(each, str) else each for each in example.before)
        yield Case(example.name, opcodes[example.name], before=before, stops_first=example.stops_first)


CASES: Final = (*_OF_THE_SIMULATOR, *_examples())
WITHOUT: Final = {op_id: operation.not_played for op_id, operation in REGISTRY.items() if operation.not_played}
"""Operations that are not interrupted, and why."""
