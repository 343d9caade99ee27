# SPDX-License-Identifier: BSD-2-Clause
"""OP_NODE_MODIFY_STORAGE: whether new volumes are put on a physical volume of a node."""

from typing import Annotated, Any

from ganeti.base.command import Argument, Command, Option
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master.operation import Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import NodeName, NodeUuid, StorageType, Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan, node_lock
from ganeti.model.node_calls.storage import StorageModify
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

_PHYSICAL = "lvm-pv"


@operation(
    "OP_NODE_MODIFY_STORAGE",
    summary_field="node_name",
    cli=Command(
        "gnt-node modify-storage",
        "change a place on a node where disks are kept",
        arguments=("node_name", "storage_type", Argument("name", "volume-name")),
        handler="node.storage:modify",
    ),
    rapi="PUT /2/nodes/[node_name]/storage/modify",
    not_played="simulated nodes have no physical volumes",
)
class ModifyStorage(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Change a place where disks are kept; of a physical volume alone, whether it is allocatable."""

    node_name: NodeName
    node_uuid: NodeUuid = None
    storage_type: StorageType
    name: Annotated[Text | None, Parameter("name of the place, such as /dev/sdb1", metavar="volume-name")] = None
    changes: Annotated[
        dict[str, Any],
        Parameter(
            "what becomes of it: allocatable",
            options=(Option(("--allocatable",), "changes.allocatable", "yesno", "whether new volumes are put there"),),
        ),
    ]

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(exclusive=[node_lock(view.find_node(self.node_uuid or self.node_name).uuid)])

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> tuple[str, StorageModify]:
        if self.storage_type != _PHYSICAL:
            raise PrerequisiteError(
                f"Storage of type '{self.storage_type}' cannot be modified: only physical volumes ({_PHYSICAL}) can",
                WRONG_INPUT,
            )
        if unknown := sorted(set(self.changes) - {"allocatable"}):
            raise PrerequisiteError(
                f"Of storage of type '{_PHYSICAL}', '{unknown[0]}' cannot be changed: only allocatable can", WRONG_INPUT
            )
        allocatable = self.changes.get("allocatable")
        if not self.name or not isinstance(allocatable, bool):
            raise PrerequisiteError(
                "Name a physical volume, and say what becomes of it: allocatable is true or false", WRONG_INPUT
            )
        node = view.find_node(self.node_uuid or self.node_name)
        return node.uuid, StorageModify(name=self.name, allocatable=allocatable)

    async def execute(self, checked: tuple[str, StorageModify], ctx: OperationContext) -> None:
        node_uuid, change = checked
        await ask(ctx.nodes, node_uuid, change)
