# SPDX-License-Identifier: BSD-2-Clause
"""MonD's reports: each collector by itself, switched by the cluster, over its paths (protocols, 5)."""

import asyncio
import json
import time
from typing import Any

import pytest
from tests.fakes.prometheus_text import read_page

from ganeti.base.paths import Paths
from ganeti.model.traits import HypervisorTraits
from ganeti.mond import monitor as monitoring
from ganeti.mond.answers import answer
from ganeti.mond.cluster import settings_of
from ganeti.mond.monitor import Monitor, collectors
from ganeti.mond.node import Node
from ganeti.node.catalogue import build_catalogue
from ganeti.node.collectors.interface import Collector, ConfiguredInstance, Setting, Settings
from ganeti.node.collectors.local_probes import LocalProbes
from ganeti.node.collectors.owners import Owned
from ganeti.node.collectors.report import PERFORMANCE, STATUS, UnreadableError
from ganeti.node.hypervisors.interface import RunningInstance, Sighting
from ganeti.system.http_server import HttpRequest

KEY = b"0123456789abcdef"


class View:
    """What the cluster says, as a test wants it."""

    def __init__(self, settings: Settings = Settings()) -> None:  # noqa: B008
        self.settings = settings
        self.wanted: frozenset[str] | None = None

    async def owners(self) -> Owned:
        return Owned()

    async def instances(self) -> list[ConfiguredInstance] | None:
        return [ConfiguredInstance("web1", "u1", "up", 7.0), ConfiguredInstance("web2", "u2", "down", 8.0)]


class Driver:
    traits = HypervisorTraits(name="fake", parameters=())
    state = "running"

    def seen(self) -> list[Sighting]:
        return [Sighting(name="web1", started_s=0.0, cpu_time_s=3.0, resident_bytes=4096)]

    async def list_instances(self) -> list[RunningInstance]:
        return [RunningInstance(name="web1", memory_mib=1, vcpus=1, state=self.state)]


def node_of(tmp_path: Any, view: View | None = None, hypervisors: str = "fake", driver: Driver | None = None) -> Node:
    words = {"hypervisor_list": [hypervisors], "file_storage_dir": ["/tmp"]}
    paths = Paths(str(tmp_path))

    def ssconf(key: str) -> list[str]:
        return words.get(key, [])

    probes = LocalProbes(paths, [driver or Driver()], ssconf)  # type: ignore[list-item]
    return Node("node1.x", view or View(), ["fake"], probes, lambda: KEY, ssconf)


def get(monitor: Monitor, path: str, method: str = "GET") -> tuple[int, Any]:
    request = HttpRequest(method=method, path=path, body=b"", peer="", certificate=None)
    found = asyncio.run(answer(monitor, request))
    return found.status, json.loads(found.body) if found.content_type == "application/json" else found.body.decode()


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/", (200, [1])),
        ("/1", (200, None)),
        ("/1/", (200, None)),
        ("/2", (404, "Resource not found")),
        ("/1/list", (404, "Resource not found")),
        ("/1/report/default/nothing", (404, "Unable to produce a report for the requested resource")),
        ("/1/report/storage/cpu-avg-load", (404, "Unable to produce a report for the requested resource")),
        ("/1/report/everything", (404, "Unable to produce a report for the requested resource")),
    ],
)
def test_paths(tmp_path, path, wanted):
    assert get(Monitor(node_of(tmp_path)), path) == wanted


def test_only_reading(tmp_path):
    assert get(Monitor(node_of(tmp_path)), "/", "POST")[0] == 405


def test_what_is_listed_is_reported_and_what_is_switched_off_is_not(tmp_path):
    view = View(Settings({"diskstats": Setting(active=False)}))
    monitor = Monitor(node_of(tmp_path, view))
    status, listed = get(monitor, "/1/list/collectors")
    assert status == 200 and ["cpu-avg-load", "default", PERFORMANCE] in listed
    assert ["inst-status-fake", "instance", STATUS] in listed
    assert not [each for each in listed if each[0] == "diskstats"]
    assert get(monitor, "/1/report/storage/diskstats")[0] == 404
    names = [each["name"] for each in get(monitor, "/1/report/all")[1]]
    assert names == [name for name, _, _ in listed]


def test_guests_of_a_hypervisor_the_cluster_does_not_have_are_not_told(tmp_path):
    assert get(Monitor(node_of(tmp_path, hypervisors="kvm")), "/1/report/instance/inst-status-fake")[0] == 404


def test_a_report_has_the_frame_of_ganeti_3_1(tmp_path):
    status, found = get(Monitor(node_of(tmp_path)), "/1/report/instance/inst-status-fake")
    assert status == 200
    assert list(found) == ["name", "version", "format_version", "timestamp", "category", "kind", "data"]
    assert (found["version"], found["format_version"]) == ("B", 1)
    [one, two] = found["data"]["instances"]
    assert (one["name"], one["actualState"], one["status"]["code"]) == ("web1", "running", 0)
    assert (two["name"], two["actualState"], two["adminState"]) == ("web2", "shutdown", "down")
    assert found["data"]["status"] == {"code": 0, "message": ""}


def test_loads_grow_with_samples(tmp_path, monkeypatch):
    node = node_of(tmp_path)
    asyncio.run(node.sample())
    asyncio.run(node.sample())
    status, found = get(Monitor(node), "/1/report/default/cpu-avg-load")
    assert status == 200 and found["data"]["cpu_number"] == len(found["data"]["cpus"]) > 0
    assert get(Monitor(node), "/1/report/default/inst-cpu-load")[1]["data"] == {"web1": 0.0}


def only(node: Node, *own: Collector) -> Monitor:
    monitor = Monitor(node)
    monitor._lines = {(each.category, each.name): monitoring._Line(node, each) for each in own}
    return monitor


def test_one_that_fails_or_hangs_spoils_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(monitoring, "PATIENCE_S", 0.05)

    async def breaks(node):
        raise UnreadableError("line 1: no number")

    async def hangs(node):
        await asyncio.sleep(3600)

    async def works(node):
        return {"well": True}

    monitor = only(
        node_of(tmp_path),
        Collector("breaks", "node", STATUS, breaks),
        Collector("hangs", None, PERFORMANCE, hangs),
        Collector("works", None, PERFORMANCE, works),
    )
    status, found = get(monitor, "/1/report/all")
    told = {each["name"]: each["data"] for each in found}
    assert status == 200 and told["works"] == {"well": True}
    assert told["breaks"] == {"error": "line 1: no number", "status": {"code": 4, "message": "line 1: no number"}}
    assert told["hangs"] == {"error": "it takes longer than 0.05 seconds"}
    assert monitor.failures() == {"breaks": 1, "hangs": 0, "works": 0}


def test_many_who_ask_at_once_cause_one_collecting(tmp_path):
    counted = []

    async def counts(node):
        counted.append(1)
        await asyncio.sleep(0)
        return len(counted)

    monitor = only(node_of(tmp_path), Collector("counts", None, PERFORMANCE, counts))

    async def ask():
        return await asyncio.gather(*(monitor.report(None, "counts") for _ in range(20)))

    assert {each["data"] for each in asyncio.run(ask())} == {1}


def test_a_paced_collector_works_at_its_interval_only(tmp_path):
    counted = []

    async def counts(node):
        counted.append(1)
        return len(counted)

    node = node_of(tmp_path, View(Settings({"slow": Setting(True, 3_600_000_000)})))
    monitor = only(node, Collector("slow", "node", STATUS, counts, paced=True))

    async def ask():
        monitor.start()
        first = await monitor.report("node", "slow")
        again = await monitor.report("node", "slow")
        await monitor.close()
        return first["data"], again["data"]

    assert asyncio.run(ask()) == (1, 1)


@pytest.mark.parametrize(
    "changed", [Settings({"slow": Setting(True, 1000)}), Settings({"slow": Setting(True, 3_600_000_000)}, "other")]
)
def test_a_paced_collector_follows_its_interval_and_its_command(tmp_path, monkeypatch, changed):
    """The interval that counted when it worked last may be a day."""
    monkeypatch.setattr("ganeti.mond.monitor.STEP_S", 0.01)
    again = asyncio.Event()
    counted = []

    async def counts(node):
        counted.append(1)
        if len(counted) == 2:
            again.set()

    view = View(Settings({"slow": Setting(True, 3_600_000_000)}))
    monitor = only(node_of(tmp_path, view), Collector("slow", "node", STATUS, counts, paced=True))

    async def ask():
        monitor.start()
        await monitor.report("node", "slow")
        view.settings = changed
        await asyncio.wait_for(again.wait(), 10)
        await monitor.close()

    asyncio.run(ask())


def test_a_guest_that_died_before_it_was_seen_is_told_by_what_should_run(tmp_path):
    view, told = View(), []
    node = node_of(tmp_path, view)
    node.tell = lambda ended, running: told.append((ended, running))
    view.wanted = frozenset(("web1", "web2"))
    for _ in range(3):
        asyncio.run(node.sample())
    assert told == [(None, ["web1"])], "as it begins it tells what runs: who hears that sees what does not"
    view.wanted = frozenset(("web1", "web2", "web3"))
    asyncio.run(node.sample())
    asyncio.run(node.look())
    assert len(told) == 1, "a moment later it may begin to run"
    asyncio.run(node.sample())
    assert told[1:] == [(["web3"], ["web1"])]


def test_settings_are_read_as_the_configuration_has_them():
    plain = {
        "lv": {"active": False, "interval": 7},
        "drbd": {"active": True},
        "odd": "yes",
        "x": {"active": True, "interval": -1},
    }
    assert settings_of(plain) == {"lv": Setting(False, 7), "drbd": Setting(), "x": Setting()}
    assert settings_of(None) == {}


def test_metrics(tmp_path):
    monitor = Monitor(node_of(tmp_path))
    asyncio.run(monitor.node.sample())
    status, page = get(monitor, "/metrics")
    lines = page.splitlines()
    assert status == 200
    assert 'ganeti_instance_running{instance="web1"} 1' in lines
    assert 'ganeti_instance_resident_bytes{instance="web1"} 4096' in lines
    assert 'ganeti_collector_up{collector="diskstats"} 1' in lines
    assert 'ganeti_node_diagnose{status="Ok"} 1' in lines
    assert all(family.samples for family in read_page(page).values())


def test_every_collector_has_a_name_of_its_own_and_can_be_switched() -> None:
    catalogue = build_catalogue()
    names = [own.name for own in collectors(list(catalogue.hypervisors))]
    assert len(set(names)) == len(names) >= 9
    assert set(names) == set(catalogue.collectors)


def test_a_paused_guest_is_seen_and_asked_for_now_and_then_only(tmp_path, monkeypatch) -> None:
    driver = Driver()
    node = node_of(tmp_path, driver=driver)
    driver.state = "paused"
    monitor = Monitor(node)
    monkeypatch.setattr(monitoring, "FRESH_S", 0.0)

    def web1() -> Any:
        return get(monitor, "/1/report/instance/inst-status-fake")[1]["data"]["instances"][0]

    assert (web1()["actualState"], web1()["status"]["code"]) == ("paused", 4)
    driver.state = "running"
    assert web1()["actualState"] == "paused"
    monkeypatch.setattr(time, "monotonic", lambda: 1e9)
    assert (web1()["actualState"], web1()["status"]["code"]) == ("running", 0)
