# SPDX-License-Identifier: BSD-2-Clause
"""OP_INCIDENT_CANCEL (not in 3.1): do nothing more about an incident (S4.16)."""

from ganeti.master.maintenance.changes import CancelIncident, find_incident, jobs_for_it_alone, tagged_nodes
from ganeti.master.operation import Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import IncidentId
from ganeti.model.locks import LockPlan, node_lock
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.luxid import CancelUnbegun


@operation(
    "OP_INCIDENT_CANCEL",
    summary_field="incident",
    rapi="DELETE /2/maintenance/incidents/[incident]",
    not_played="it is one commit, and only the maintenance daemon makes incidents",
)
class CancelOneIncident(Operation[str], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Do nothing more about an incident; it is forgotten when its node no longer tells of it. Gives its id.

    Its jobs that have not begun are canceled.

    Its node is locked only to take a tag away, which it has when nothing is done about it any more: whatever jobs run,
    the maintenance daemon shall submit no other.
    """

    incident: IncidentId

    def locks(self, view: ConfigView) -> LockPlan:
        incident = find_incident(view.maintenance, self.incident)
        return plan(exclusive=[node_lock(uuid) for uuid in tagged_nodes(view, incident)])

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> str:
        return find_incident(view.maintenance, self.incident).uuid

    async def execute(self, checked: str, ctx: OperationContext) -> str:
        await ctx.config.commit(CancelIncident(uuid=checked), settles=True)
        await cancel_its_jobs(checked, ctx)
        return checked


async def cancel_its_jobs(uuid: str, ctx: OperationContext) -> None:
    """Cancel what a canceled incident alone has in the queue and has not begun."""
    own = ctx.config.view().maintenance
    if jobs := jobs_for_it_alone(own, find_incident(own, uuid)):
        canceled = await ctx.luxid.ask(CancelUnbegun(jobs))
        if canceled:
            ctx.log.info(f"Jobs that had not begun are canceled, too: {', '.join(map(str, canceled))}")
