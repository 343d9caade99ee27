# SPDX-License-Identifier: BSD-2-Clause
"""`gnt-debug record` tells the story of an instance, a node and a job across the nodes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
SECRET, LOGIN = "hidden-from-everybody", "said-once-and-kept-nowhere"
"""A private parameter, which the configuration keeps, and a secret one, which is handed to the OS scripts alone."""
OS_THAT_ASKS = """
cp -r $0 /srv/ganeti/os/asks; cd /srv/ganeti/os/asks
printf 'key what for\\nlogin what for\\n' >parameters.list
printf '#!/bin/sh\\ntest -n "$OSP_KEY" && test -n "$OSP_LOGIN"\\n' >create
"""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("record").resolve(), 2, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        yield FakeBed(layout)
    finally:
        testbed.down(layout)


def test_the_story_of_an_instance_a_job_and_a_node(bed: FakeBed) -> None:
    def told(what: str) -> str:
        return bed.run("gnt-debug", "record", what)

    for node in ("node1", "node2"):
        bed.run("sh", "-c", OS_THAT_ASKS, str(bed.layout.checkout / "os/noop"), node=node)
    create = ("gnt-instance", "add", "-t", "diskless", "--no-start", "-o", "asks+default", "-n", "node2")
    bed.run(*create, f"--os-parameters-private=key={SECRET}", f"--os-parameters-secret=login={LOGIN}", "web1")
    bed.run("gnt-instance", "startup", "web1")
    bed.wait(lambda: "guest web1 runs" in told("web1"), "the monitoring to see the guest", 30.0)
    job = bed.submit("gnt-instance", "migrate", "-f", "web1")
    bed.wait(lambda: bed.job_status(job) == "success", "the migration")

    story = told("web1")
    for pattern in (
        r"node1  job \d+ \(INSTANCE_CREATE\(web1\)\) submitted",
        r"node2  job \d+: instance_start ended after [\d.]+ s",
        r"node1  configuration: instance web1 added",
        rf"node1  job {job} is success, was running",
        rf"node2  job {job}: instance_migrate ended",
    ):
        assert re.search(pattern, story), f"{pattern} in\n{story}"
    moments = [line[:23] for line in story.splitlines()]
    assert moments == sorted(moments)
    assert not [secret for secret in (SECRET, LOGIN) if secret in story + told("node2")]
    assert f"job {job}: instance_migrate ended" in told(str(job)) and "INSTANCE_CREATE" not in told(str(job))
    bed.wait(lambda: "guest web1 runs no longer" in told("node2"), "the monitoring to miss the guest", 30.0)
    assert "Nothing is recorded of 'mars'" in bed.run("gnt-debug", "record", "mars", expect=1)

    bed.run("gnt-instance", "remove", "-f", "web1")
    assert "configuration: instance web1 removed" in told("web1")
    bed.run("daemon-util", "stop", "ganeti-noded", node="node2")
    assert "What node node2 has recorded is missing" in told("web1")
    bed.run("daemon-util", "start", "ganeti-noded", node="node2")
