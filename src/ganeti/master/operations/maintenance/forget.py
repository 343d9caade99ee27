# SPDX-License-Identifier: BSD-2-Clause
"""OP_INCIDENT_FORGET (not in 3.1): remove an incident, whatever it is; a defect that persists is a new one."""

from ganeti.base.command import Command
from ganeti.master.maintenance.changes import OPEN, CancelIncident, ForgetIncident, find_incident, tagged_nodes
from ganeti.master.operation import Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.maintenance.cancel import cancel_its_jobs
from ganeti.master.operations.parameters import IncidentId
from ganeti.model.locks import LockPlan, node_lock
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_INCIDENT_FORGET",
    summary_field="incident",
    cli=Command("gnt-cluster remove-repair", "forget an incident and remove its tag", arguments=("incident",)),
    not_played="it is one commit, and only the maintenance daemon makes incidents",
)
class ForgetOneIncident(Operation[str], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Remove an incident and its tag. If its node still tells of it, that is a new incident. Gives its id.

    Its jobs that have not begun are canceled.
    """

    incident: IncidentId

    def locks(self, view: ConfigView) -> LockPlan:
        incident = find_incident(view.maintenance, self.incident)
        return plan(exclusive=[node_lock(uuid) for uuid in tagged_nodes(view, incident)])

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> str:
        return find_incident(view.maintenance, self.incident).uuid

    async def execute(self, checked: str, ctx: OperationContext) -> str:
        if find_incident(ctx.config.view().maintenance, checked).repair_status in OPEN:
            await ctx.config.commit(CancelIncident(uuid=checked))
            await cancel_its_jobs(checked, ctx)
        await ctx.config.commit(ForgetIncident(uuid=checked), settles=True)
        return checked
