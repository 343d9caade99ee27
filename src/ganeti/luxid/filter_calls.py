# SPDX-License-Identifier: BSD-2-Clause
"""LUXI calls that change job filter rules (protocols, sections 2 and 13).

LuxiD commits the change itself: a job for it could be held by the very rule it is to change. An answer is given when
our view, `config.data` and what candidates copy hold the change, so that the queue goes by it at once.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Any, Protocol

from ganeti.base.errors import GanetiError, ParameterError
from ganeti.calls.daemon_commits import DaemonCommits
from ganeti.calls.serving import Handler
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.luxid.arguments import at_most, integer
from ganeti.master.operations.filter_changes import DeleteFilterChange, ReplaceFilterChange
from ganeti.master.queue.filters import check_rule
from ganeti.model.objects import FilterRule
from ganeti.ports.config import Change

_log = logging.getLogger(__name__)
_SEEN_S = 10.0
_LARGEST_NUMBER = 2**63


class View(Protocol):
    async def reached(self, position: tuple[int, int], timeout_s: float) -> bool: ...


class FilterCalls:
    """Handlers of the argument lists of LUXI requests."""

    def __init__(
        self, wconfd: WConfdClient, commits: DaemonCommits, view: View, highest_job_id: Callable[[], int]
    ) -> None:
        self._wconfd = wconfd
        self._commits = commits
        self._view = view
        self._highest_job_id = highest_job_id

    def table(self) -> dict[str, Handler]:
        return {"ReplaceFilter": self.replace_filter, "DeleteFilter": self.delete_filter}

    async def replace_filter(self, args: list[Any]) -> str:
        """Make a rule, with a given uuid or a new one; gives the uuid."""
        rule = read_rule(at_most(args, 5, 5), str(uuid.uuid4()), self._highest_job_id())
        answer: str = await self._commit(ReplaceFilterChange(rule=rule))
        return answer

    async def delete_filter(self, args: list[Any]) -> None:
        (rule_uuid,) = at_most(args, 1, 1)
        if not isinstance(rule_uuid, str):
            raise ParameterError(f"The UUID of a filter rule must be text, not {rule_uuid!r}")
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


def read_rule(args: list[Any], new_uuid: str, watermark: int) -> FilterRule:
    """Read [uuid or null, priority, predicates, action, reason trail]; raises `ParameterError`."""
    rule_uuid, priority, predicates, action, reason = args
    if rule_uuid is not None and not isinstance(rule_uuid, str):
        raise ParameterError(f"The UUID of a filter rule must be text, or null for a new one, not {rule_uuid!r}")
    if integer(priority, "priority of a filter rule") >= _LARGEST_NUMBER:
        raise ParameterError("The priority of a filter rule is too large: the smallest numbers go first")
    if not isinstance(predicates, list):
        raise ParameterError('The predicates of a filter rule must be a list, as in [["jobid", [">", "id", 7]]]')
    if not isinstance(reason, list) or not all(_is_reason(entry) for entry in reason):
        raise ParameterError("The reason of a filter rule must be a list of [source, reason, timestamp]")
    rule = FilterRule(
        uuid=new_uuid if rule_uuid is None else rule_uuid,
        watermark=watermark,
        priority=priority,
        predicates=predicates,
        action=action,
        reason_trail=reason,
    )
    check_rule(rule)
    return rule


def _is_reason(entry: Any) -> bool:
    match entry:
        case [str(), str(), int() as stamp]:
            return not isinstance(stamp, bool)
    return False
