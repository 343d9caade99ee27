# SPDX-License-Identifier: BSD-2-Clause
"""Who ended a guest, by what QEMU told before."""

from __future__ import annotations

from typing import Any

import pytest

from ganeti.node.hypervisors.kvm.user_shutdown import BUTTON_COUNTS_S, PowerStory


def event(name: str, at_s: float = 1000.0, **data: Any) -> dict[str, Any]:
    return {"event": name, "timestamp": {"seconds": at_s, "microseconds": 0}, "data": data}


OFF = event("SHUTDOWN", guest=True, reason="guest-shutdown")


@pytest.mark.parametrize(
    ("events", "by_user"),
    [
        ([OFF], True),
        ([event("SHUTDOWN", guest=True)], True),
        ([event("POWERDOWN", 990.0), OFF], False),
        ([event("POWERDOWN", 999.0 - BUTTON_COUNTS_S), OFF], True),
        ([event("POWERDOWN", 990.0), event("RESET", 995.0), OFF], True),
        ([event("SHUTDOWN", guest=True, reason="guest-reset")], False),
        ([event("SHUTDOWN", guest=True, reason="guest-panic")], False),
        ([event("SHUTDOWN", guest=False, reason="host-qmp-quit")], False),
    ],
)
def test_who_ended_it(events: list[dict[str, Any]], by_user: bool) -> None:
    story = PowerStory()
    *before, last = events
    assert [story.hear(each) for each in before] == [None] * len(before)
    assert story.hear(last) is by_user
