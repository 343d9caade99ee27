# SPDX-License-Identifier: BSD-2-Clause
"""LUXI calls that change job filter rules (protocols, sections 2 and 13).

LuxiD commits the change itself: a job for it could be held by the very rule it is to change. An answer is given when
our view, `config.data` and what candidates copy hold the change, so that the queue goes by it at once.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Protocol

from ganeti.base.errors import GanetiError, ParameterError
from ganeti.calls.daemon_commits import DaemonCommits
from ganeti.calls.serving import Reads, serves
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.luxid.arguments import integer
from ganeti.master.operations.filter_changes import DeleteFilterChange, ReplaceFilterChange
from ganeti.master.queue.filters import check_rule
from ganeti.model.objects import FilterRule
from ganeti.ports.config import Change

_log = logging.getLogger(__name__)
_SEEN_S = 10.0
_LARGEST_NUMBER = 2**63


class View(Protocol):
    async def reached(self, position: tuple[int, int], timeout_s: float) -> bool: ...


def _rule(value: Any) -> str:
    if not isinstance(value, str):
        raise ParameterError(f"The UUID of a filter rule must be text, not {value!r}")
    return value


def _rule_or_new(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ParameterError(f"The UUID of a filter rule must be text, or null for a new one, not {value!r}")
    return value


def _priority(value: Any) -> int:
    if integer(value, "priority of a filter rule") >= _LARGEST_NUMBER:
        raise ParameterError("The priority of a filter rule is too large: the smallest numbers go first")
    return int(value)


def _predicates(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ParameterError('The predicates of a filter rule must be a list, as in [["jobid", [">", "id", 7]]]')
    return value


def _reason_trail(value: Any) -> list[Any]:
    if not isinstance(value, list) or not all(_is_reason(entry) for entry in value):
        raise ParameterError("The reason of a filter rule must be a list of [source, reason, timestamp]")
    return value


def _is_reason(entry: Any) -> bool:
    match entry:
        case [str(), str(), int() as stamp]:
            return not isinstance(stamp, bool)
    return False


Rule = Annotated[str, Reads(_rule)]
RuleOrNew = Annotated[str | None, Reads(_rule_or_new)]
RulePriority = Annotated[int, Reads(_priority)]
Predicates = Annotated[list[Any], Reads(_predicates)]
ReasonTrail = Annotated[list[Any], Reads(_reason_trail)]


class FilterCalls:
    """Handlers of LUXI requests."""

    def __init__(
        self, wconfd: WConfdClient, commits: DaemonCommits, view: View, highest_job_id: Callable[[], int]
    ) -> None:
        self._wconfd = wconfd
        self._commits = commits
        self._view = view
        self._highest_job_id = highest_job_id

    @serves("ReplaceFilter")
    async def replace_filter(
        self, rule_uuid: RuleOrNew, priority: RulePriority, predicates: Predicates, action: Any, reason: ReasonTrail
    ) -> str:
        """Make a rule, with a given uuid or a new one; gives the uuid."""
        rule = FilterRule(
            uuid=str(uuid.uuid4()) if rule_uuid is None else rule_uuid,
            watermark=self._highest_job_id(),
            priority=priority,
            predicates=predicates,
            action=action,
            reason_trail=reason,
        )
        check_rule(rule)
        answer: str = await self._commit(ReplaceFilterChange(rule=rule))
        return answer

    @serves("DeleteFilter")
    async def delete_filter(self, rule_uuid: Rule) -> None:
        await self._commit(DeleteFilterChange(rule_uuid=rule_uuid))

    async def _commit(self, change: Change) -> Any:
        done = await self._commits.commit(change)
        try:
            async with asyncio.timeout(_SEEN_S):
                seen = await self._view.reached(done.position, _SEEN_S)
                await self._wconfd.wait_published(done.position)
        except (GanetiError, TimeoutError):
            seen = False
        if not seen:
            _log.warning("a change of filter rules is committed, and not seen everywhere yet")
        return done.result
