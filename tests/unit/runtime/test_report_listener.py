# SPDX-License-Identifier: BSD-2-Clause
"""What queries hear of nodes reaches the reports placement uses."""

from __future__ import annotations

from typing import Any

from ganeti.base.errors import NodeUnreachableError
from ganeti.master.cache.node_reports import NodeReports, Space
from ganeti.ports.nodes import NodeAnswer
from ganeti.runtime.report_listener import ReportListener

GUEST = {"name": "web1", "memory_mib": 512, "state": "running", "vcpus": 1}


def info(**more: Any) -> dict[str, Any]:
    numbers = {"memory_total": 8, "memory_free": 4, "memory_dom0": 1, "cpu_total": 2, "cpu_dom0": 1}
    storage = [{"storage_size": 9, "storage_free": 7}]
    return {"storage": storage, "hypervisors": {"pretend": numbers}, "guests": [GUEST], **more}


def listener() -> tuple[ReportListener, NodeReports, list[float]]:
    reports, clock = NodeReports(), [5.0]
    return ReportListener(reports, lambda: clock[0]), reports, clock


def test_a_whole_answer_is_a_report() -> None:
    heard, reports, clock = listener()
    begun = heard.begin()
    clock[0] = 9.0
    reports.changed(["b"])
    heard.whole([NodeAnswer("a", info()), NodeAnswer("b", info())], ["local"], begun)
    report = reports.report("a")
    assert report is not None
    assert (report.memory_free_mib, report.space, report.guests) == (
        4,
        {"local": Space(9, 7)},
        [("web1", 512, "running")],
    )
    assert reports.stale(["a", "b"], 5.0 + 29) == ["b"], "b changed while it was asked"
    assert reports.stale(["a"], 5.0 + 30) == ["a"], "its age counts from the question"


def test_less_than_the_whole_is_none() -> None:
    heard, reports, _ = listener()
    heard.whole([NodeAnswer("a", info(guests=None)), NodeAnswer("b", info(hypervisors={}))], ["local"], heard.begin())
    assert reports.report("a") is reports.report("b") is None


def test_silence_is_noted() -> None:
    heard, reports, _ = listener()
    heard.whole([NodeAnswer("a", error=NodeUnreachableError("Node a has no power"))], [], heard.begin())
    report = reports.report("a")
    assert report is not None and "no power" in report.silence


def test_guests_are_compared() -> None:
    heard, reports, _ = listener()
    heard.whole([NodeAnswer("a", info()), NodeAnswer("b", info())], ["local"], heard.begin())
    heard.guests([NodeAnswer("a", [GUEST]), NodeAnswer("b", [])])
    heard.guests([NodeAnswer("a", error=NodeUnreachableError("away"))])
    assert reports.stale(["a", "b"], 5.0) == ["b"]
