# SPDX-License-Identifier: BSD-2-Clause
"""The paths of the maintenance daemon as a client gets them over HTTP, and its metrics."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from tests.fakes.maintained_cluster import MaintainedCluster
from tests.fakes.prometheus_text import read_page

from ganeti.maintd.answers import Answers
from ganeti.master.maintenance.changes import CancelIncident, ChangeMaintenance, RecordIncidents
from ganeti.system.http_server import HttpServer

CANCELED = "22222222-2222-4222-8222-222222222222"
NOTED = "11111111-1111-4111-8111-111111111111"
ORIGINAL = {"status": "evacuate", "details": {"disk": "sda"}}


class World(MaintainedCluster):
    """A cluster with two incidents, told by the daemon's own paths."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.commit(RecordIncidents(noted=[(NOTED, "n1", "evacuate", ORIGINAL), (CANCELED, "n2", "evacuate", {})]))
        self.commit(CancelIncident(uuid=CANCELED))
        self.commit(ChangeMaintenance(values={"jobs": [7, 8], "evacuated": ["web1"]}))

    def ask(self, *paths: str) -> list[tuple[int, str, str]]:
        """Status, type and text of each answer."""

        async def hear_loss(body: bytes) -> str:
            return "The report has no signature"

        async def story() -> list[tuple[int, str, str]]:
            refused = {"signature": 3}
            answers = Answers(lambda: self.config, lambda: refused, lambda body: "no", hear_loss)
            server = HttpServer(answers.answer, address="127.0.0.1", port=0, tls=None)
            await server.start()
            try:
                urls = [f"http://127.0.0.1:{server.port}{path}" for path in paths]
                return [await asyncio.to_thread(fetched, url) for url in urls]
            finally:
                await server.close()

        return asyncio.run(story())


def fetched(url: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as reply:
            return reply.status, reply.headers["Content-Type"], reply.read().decode()
    except urllib.error.HTTPError as err:
        return err.code, err.headers["Content-Type"], err.read().decode()


def plain(path: str) -> Any:
    [(status, kind, text)] = World().ask(path)
    assert (status, kind) == (200, "application/json")
    return json.loads(text)


@pytest.mark.requirement("S4.27", "S4.28", "S4.29", "S4.30", "S4.31")
def test_each_path_tells_what_the_configuration_says() -> None:
    assert plain("/") == [1]
    assert plain("/1") is None
    assert plain("/1/jobs") == [7, 8]
    assert plain("/1/evacuated") == ["web1"]
    noted, canceled = plain("/1/status")
    assert (noted["repair-status"], canceled["repair-status"]) == ("noted", "canceled"), "none is left out"
    fields = ("id", "uuid", "node", "original", "jobs", "tag")
    assert [noted[field] for field in fields] == [NOTED, NOTED, "n1", ORIGINAL, [], f"maintd:repairready:{NOTED}"]


def test_metrics_are_text_that_prometheus_reads() -> None:
    [(status, kind, text)] = World().ask("/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    told = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    counts = [told[f'ganeti_incidents{{status="{each}"}}'] for each in ("noted", "canceled", "failed")]
    assert counts == ["1", "1", "0"]
    assert told['ganeti_reports_refused_total{reason="signature"}'] == "3"
    assert told['ganeti_reports_refused_total{reason="node"}'] == "0"
    assert told["ganeti_maintenance_jobs"] == "2"
    assert read_page(text)["ganeti_incidents"].kind == "gauge"


def test_what_is_not_there_is_said() -> None:
    assert [reply[0] for reply in World().ask("/1/nothing", "/2", "/1/status/more")] == [404, 404, 404]
