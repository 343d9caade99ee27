# SPDX-License-Identifier: BSD-2-Clause
"""The watcher of a former master that has not heard of the new one starts nothing, and says so in one line."""

import argparse
import logging
from pathlib import Path

import pytest

from ganeti.base.errors import CommandError
from ganeti.base.paths import Paths
from ganeti.bootstrap import failover
from ganeti.bootstrap.machine import Machine
from ganeti.bootstrap.own_mastership import OwnMastership
from ganeti.daemons import watcher
from ganeti.daemons.watcher_group import EXIT_WATCHED
from ganeti.daemons.watcher_lock import WatcherLock
from ganeti.node.actions import daemons
from ganeti.system.environment import Environment

OPTIONS = argparse.Namespace(
    ignore_pause=False,
    daemon_timeout=1.0,
    nodegroup=None,
    wait=True,
    no_verify_disks=False,
    no_strict=False,
    rapi_ip=None,
)


@pytest.fixture
def environment(tmp_path):
    paths = Paths(str(tmp_path))
    (tmp_path / "var/lib/ganeti").mkdir(parents=True)
    (tmp_path / "var/lib/ganeti/ssconf_master_node").write_text("node1.example.com\n")
    return Environment(paths, "node1.example.com")


def daemon_util(statuses):
    """Node daemon runs; the master's do not, and end with these statuses when started."""
    asked = []

    def run(action, name):
        asked.append((action, name))
        return (
            0 if name in ("ganeti-noded", "ganeti-confd", "ganeti-mond") else 1 if action == "check" else statuses[name]
        )

    run.asked = asked
    return run


def test_status_11_is_no_failure(environment, monkeypatch, caplog):
    run = daemon_util({"ganeti-wconfd": 11})
    monkeypatch.setattr(watcher, "_daemon_util", run)
    with caplog.at_level(logging.INFO):
        assert watcher._watch(environment, OPTIONS, 60, lambda: None) == 0
    assert caplog.messages[-1] == "This node is the master no longer: its daemons stay down"
    assert run.asked[-1] == ("check-and-start", "ganeti-wconfd")


def test_any_other_status_is_one(environment, monkeypatch):
    monkeypatch.setattr(watcher, "_daemon_util", daemon_util({"ganeti-wconfd": 1}))
    with pytest.raises(CommandError, match="could not be started"):
        watcher._watch(environment, OPTIONS, 60, lambda: None)


def test_one_that_is_deposed_while_a_daemon_that_hung_is_started_again_is_quiet_too(monkeypatch):
    monkeypatch.setattr(watcher, "_daemon_util", daemon_util({"ganeti-luxid": 11}))
    with pytest.raises(watcher.NotMasterError):
        watcher.restart_daemon("ganeti-luxid")
    monkeypatch.setattr(watcher, "_daemon_util", daemon_util({"ganeti-luxid": 1}))
    with pytest.raises(CommandError, match="could not be started again"):
        watcher.restart_daemon("ganeti-luxid")


@pytest.mark.requirement("S1.56")
def test_the_lock_of_all_watchers_is_held_until_the_children_are_there(environment, monkeypatch):
    with open(environment.paths.ssconf_file("cluster_name"), "w"):
        pass
    taken = []

    def other_gets_it():
        with WatcherLock(f"{environment.paths.lock_dir}/ganeti-watcher.lock") as other:
            taken.append(other.taken)

    def watch(environment, options, job_age_s, let_go):
        other_gets_it()
        let_go()
        other_gets_it()
        return 0

    monkeypatch.setattr(watcher, "read_environment", lambda: environment)
    monkeypatch.setattr(watcher, "set_up_logs", lambda *_, **__: None)
    monkeypatch.setattr(watcher, "_watch", watch)
    assert watcher.main([]) == 0
    assert taken == [False, True]


def test_who_names_a_group_hears_that_another_watcher_is_at_work(environment, monkeypatch):
    monkeypatch.setattr(watcher, "read_environment", lambda: environment)
    monkeypatch.setattr(watcher, "set_up_logs", lambda *_, **__: None)
    Path(environment.paths.ssconf_file("cluster_name")).write_text("cluster\n")
    with WatcherLock(f"{environment.paths.lock_dir}/ganeti-watcher.lock"):
        assert watcher.main([]) == 0, "cron sends no mail for it"
        assert watcher.main(["--nodegroup=uuid-green"]) == EXIT_WATCHED


def test_what_a_child_needs_to_know_of_the_options_reaches_it(environment, monkeypatch):
    made = []

    class Work:
        def __init__(self, *_):
            pass

        def run(self, **options):
            made.append(options)
            return 0

    monkeypatch.setattr(watcher, "_daemon_util", lambda *_: 0)
    monkeypatch.setattr(watcher, "MasterWork", Work)
    options = argparse.Namespace(
        ignore_pause=True,
        daemon_timeout=1.0,
        nodegroup="u1",
        wait=False,
        no_verify_disks=True,
        no_strict=False,
        rapi_ip=None,
    )
    let_go = object()
    assert watcher._watch(environment, options, 60, let_go) == 0
    told = {"group": "u1", "job_age_s": 60, "wait": False, "let_go": let_go, "ignore_pause": True, "disks": None}
    assert made == [told]


def test_an_interrupted_take_over_of_this_node_is_finished(environment, monkeypatch):
    """Unless WConfD runs already: then the command that was killed has got as far as that."""
    own = OwnMastership("node1.example.com", "node1.example.com", "node2.example.com", 3, 4, "node2.example.com")
    here = Environment(environment.paths, "node2.example.com")
    finished = []
    monkeypatch.setattr(watcher, "read_own_mastership", lambda paths, hostname: own)
    monkeypatch.setattr(failover, "finish_take_over", lambda machine, epoch: finished.append(epoch) or 0)
    monkeypatch.setattr(watcher, "_daemon_util", daemon_util({}))
    assert watcher._watch(here, OPTIONS, 60, lambda: None) == 0
    assert finished == [4]
    monkeypatch.setattr(watcher, "_daemon_util", lambda *_: 0)
    assert watcher._watch(here, OPTIONS, 60, lambda: None) == 0
    assert finished == [4]


@pytest.mark.parametrize("status", [11, 1])
def test_a_master_that_lost_the_vote_while_it_took_over_again_goes_on_with_that(environment, monkeypatch, status):
    """Another node was master meanwhile, of which its copy knows nothing."""
    own = OwnMastership("node1.example.com", "node1.example.com", "node1.example.com", 3, 5, "node1.example.com")
    finished = []
    monkeypatch.setattr(watcher, "read_own_mastership", lambda paths, hostname: own)
    monkeypatch.setattr(failover, "finish_take_over", lambda machine, epoch: finished.append(epoch) or 0)
    monkeypatch.setattr(watcher, "_daemon_util", daemon_util({"ganeti-wconfd": status}))
    assert watcher._watch(environment, OPTIONS, 60, lambda: None) == 0
    assert finished == [5]


def test_another_node_has_nothing_to_finish(environment, monkeypatch):
    run = daemon_util({})
    monkeypatch.setattr(watcher, "_daemon_util", run)
    assert watcher._watch(Environment(environment.paths, "node2.example.com"), OPTIONS, 60, lambda: None) == 0
    assert run.asked == [("check", "ganeti-noded"), ("check", "ganeti-confd"), ("check", "ganeti-mond")]


def test_the_programs_of_another_release_on_the_path_are_not_ours(tmp_path, monkeypatch):
    foreign, own = tmp_path / "foreign", tmp_path / "own"
    for directory in (foreign, own):
        directory.mkdir()
    (foreign / "daemon-util").write_text("#!/bin/sh\n")
    (foreign / "daemon-util").chmod(0o755)
    monkeypatch.setenv("PATH", str(foreign))
    monkeypatch.setattr("sys.argv", [f"{own}/ganeti-watcher"])
    with pytest.raises(CommandError, match=f"{own}/daemon-util is missing"):
        watcher.ensure_daemon("ganeti-noded")
    monkeypatch.setattr("sys.executable", f"{own}/python")
    with pytest.raises(CommandError, match="daemon-util is missing"):
        Machine().program("daemon-util")
    assert daemons.daemon_util() == f"{own}/daemon-util"
