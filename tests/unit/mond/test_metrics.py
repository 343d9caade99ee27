# SPDX-License-Identifier: BSD-2-Clause
"""The page for Prometheus: what of each report stands in it, in which units."""

from __future__ import annotations

from typing import Any

from ganeti.mond import metrics as page
from ganeti.mond.monitor import collectors


def metrics(reports: list[dict[str, Any]], failures: dict[str, int], refused: int = 0) -> str:
    return page.metrics(collectors(["kvm"]), reports, failures, refused)


def report(name: str, data: Any) -> dict[str, Any]:
    return {"name": name, "data": data}


def lines(*reports: dict[str, Any], refused: int = 0) -> list[str]:
    """The page's lines without its comments and what it says of collectors."""
    found = metrics(list(reports), {}, refused).splitlines()
    return [line for line in found if not line.startswith(("#", "ganeti_collector", "ganeti_node_diagnose_refused"))]


def test_sectors_are_told_in_bytes() -> None:
    disk = {"name": "sda", "readsNum": 3, "secRead": 10, "writes": 4, "secWritten": 20}
    assert lines(report("diskstats", [disk])) == [
        'ganeti_disk_reads_total{device="sda"} 3',
        'ganeti_disk_read_bytes_total{device="sda"} 5120',
        'ganeti_disk_writes_total{device="sda"} 4',
        'ganeti_disk_written_bytes_total{device="sda"} 10240',
    ]


def test_a_guest_runs_or_is_paused_or_neither() -> None:
    found = [
        {"name": name, "actualState": state, "status": {"code": code}}
        for name, state, code in (("web1", "running", 0), ("web2", "paused", 4), ("web3", "shutdown", 1))
    ]
    told = lines(report("inst-status-kvm", {"instances": found}))
    values = {
        name: [line.rsplit(" ", 1)[1] for line in told if f'instance="{name}"' in line]
        for name in ("web1", "web2", "web3")
    }
    assert values == {"web1": ["1", "0", "0"], "web2": ["0", "1", "4"], "web3": ["0", "0", "1"]}


def test_the_diagnose_command_has_said_one_thing() -> None:
    assert lines(report("diagnose", {"status": "evacuate"})) == [
        'ganeti_node_diagnose{status="Ok"} 0',
        'ganeti_node_diagnose{status="live-repair"} 0',
        'ganeti_node_diagnose{status="evacuate"} 1',
        'ganeti_node_diagnose{status="evacuate-failover"} 0',
    ]
    assert "ganeti_node_diagnose_refused_total 7" in metrics([], {}, 7).splitlines()


def test_a_collector_that_fails_is_down_and_tells_nothing_else() -> None:
    found = metrics([report("storage", {"error": "it hangs"}), report("lv", [])], {"storage": 3}).splitlines()
    assert [line for line in found if "storage" in line and not line.startswith("#")] == [
        'ganeti_collector_up{collector="storage"} 0',
        'ganeti_collector_failures_total{collector="storage"} 3',
    ]
    assert 'ganeti_collector_up{collector="lv"} 1' in found


def test_signs_that_end_a_label_are_escaped() -> None:
    place = {"path": '/srv/a"b\\c\nd', "size": 2, "free": 1.5}
    label = 'path="/srv/a\\"b\\\\c\\nd"'
    assert lines(report("storage", [place])) == [
        f"ganeti_storage_size_bytes{{{label}}} 2",
        f"ganeti_storage_free_bytes{{{label}}} 1.5",
    ]
