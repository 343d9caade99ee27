# SPDX-License-Identifier: BSD-2-Clause
"""OP_PLAN: say what an operation would do, under its locks and after its checks, and change nothing."""

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from ganeti.base.errors import WRONG_INPUT, GanetiError, PrerequisiteError
from ganeti.master.operation import Example, MoreLocks, Operation, decode, operation
from ganeti.master.parameter import Parameter
from ganeti.master.planning import plan_report
from ganeti.master.planning.fingerprint import fingerprint
from ganeti.master.planning.recording import RecordingContext
from ganeti.model.locks import LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@dataclass(frozen=True)
class Checked:
    operation: Operation[Any]
    checked: Any
    lines: list[str]


@operation(
    "OP_PLAN",
    examples=(
        Example("plan", {"operation": {"OP_ID": "OP_GROUP_ADD", "group_name": "planned"}}),
        Example("plan-of-a-failure", {"operation": {"OP_ID": "OP_CLUSTER_SET_PARAMS", "candidate_pool_size": 2}}),
    ),
)
class MakePlan(Operation[dict[str, Any]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Let an operation act on a draft of the configuration, with nodes that are not called.

    Gives what would be added, changed and removed, the nodes and their calls as far as they are known, the jobs it
    would submit, where instances would be placed and why; and a fingerprint that the operation may be submitted with.
    """

    operation: Annotated[dict[str, Any], Parameter("the operation, as it would be submitted", subject="text")]

    def locks(self, view: ConfigView) -> LockPlan:
        return self._operation().locks(view)

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Any:
        wanted = self._operation()
        wanted.refuse_unsupported()
        planning = _asking(ctx)
        facts = await wanted.gather(planning, view)  # type: ignore[arg-type]
        return facts if isinstance(facts, MoreLocks) else (facts, planning.log.lines)

    def check(self, view: ConfigView, facts: Any, ctx: OperationContext) -> Checked:
        wanted = self._operation()
        return Checked(wanted, wanted.check(view, facts[0], ctx), facts[1])

    async def check_on_nodes(self, checked: Checked, ctx: OperationContext) -> Checked:
        planning = _asking(ctx)
        ready = await checked.operation.check_on_nodes(checked.checked, planning)  # type: ignore[arg-type]
        return Checked(checked.operation, ready, [*checked.lines, *planning.log.lines])

    async def execute(self, checked: Checked, ctx: OperationContext) -> dict[str, Any]:
        planning = RecordingContext(ctx)
        view = planning.config.base
        jobs: list[list[str]] = []
        beyond = ""
        try:
            jobs = plan_report.jobs(await checked.operation.execute(checked.checked, planning))  # type: ignore[arg-type]
        except PrerequisiteError:
            raise
        except GanetiError as err:
            beyond = f"What follows depends on what nodes answer ({err})"
        except (AttributeError, IndexError, KeyError, LookupError, TypeError, ValueError):
            beyond = "What follows depends on what nodes answer"
        as_given = decode(self.operation)
        return {
            "operation": as_given.op_id,
            "summary": as_given.summary(),
            "changes": plan_report.changes(planning.config.draft),
            "locks": plan_report.locks(checked.operation.locks(view), view),
            "node_calls": plan_report.node_calls(planning),
            "jobs": jobs,
            "notes": plan_report.once_each([*checked.lines, *planning.log.lines, *([beyond] if beyond else [])]),
            "complete": not beyond,
            "fingerprint": fingerprint(as_given, view),
        }

    def _operation(self) -> Operation[Any]:
        """The operation as it is asked what it would do: it reserves no room, and tells why it chose a node."""
        found = decode(self.operation)
        if isinstance(found, MakePlan):
            raise PrerequisiteError("A plan cannot be planned: give another operation", WRONG_INPUT)
        wishes: dict[str, Any] = {"dry_run": True}
        if _may_tell_why(found):
            wishes["why"] = True
        return msgspec.structs.replace(found, **wishes)


def _asking(ctx: OperationContext) -> RecordingContext:
    """The planning context before anything is planned: nodes are asked whatever the operation asks them."""
    planning = RecordingContext(ctx)
    planning.nodes = ctx.nodes  # type: ignore[assignment]
    return planning


def _may_tell_why(wanted: Operation[Any]) -> bool:
    """Only where an allocator chooses: to ask otherwise is refused."""
    return hasattr(wanted, "why") and not any(
        getattr(wanted, name, None) for name in ("pnode", "pnode_uuid", "target_node", "target_node_uuid")
    )
