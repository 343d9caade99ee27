# SPDX-License-Identifier: BSD-2-Clause
"""What is due by schedules of backups: the narrowest one counts, a job is made once, and a failure waits."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.master.backups import (
    CREATE,
    PROVE,
    DropSchedule,
    PutSchedule,
    RecordBackup,
    RecordProof,
    RecordTries,
    due,
    schedule_of,
)
from ganeti.model.configuration import Configuration, Draft
from ganeti.model.objects import BACKUPS_KEY, BackupSchedule
from ganeti.ports.config import Change

NOW_S = 1_000_000.0


@pytest.fixture
def config() -> Configuration:
    made = configuration()
    for name in ("web1", "web2"):
        add_instance(made, name, template="local")
    return made


def change(config: Configuration, wanted: Change) -> None:
    draft = Draft(config, NOW_S)
    wanted.apply(draft)
    for (kind, uuid), obj in draft.touched.items():
        assert obj is not None
        config.put(kind, uuid, obj)


def add(config: Configuration, name: str, scope: str = "cluster", target: str = "", **values: Any) -> None:
    fields: dict[str, Any] = {"node": config.find_node("node3").uuid, "interval_s": 3600, "keep": 3} | values
    change(config, PutSchedule(schedule=BackupSchedule(name=name, scope=scope, target=target, **fields)))


def found(config: Configuration, now_s: float) -> list[str]:
    return [f"{each.kind} {each.instance.name} {each.schedule}" for each in due(config, now_s)]


def test_the_narrowest_schedule_counts(config: Configuration) -> None:
    web1, web2 = (config.find_instance(name) for name in ("web1", "web2"))
    assert schedule_of(config, web1) is None
    add(config, "all")
    add(config, "group", "group", config.node(web1.primary_node).group)
    config.put("instances", web2.uuid, replace(web2, tags=["often"]))
    add(config, "tagged", "tag", "often")
    add(config, "own", "instance", web1.uuid)
    assert found(config, NOW_S) == ["create web1 own", "create web2 tagged"]
    change(config, DropSchedule(name="own"))
    assert found(config, NOW_S)[0] == "create web1 group"
    add(config, "tagged", "instance", web1.uuid)
    assert [each.name for each in config.backups.schedules] == ["all", "group", "tagged"]


def test_a_try_waits_and_a_backup_waits_longer(config: Configuration) -> None:
    uuid = config.find_instance("web1").uuid
    add(config, "own", "instance", uuid, interval_s=7200, prove_interval_s=86400)
    change(config, RecordTries(tried=[f"{CREATE} {uuid}"], now_s=NOW_S))
    assert found(config, NOW_S + 3599) == [] and found(config, NOW_S + 3600) == ["create web1 own"]
    change(config, RecordBackup(instance_uuid=uuid, made_s=NOW_S))
    assert found(config, NOW_S + 3600) == ["prove web1 own"]
    change(config, RecordTries(tried=[f"{PROVE} {uuid}"], now_s=NOW_S + 3600))
    assert found(config, NOW_S + 3700) == []
    change(config, RecordProof(instance_uuid=uuid, proved_s=NOW_S + 3800))
    assert found(config, NOW_S + 7200) == ["create web1 own"], "a backup comes before a proof"
    assert found(config, NOW_S - 10) == ["create web1 own"], "a clock that was set back stops nothing"


def test_what_is_known_of_instances_that_are_gone_is_forgotten(config: Configuration) -> None:
    uuid = config.find_instance("web1").uuid
    change(config, RecordBackup(instance_uuid=uuid, made_s=NOW_S))
    change(config, RecordTries(tried=[f"{CREATE} {uuid}"], now_s=NOW_S))
    config.remove("instances", uuid)
    change(config, RecordTries(tried=[], now_s=NOW_S))
    kept = config.get("backups", BACKUPS_KEY)
    assert (kept.tried, kept.done) == ({}, {})  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["node1", "node3"])
def test_a_node_that_is_offline_is_left_alone(config: Configuration, name: str) -> None:
    instance = config.find_instance("web1")
    add(config, "own", "instance", instance.uuid)
    uuid = instance.primary_node if name == "node1" else config.find_node(name).uuid
    config.put("nodes", uuid, replace(config.node(uuid), offline=True))
    assert found(config, NOW_S) == []
