# SPDX-License-Identifier: BSD-2-Clause
"""What calls of WConfD's socket change of maintenance, beside the daemon's own work (S4.34)."""

from uuid import UUID

from msgspec.structs import replace

from ganeti.base.errors import UNKNOWN_ENTITY, WRONG_INPUT, PrerequisiteError
from ganeti.master.maintenance.changes import STATUSES, put, touched
from ganeti.master.maintenance.sameness import ACTIONS
from ganeti.model.configuration import Draft
from ganeti.model.objects import Incident, Plain
from ganeti.ports.config import Change
from ganeti.wire.diagnose_report import fault_of_object

_LARGEST_JOB = 2**62


class ChangeRound(Change, frozen=True, kw_only=True):
    """The jobs and instances that are waited for, by somebody else than the daemon (S4.34)."""

    jobs: list[int] = []
    """These are waited for, too."""
    evacuated: list[str] = []
    """Of these instances no load is known yet, either."""
    no_longer_evacuated: list[str] = []

    def apply(self, draft: Draft) -> None:
        old = draft.maintenance
        jobs = dict.fromkeys([*old.jobs, *self.jobs])
        kept = [name for name in old.evacuated if name not in self.no_longer_evacuated]
        evacuated = dict.fromkeys([*kept, *self.evacuated])
        put(draft, replace(old, jobs=list(jobs), evacuated=list(evacuated)))


class PutIncident(Change, frozen=True, kw_only=True):
    """One incident as somebody else than the daemon has it (S4.34): it takes the place of that with its UUID."""

    incident: Plain

    def apply(self, draft: Draft) -> None:
        new = Incident.from_plain(self.incident)
        if fault := _fault_of(new):
            raise PrerequisiteError(f"The incident cannot be kept: {fault}", WRONG_INPUT)
        if draft.get("nodes", new.node) is None:
            raise PrerequisiteError(f"No node has the UUID '{new.node}'", UNKNOWN_ENTITY)
        old = draft.maintenance
        former = next((each for each in old.incidents if each.uuid == new.uuid), None)
        serial_no, ctime = (former.serial_no, former.ctime) if former is not None else (0, draft.now_s)
        new = touched(draft, replace(new, serial_no=serial_no, ctime=ctime))
        kept = [new if each is former else each for each in old.incidents]
        put(draft, replace(old, incidents=kept if former is not None else [*kept, new]))


def _fault_of(incident: Incident) -> str:
    """What the daemon could not work with; nothing where it can."""
    try:
        UUID(incident.uuid)
    except ValueError:
        return f"'{incident.uuid}' is no UUID"
    if incident.action not in ACTIONS:
        return f"its action is none of {', '.join(ACTIONS)}"
    if incident.repair_status not in STATUSES:
        return f"its repair-status is none of {', '.join(STATUSES)}"
    if not all(0 < job <= _LARGEST_JOB for job in [*incident.jobs, *(incident.last_jobs or ())]):
        return "it names what cannot be the number of a job"
    return fault_of_object(incident.original)
