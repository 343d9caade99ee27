# SPDX-License-Identifier: BSD-2-Clause
"""The watcher and disks with two copies: those left behind are opened again; without such disks it asks once."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.luxi_master import FakeMaster, fake_master

from ganeti.base.paths import Paths
from ganeti.daemons.watcher_disks import DiskWork

GROUP = "11111111-aaaa"
NOTHING: list[Any] = [{}, [], {}]


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(str(tmp_path))
    os.makedirs(found.socket_dir)
    return found


@pytest.fixture
def master(paths: Paths) -> Iterator[FakeMaster]:
    with fake_master(Path(paths.luxi_socket)) as found:
        found.answers |= {
            "Query": lambda _: (True, {"fields": [], "data": [[[0, "web1"]]]}),
            "SubmitJob": lambda _: (True, 7),
            "WaitForJobChange": lambda _: (True, [["success", [NOTHING]], None]),
            "SubmitManyJobs": lambda arguments: (True, [[True, 8 + n] for n, _ in enumerate(arguments[0])]),
        }
        yield found


def asked(master: FakeMaster) -> list[str]:
    return [method for method, _ in master.asked]


def test_a_group_without_copies_costs_one_question(paths: Paths, master: FakeMaster) -> None:
    master.answers["Query"] = lambda _: (True, {"fields": [], "data": []})
    DiskWork(paths, GROUP).run()
    assert asked(master) == ["Query"]
    assert master.asked[0][1][2] == [
        "&",
        ["=", "pnode.group.uuid", GROUP],
        ["?", "snodes"],
        ["?", "disks_active"],
    ]


@pytest.mark.parametrize("strict", [True, False])
def test_where_all_is_well_nothing_is_opened(paths: Paths, master: FakeMaster, strict: bool) -> None:
    DiskWork(paths, GROUP, strict=strict).run()
    assert asked(master) == ["Query", "SubmitJob", "WaitForJobChange"]
    (opcode,) = master.asked[1][1][0]
    assert (opcode["OP_ID"], opcode["group_name"], opcode["is_strict"]) == ("OP_GROUP_VERIFY_DISKS", GROUP, strict)


def test_a_copy_that_is_behind_is_opened_again(
    paths: Paths, master: FakeMaster, caplog: pytest.LogCaptureFixture
) -> None:
    result = [{"node3": "it hangs"}, ["web1", "web2"], {"web3": [["node2", "/srv/d"]]}]
    master.answers["WaitForJobChange"] = lambda _: (True, [["success", [result]], None])
    with caplog.at_level(logging.WARNING):
        DiskWork(paths, GROUP).run()
    (jobs,) = master.asked[-1][1]
    assert [(job[0]["OP_ID"], job[0]["instance_name"]) for job in jobs] == [
        ("OP_INSTANCE_ACTIVATE_DISKS", "web1"),
        ("OP_INSTANCE_ACTIVATE_DISKS", "web2"),
    ]
    assert "the disks on node node3 cannot be looked at: it hangs" in caplog.text
    assert "instance web3 has lost /srv/d on node2: see gnt-instance replace-disks" in caplog.text
    assert "job 9 opens them again" in caplog.text


def test_a_job_that_fails_is_told_and_ends_nothing(
    paths: Paths, master: FakeMaster, caplog: pytest.LogCaptureFixture
) -> None:
    master.answers["WaitForJobChange"] = lambda _: (True, [["error", [None]], None])
    DiskWork(paths, GROUP).run()
    assert "job 7 ended with error: see gnt-job info 7" in caplog.text
