# SPDX-License-Identifier: BSD-2-Clause
"""OP_REPAIR_NODE_STORAGE: take the missing physical volumes out of a node's volume group."""

from typing import Annotated

from ganeti.base.command import Argument, Command
from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.master.operation import Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.node.query_storage import units_of
from ganeti.master.operations.parameters import IgnoreConsistency, NodeName, NodeUuid, StorageType, Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan, node_lock
from ganeti.model.node_calls.storage import StorageRepair
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

_GROUP = "lvm-vg"


@operation(
    "OP_REPAIR_NODE_STORAGE",
    summary_field="node_name",
    cli=Command(
        "gnt-node repair-storage",
        "repair a place on a node where disks are kept",
        arguments=("node_name", "storage_type", Argument("name", "volume-name")),
    ),
    rapi="PUT /2/nodes/[node_name]/storage/repair",
    not_played="simulated nodes have no volume groups",
)
class RepairStorage(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Make a volume group whole again without the physical volumes that it has lost, and what lay there."""

    node_name: NodeName
    node_uuid: NodeUuid = None
    storage_type: StorageType
    name: Annotated[Text | None, Parameter("name of the volume group", metavar="volume-name")] = None
    ignore_consistency: IgnoreConsistency = False

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(exclusive=[node_lock(view.find_node(self.node_uuid or self.node_name).uuid)])

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> tuple[str, StorageRepair]:
        if self.storage_type != _GROUP or not self.name:
            raise PrerequisiteError(
                f"Storage of type '{self.storage_type}' cannot be repaired: name a volume group ({_GROUP})", WRONG_INPUT
            )
        units_of(view, ctx.catalogue, _GROUP)
        node = view.find_node(self.node_uuid or self.node_name)
        for instance in view.instances_on(node.uuid):
            if view.secondary_nodes(instance) and instance.disks_active:
                told = f"Disks of instance {instance.name} are in use, and {node.name} may have their only whole copy"
                if not self.ignore_consistency:
                    raise PrerequisiteError(f"{told}: stop it first, or add --ignore-consistency", WRONG_STATE)
                ctx.log.warning(told)
        return node.uuid, StorageRepair(name=self.name)

    async def execute(self, checked: tuple[str, StorageRepair], ctx: OperationContext) -> None:
        node_uuid, repair = checked
        ctx.log.info(f"Repairing storage unit '{repair.name}' on {self.node_name} ...")
        await ask(ctx.nodes, node_uuid, repair)
