# SPDX-License-Identifier: BSD-2-Clause
"""OP_BACKUP_PREPARE: what the importing side must know before an export; nothing within one cluster."""

from typing import Annotated, Any, Literal

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master.operation import Operation, operation
from ganeti.master.operations.backup.dumps import NO_REMOTE
from ganeti.master.operations.instance.existing import require_complete
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import InstanceName, InstanceUuid
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan, instance_lock
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_BACKUP_PREPARE",
    summary_field="instance_name",
    rapi="PUT /2/instances/[instance_name]/prepare-export",
    not_played="it changes nothing",
)
class PrepareExport(Operation[dict[str, Any] | None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tell what an export needs from the importing side; nothing for one that a node of this cluster keeps."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    mode: Annotated[
        Literal["local", "remote"], Parameter("whether a node of this cluster keeps it, or another cluster takes it")
    ]

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(shared=[instance_lock(view.find_instance(self.instance_uuid or self.instance_name).name)])

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> None:
        require_complete(view.find_instance(self.instance_uuid or self.instance_name), "exported")
        if self.mode == "remote":
            raise PrerequisiteError(NO_REMOTE, WRONG_INPUT)

    async def execute(self, checked: None, ctx: OperationContext) -> None:
        return None
