# SPDX-License-Identifier: BSD-2-Clause
"""Fields of job filter rules (rapi, section 4)."""

from dataclasses import dataclass

from ganeti.master.query.fields import OTHER, Field, QueryWorld, Resource, table
from ganeti.master.queue.filters import in_order
from ganeti.model.objects import FilterRule


@dataclass(frozen=True)
class FilterRow:
    rule: FilterRule


def _rows(world: QueryWorld) -> list[FilterRow]:
    """In the order in which the queue looks at them."""
    return [FilterRow(rule) for rule in in_order(world.view.filters())]


FILTERS = Resource(
    "filter",
    "uuid",
    table(
        [
            Field(
                "watermark",
                "Watermark",
                OTHER,
                "Last job submitted before the rule was added",
                lambda r: r.rule.watermark,
            ),
            Field(
                "priority", "Priority", OTHER, "Rules with small numbers are looked at first", lambda r: r.rule.priority
            ),
            Field(
                "predicates",
                "Predicates",
                OTHER,
                "Which jobs the rule is about; all of them without any",
                lambda r: r.rule.predicates,
            ),
            Field("action", "Action", OTHER, "What happens to these jobs", lambda r: r.rule.action),
            Field(
                "reason_trail", "ReasonTrail", OTHER, "Who added the rule, when and why", lambda r: r.rule.reason_trail
            ),
            Field("uuid", "UUID", OTHER, "UUID of the rule", lambda r: r.rule.uuid),
        ]
    ),
    "Filter",
    rows=_rows,
    columns="uuid watermark priority predicates action reason_trail",
    program="gnt-filter",
)
