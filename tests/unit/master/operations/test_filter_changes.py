# SPDX-License-Identifier: BSD-2-Clause
"""Changes of job filter rules, applied to a draft."""

import msgspec
import pytest

from ganeti.base.errors import UNKNOWN_ENTITY, ParameterError, PrerequisiteError
from ganeti.master import operations
from ganeti.master.operations.filter_changes import DeleteFilterChange, ReplaceFilterChange
from ganeti.model.configuration import Configuration, Draft
from ganeti.model.objects import FilterRule
from ganeti.ports.config import Change

UUID = "00000001-0000-4000-8000-000000000000"
RULE = FilterRule(uuid=UUID, watermark=5, action="PAUSE", reason_trail=[["gnt:user", "why", 7]])


@pytest.fixture
def draft():
    return Draft(Configuration(), 1.0)


def test_a_rule_is_added_replaced_and_deleted(draft):
    assert ReplaceFilterChange(rule=RULE).apply(draft) == UUID
    newer = msgspec.structs.replace(RULE, action=["RATE_LIMIT", 2], watermark=9)
    assert ReplaceFilterChange(rule=newer).apply(draft) == UUID
    assert draft.filters() == [newer]
    DeleteFilterChange(rule_uuid=UUID).apply(draft)
    assert draft.filters() == []


def test_what_makes_no_sense_is_refused(draft):
    with pytest.raises(ParameterError, match="not an action"):
        ReplaceFilterChange(rule=msgspec.structs.replace(RULE, action="WAIT")).apply(draft)
    with pytest.raises(PrerequisiteError, match="no filter rule") as refused:
        DeleteFilterChange(rule_uuid=UUID).apply(draft)
    assert refused.value.args[1] == UNKNOWN_ENTITY
    assert not draft.touched


def test_the_configuration_daemon_knows_them_and_the_file_has_the_keys_of_3_1():
    operations.load()
    change = ReplaceFilterChange(rule=RULE)
    fields = msgspec.json.decode(msgspec.json.encode(msgspec.to_builtins(change)))
    assert msgspec.convert(fields, Change.registry["ReplaceFilterChange"]) == change
    assert "DeleteFilterChange" in Change.registry
    assert RULE.to_plain() == {
        "uuid": UUID,
        "watermark": 5,
        "priority": 0,
        "predicates": [],
        "action": "PAUSE",
        "reason_trail": [["gnt:user", "why", 7]],
    }
