# SPDX-License-Identifier: BSD-2-Clause
"""The list of job filter rules."""

from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.master.query.fields import QueryWorld
from ganeti.master.query.filter_rules import FILTERS
from ganeti.model.objects import FilterRule


def test_rules_are_listed_in_the_order_in_which_the_queue_looks_at_them() -> None:
    config = configuration()
    for number, (priority, watermark) in enumerate([(1, 3), (0, 9), (0, 4), (0, 9)]):
        uuid = f"{number}0000000-0000-4000-8000-000000000000"
        config.put("filters", uuid, FilterRule(uuid=uuid, action="ACCEPT", priority=priority, watermark=watermark))
    assert FILTERS.rows is not None
    rows = FILTERS.rows(QueryWorld(config, catalogue()))
    assert [row.rule.uuid[0] for row in rows] == ["2", "1", "3", "0"]
