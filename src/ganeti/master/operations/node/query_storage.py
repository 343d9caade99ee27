# SPDX-License-Identifier: BSD-2-Clause
"""OP_NODE_QUERY_STORAGE: the places on nodes where disks are kept, their sizes and what is free."""

from typing import Annotated, Any

from ganeti.base.command import NODE_GROUP, Argument, Command, Option
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.base.names import shown
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan, node_lock
from ganeti.model.node_calls.storage import PhysicalVolumes, StorageList, StorageUnit, StorageUnitState
from ganeti.model.objects import Node
from ganeti.model.traits import VOLUME_GROUP, Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask_many

PHYSICAL = "lvm-pv"
"""The type of the physical volumes below a volume group, where no template keeps disks by itself."""
FIELDS = ("node", "type", "name", "size", "used", "free", "allocatable")

TABLE = (
    Option(("--no-headers",), "no_headers", "flag", "leave the titles out"),
    Option(("--separator",), "separator", help="separator of columns", metavar="TEXT"),
    Option(("--units",), "units", help="unit of sizes", choices=("h", "m", "g", "t"), metavar="UNIT"),
    Option(("-o", "--output"), "output", help="fields to show", metavar="FIELDS"),
    NODE_GROUP,
)
"""Options of commands that ask nodes, and print rows of texts and sizes."""


@operation(
    "OP_NODE_QUERY_STORAGE",
    cli=Command(
        "gnt-node list-storage",
        "list the places where disks are kept",
        arguments=(Argument("nodes", "node-name", minimum=0, maximum=None, subject="node"),),
        options=TABLE,
        parameters=("storage_type",),
        handler="node.storage:show",
    ),
    rapi="GET /2/nodes/[nodes]/storage",
    examples=(Example("node-storage", {"output_fields": ["node", "name"], "nodes": ["node2.example.com"]}),),
)
class QueryStorage(Operation[list[list[Any]]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask nodes about places of one type; a row for each."""

    output_fields: Annotated[list[Text], Parameter(f"fields of the answer: {', '.join(FIELDS)}")]
    storage_type: Annotated[
        Text | None,
        Parameter("type of storage; without it, that of the first template", "-t", "--storage-type", metavar="TYPE"),
    ] = None
    nodes: Annotated[list[Text], Parameter("nodes to ask; all if none", subject="node")] = []
    name: Annotated[Text | None, Parameter("only the place of this name")] = None

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(shared=[node_lock(node.uuid) for node in self._asked(view)])

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> tuple[list[Node], list[StorageUnit]]:
        for field in self.output_fields:
            if field not in FIELDS:
                raise PrerequisiteError(f"Unknown field '{shown(field)}': there are {', '.join(FIELDS)}", WRONG_INPUT)
        units = units_of(view, ctx.catalogue, self.storage_type)
        return self._asked(view), [
            unit for unit in units if self.name in (None, unit.setting) or self.storage_type == PHYSICAL
        ]

    async def execute(self, checked: tuple[list[Node], list[StorageUnit]], ctx: OperationContext) -> list[list[Any]]:
        nodes, units = checked
        rows: list[list[Any]] = []
        online = [node.uuid for node in nodes if not node.offline and node.vm_capable]
        physical = self.storage_type == PHYSICAL
        if physical:
            asked = [await ask_many(ctx.nodes, online, PhysicalVolumes(unit=unit)) for unit in units]
            answers = [answer for each in asked for answer in each]
        else:
            answers = await ask_many(ctx.nodes, online, StorageList(units=units)) if units else []
        names = {node.uuid: node.name for node in nodes}
        for answer in answers:
            if answer.error is not None:
                ctx.log.warning(f"Node {names[answer.node_uuid]} does not say what it has: {answer.error}")
                continue
            rows += [
                self._row(names[answer.node_uuid], unit, ctx.catalogue)
                for unit in answer.value
                if self.name in (None, unit.name)
            ]
        return sorted(rows, key=lambda row: [str(value) for value in row])

    def _asked(self, view: ConfigView) -> list[Node]:
        return [view.find_node(name) for name in self.nodes] or view.nodes()

    def _row(self, node: str, unit: StorageUnitState, catalogue: Catalogue) -> list[Any]:
        values = {
            "node": node,
            "type": PHYSICAL if self.storage_type == PHYSICAL else catalogue.template(unit.template).storage_type,
            "name": unit.name,
            "size": unit.size_mib,
            "used": unit.used_mib,
            "free": unit.free_mib,
            "allocatable": unit.allocatable,
        }
        return [values[field] for field in self.output_fields]


def units_of(view: ConfigView, catalogue: Catalogue, storage_type: str | None) -> list[StorageUnit]:
    """The cluster's places of a type; raises `PrerequisiteError` for a type that no enabled template has."""
    traits = [catalogue.template(name) for name in view.cluster.enabled_disk_templates]
    placed = [each for each in traits if each.setting]
    wanted = storage_type or (placed[0].storage_type if placed else None)
    found = {
        each.setting: StorageUnit(template=each.name, setting=getattr(view.cluster, each.setting))
        for each in placed
        if each.storage_type == (VOLUME_GROUP if wanted == PHYSICAL else wanted)
    }
    if not found:
        types = ", ".join(dict.fromkeys(each.storage_type for each in placed)) or "none"
        raise PrerequisiteError(
            f"No enabled disk template keeps disks in storage of type '{shown(str(wanted))}': there are {types}",
            WRONG_INPUT,
        )
    return [unit for unit in found.values() if unit.setting]
