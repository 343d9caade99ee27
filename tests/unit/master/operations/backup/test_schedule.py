# SPDX-License-Identifier: BSD-2-Clause
"""gnt-backup schedule: what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operations.backup.schedule import ScheduleBackups


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"action": "list", "schedule_name": "nightly"}, "All schedules are listed: leave 'nightly' out"),
        ({"action": "remove", "schedule_name": "nightly"}, "There is no schedule nightly: there are none"),
        ({"action": "add", "schedule_name": "nightly"}, "Say which node keeps the backups: add -n NODE"),
    ],
)
def test_what_means_nothing_is_refused(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PrerequisiteError, match=sentence):
        run(ScheduleBackups(**asked), FakeContext(configuration(), catalogue()))
