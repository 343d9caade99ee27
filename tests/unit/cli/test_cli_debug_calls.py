# SPDX-License-Identifier: BSD-2-Clause
"""gnt-debug wconfd: words become arguments, the result is shown as it is."""

import pytest
from fake_master import FakeMaster, Hangup

from ganeti.base.paths import Paths


@pytest.fixture
def daemon(tmp_path):
    path = Paths(str(tmp_path / "root")).wconfd_socket
    (tmp_path / "root/run/ganeti/socket").mkdir(parents=True)
    fake = FakeMaster(path)
    yield fake
    fake.stop()


def test_a_result_is_json(gnt, daemon):
    daemon.answers["listLocks"] = lambda *words: list(words)
    ran = gnt("gnt-debug wconfd listLocks 7 [1,null] plain")
    assert (ran.status, ran.out) == (0, '[\n  7,\n  [\n    1,\n    null\n  ],\n  "plain"\n]\n')
    assert daemon.requests == [("listLocks", [7, [1, None], "plain"])]


def test_errors_are_one_sentence(gnt, daemon):
    ran = gnt("gnt-debug wconfd moon")
    assert (ran.status, ran.out) == (1, "")
    assert "The call moon failed: Failed to parse request" in ran.err
    daemon.answers["echo"] = Hangup()
    assert "The configuration daemon gave no answer" in gnt("gnt-debug wconfd echo").err
    assert "never ends: follow the cluster with 'gnt-debug events'" in gnt("gnt-debug wconfd subscribe 1").err


def test_a_machine_without_a_cluster(gnt):
    ran = gnt("gnt-debug wconfd echo 1")
    assert (ran.status, "There is no cluster on this machine" in ran.err) == (5, True)
