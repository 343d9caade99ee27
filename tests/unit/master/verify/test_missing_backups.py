# SPDX-License-Identifier: BSD-2-Clause
"""Verification tells of backups that schedules ask for and that nobody makes, and of places that cannot be read."""

from __future__ import annotations

from msgspec.structs import replace
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.base.errors import BlockDeviceError, NodeUnreachableError
from ganeti.master.verify.backups import leftovers, missing
from ganeti.model.configuration import Configuration
from ganeti.model.objects import BACKUPS_KEY, Backups, BackupSchedule
from ganeti.ports.nodes import NodeAnswer

NIGHTLY = BackupSchedule(name="nightly", scope="cluster", node="uuid-node3", interval_s=86400, keep=7)


def told(config: Configuration, now_s: float = 1e6) -> list[tuple[str, str]]:
    return [(each.severity, each.message) for each in missing(config, now_s)]


def scheduled(**values: object) -> Configuration:
    config = configuration()
    web = add_instance(config, "web1")
    add_instance(config, "web2")
    key = f"create {web.uuid}"
    known = {name: {key: time_s} for name, time_s in values.items()}
    config.put("backups", BACKUPS_KEY, Backups(schedules=[NIGHTLY], **known))
    return config


def test_backups_that_are_late_are_told() -> None:
    assert told(scheduled()) == [], "nothing was due yet"
    assert told(scheduled(done=1e6 - 2 * 86400 + 1)) == []
    late = "backup schedule nightly: the newest backup of web1 is 48 h old, see its jobs"
    assert told(scheduled(done=1e6 - 2 * 86400)) == [("WARNING", late)]
    assert told(scheduled(done=2e6)) == [], "a clock was set back"
    never = "backup schedule nightly: no backup of web1 was made, see its jobs"
    assert told(scheduled(tried=1e6 - 60)) == [("WARNING", never)]


def test_a_schedule_whose_node_is_away_is_told_once() -> None:
    config = scheduled(done=1.0)
    config.put("nodes", "uuid-node3", replace(config.node("uuid-node3"), offline=True))
    ((severity, sentence),) = told(config)
    assert severity == "WARNING" and "node node3, which is offline: none is made until it is back" in sentence
    config.remove("nodes", "uuid-node3")
    ((severity, sentence),) = told(config)
    assert severity == "ERROR" and "a node that does not exist" in sentence


def test_a_node_whose_place_for_backups_cannot_be_read_is_told() -> None:
    answers = [
        NodeAnswer("uuid-node1", error=NodeUnreachableError("Node node1 cannot be reached")),
        NodeAnswer("uuid-node3", error=BlockDeviceError("Node node3: No file system is mounted at /mnt/backups")),
    ]
    [found] = leftovers(configuration(), [], answers)
    assert (found.code, found.name, found.severity) == ("ENODESETUP", "node3", "WARNING")
    assert found.message == "its backups cannot be listed: Node node3: No file system is mounted at /mnt/backups"
