# SPDX-License-Identifier: BSD-2-Clause
"""OP_NODE_QUERYVOLS: the logical volumes of nodes, and whose disks they are."""

from typing import Annotated

from ganeti.base.command import Argument, Command
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.base.names import shown
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.node.query_storage import TABLE
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan, node_lock
from ganeti.model.node_calls.storage import NodeVolumes, VolumeSegment
from ganeti.model.objects import Disk, Node
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask_many

FIELDS = ("phys", "vg", "name", "size", "instance", "node")


@operation(
    "OP_NODE_QUERYVOLS",
    cli=Command(
        "gnt-node volumes",
        "list the logical volumes of nodes",
        arguments=(Argument("nodes", "node-name", minimum=0, maximum=None, subject="node"),),
        options=TABLE,
        handler="node.storage:volumes",
    ),
    examples=(Example("node-volumes", {"output_fields": ["node", "name"], "nodes": ["node2.example.com"]}),),
)
class QueryVolumes(Operation[list[list[str]]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask nodes about their volumes; a row of texts for each device that part of one lies on."""

    output_fields: Annotated[list[Text], Parameter(f"fields of the answer: {', '.join(FIELDS)}")]
    nodes: Annotated[list[Text], Parameter("nodes to ask; all if none", subject="node")] = []

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(shared=[node_lock(node.uuid) for node in self._asked(view)])

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> dict[str, Node]:
        for field in self.output_fields:
            if field not in FIELDS:
                raise PrerequisiteError(f"Unknown field '{shown(field)}': there are {', '.join(FIELDS)}", WRONG_INPUT)
        return {node.uuid: node for node in self._asked(view)}

    async def execute(self, checked: dict[str, Node], ctx: OperationContext) -> list[list[str]]:
        online = [node.uuid for node in checked.values() if not node.offline and node.vm_capable]
        owners = _owners(ctx.config.view())
        rows: list[list[str]] = []
        for answer in await ask_many(ctx.nodes, online, NodeVolumes()):
            node = checked[answer.node_uuid]
            if answer.error is not None:
                ctx.log.warning(f"Can't compute volume data on node {node.name}: {answer.error}")
                continue
            found = sorted(answer.value, key=lambda each: (each.device, each.group, each.name))
            rows += [self._row(node, each, owners.get((node.uuid, each.group, each.name), "-")) for each in found]
        return rows

    def _asked(self, view: ConfigView) -> list[Node]:
        return [view.find_node(name) for name in self.nodes] or view.nodes()

    def _row(self, node: Node, volume: VolumeSegment, instance: str) -> list[str]:
        values = {
            "phys": volume.device,
            "vg": volume.group,
            "name": volume.name,
            "size": str(volume.size_mib),
            "instance": instance,
            "node": node.name,
        }
        return [values[field] for field in self.output_fields]


def _owners(view: ConfigView) -> dict[tuple[str, str, str], str]:
    """Names of instances by node, volume group and volume."""
    owners: dict[tuple[str, str, str], str] = {}
    for instance in view.instances():
        nodes = view.instance_nodes(instance)
        for disk in view.instance_disks(instance):
            for group, name in _places(disk):
                owners |= {(node, group, name): instance.name for node in nodes}
    return owners


def _places(disk: Disk) -> list[tuple[str, str]]:
    """Two texts, which are those of a volume where the disk lies on one."""
    mine = [tuple(disk.logical_id)] if len(disk.logical_id) == 2 else []
    return [*mine, *(place for child in disk.children for place in _places(child))]
