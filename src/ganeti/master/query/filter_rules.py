# SPDX-License-Identifier: BSD-2-Clause
"""Fields of job filter rules (rapi, section 4)."""

from dataclasses import dataclass

from ganeti.master.query.fields import OTHER, Field, QueryWorld, Resource, table
from ganeti.model.objects import FilterRule


@dataclass(frozen=True)
class FilterRow:
    rule: FilterRule


def _rows(world: QueryWorld) -> list[FilterRow]:
    """In the order in which the queue looks at them."""
    return [FilterRow(rule) for rule in sorted(world.view.filters(), key=lambda rule: (rule.priority, rule.uuid))]


FILTERS = Resource(
    "filter",
    "uuid",
    table(
        [
            Field(
                "watermark", "Watermark", OTHER, "Highest job ID when the rule was added", lambda r: r.rule.watermark
            ),
            Field("priority", "Priority", OTHER, "Rule priority", lambda r: r.rule.priority),
            Field("predicates", "Predicates", OTHER, "Rule predicates", lambda r: r.rule.predicates),
            Field("action", "Action", OTHER, "Rule action", lambda r: r.rule.action),
            Field("reason_trail", "ReasonTrail", OTHER, "Rule reason trail", lambda r: r.rule.reason_trail),
            Field("uuid", "UUID", OTHER, "Rule UUID", lambda r: r.rule.uuid),
        ]
    ),
    "Filter",
    rows=_rows,
    columns="uuid watermark priority predicates action reason_trail",
    program="gnt-filter",
)
