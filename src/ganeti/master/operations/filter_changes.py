# SPDX-License-Identifier: BSD-2-Clause
"""Changes of job filter rules.

They belong to no job: LuxiD commits them itself, since no filter may stand in the way of its own change.
"""

from ganeti.base.errors import UNKNOWN_ENTITY, PrerequisiteError
from ganeti.master.queue.filters import check_rule
from ganeti.model.configuration import Draft
from ganeti.model.objects import FilterRule
from ganeti.ports.config import Change


class ReplaceFilterChange(Change, frozen=True, kw_only=True):
    """Put a rule in the place of the one with its uuid, or add it if there is none; gives the uuid.

    Raises `ParameterError` for a rule that makes no sense.
    """

    rule: FilterRule

    def apply(self, draft: Draft) -> str:
        check_rule(self.rule)
        draft.put("filters", self.rule)
        return self.rule.uuid


class DeleteFilterChange(Change, frozen=True, kw_only=True):
    """Take a rule out; raises `PrerequisiteError` if there is none with this uuid."""

    rule_uuid: str

    def apply(self, draft: Draft) -> None:
        if draft.get("filters", self.rule_uuid) is None:
            raise PrerequisiteError(
                f"There is no filter rule '{self.rule_uuid}': see 'gnt-filter list' for those there are", UNKNOWN_ENTITY
            )
        draft.remove("filters", self.rule_uuid)
