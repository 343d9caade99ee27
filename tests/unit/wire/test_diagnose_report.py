# SPDX-License-Identifier: BSD-2-Clause
"""Reports that are believed, and those that are not (S4.14)."""

import json
from typing import Any

import pytest

from ganeti.node.collectors.diagnose import signed
from ganeti.wire.diagnose_report import BROKEN, MISPLACED, OUTDATED, UNREADABLE, UNSIGNED, RefusedReport, read_report

KEY, NOW_S = b"key", 1e9
OBJECT = {"status": "evacuate", "details": [1, None]}


def body(node: str = "node1", key: bytes = KEY, now_s: float = NOW_S, **changes: Any) -> bytes:
    return json.dumps({"data": OBJECT, "signed": signed(OBJECT, node, key, now_s) | changes}).encode()


def test_a_report_of_the_node_signed_now_is_believed() -> None:
    told = read_report(body(), "node1", KEY, NOW_S + 3)
    assert told.original == OBJECT and told.time_s == NOW_S


@pytest.mark.requirement("S4.14")
@pytest.mark.parametrize(
    ("report", "kind"),
    [
        (body(key=b"another"), UNSIGNED),
        (body(msg='{"node": "node1", "time": 1e9, "diagnose": {"status": "evacuate"}}'), UNSIGNED),
        (body(salt="1"), UNSIGNED),
        (body(hmac="ä"), UNSIGNED),
        (json.dumps({"data": OBJECT}).encode(), UNSIGNED),
        (b"[]", UNSIGNED),
        (b"no JSON", UNREADABLE),
        (b"[" * 100_000, UNREADABLE),
        (body("node2"), MISPLACED),
        (body(now_s=NOW_S - 301), OUTDATED),
        (body(now_s=NOW_S + 301), OUTDATED),
        (json.dumps({"signed": __import__("ganeti.wire.confd").wire.confd.sign("[1]", "1", KEY)}).encode(), UNREADABLE),
    ],
)
def test_anything_else_is_refused_with_the_reason(report: bytes, kind: str) -> None:
    with pytest.raises(RefusedReport) as refusal:
        read_report(report, "node1", KEY, NOW_S)
    assert refusal.value.kind == kind


@pytest.mark.requirement("S4.6", "S4.7")
@pytest.mark.parametrize(
    "changes",
    [
        {"status": "reboot"},
        {"status": None},
        {"status": ["evacuate"]},
        {"status": "live-repair"},
        {"status": "live-repair", "command": "../fix"},
        {"command": 3},
        {"details": 1e999},
    ],
)
def test_an_object_that_nobody_knows_is_refused_although_it_is_signed(changes: dict[str, Any]) -> None:
    original = OBJECT | changes
    report = json.dumps({"data": original, "signed": signed(original, "node1", KEY, NOW_S)}).encode()
    with pytest.raises(RefusedReport) as refusal:
        read_report(report, "node1", KEY, NOW_S)
    assert refusal.value.kind == BROKEN


def test_a_slow_collector_is_given_more_time() -> None:
    assert read_report(body(now_s=NOW_S - 1000), "node1", KEY, NOW_S, oldest_s=1500).original == OBJECT
