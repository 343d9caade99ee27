# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster modify, queue and watcher."""

import time

import pytest


@pytest.mark.parametrize(
    ("words", "parameters"),
    [
        ("--max-running-jobs 7 --max-tracked-jobs=9", {"max_running_jobs": 7, "max_tracked_jobs": 9}),
        ("-m 02:00:00 --prealloc-wipe-disks yes", {"mac_prefix": "02:00:00", "prealloc_wipe_disks": True}),
        (
            "-I hail --default-iallocator-params a=b",
            {"default_iallocator": "hail", "default_iallocator_params": {"a": "b"}},
        ),
        ("--default-iallocator= --reserved-lvs=", {"default_iallocator": "", "reserved_lvs": []}),
        ("--reserved-lvs=a/b,c/d --user-shutdown no", {"reserved_lvs": ["a/b", "c/d"], "enabled_user_shutdown": False}),
        ("--install-image /a --zeroing-image /b", {"install_image": "/a", "zeroing_image": "/b"}),
        (
            "--compression-tools gzip,zstd --modify-etc-hosts no",
            {"compression_tools": ["gzip", "zstd"], "modify_etc_hosts": False},
        ),
        (
            "-f -C 3 --ipolicy-vcpu-ratio 2 --ipolicy-disk-templates file",
            {"force": True, "candidate_pool_size": 3, "ipolicy": {"vcpu-ratio": 2.0, "disk-templates": ["file"]}},
        ),
        ("--vg-name= --add-uids 1-3", {"vg_name": "", "add_uids": [[1, 3]]}),
    ],
)
def test_modify_submits_what_is_given(gnt, master, words, parameters):
    master.job()
    ran = gnt(f"gnt-cluster modify {words}")
    assert (ran.status, ran.out) == (0, "")
    assert master.submitted() == [{"OP_ID": "OP_CLUSTER_SET_PARAMS", **parameters}]


@pytest.mark.parametrize("words", ["", "-f", "--submit", "--priority low --dry-run"])
def test_modify_wants_something_to_change(gnt, master, words):
    ran = gnt(f"gnt-cluster modify {words}")
    assert ran.status == 1
    assert ran.err == "Please give at least one of the parameters to change: see 'gnt-cluster modify --help'\n"
    assert master.requests == []


def test_modify_takes_only_numbers(gnt, master):
    ran = gnt("gnt-cluster modify --max-running-jobs many")
    assert ran.status == 2
    assert "--max-running-jobs: 'many' is not a whole number" in ran.err


def test_the_queue_is_drained_and_opened_again(gnt, master):
    master.answers["SetDrainFlag"] = True
    assert (gnt("gnt-cluster queue drain").status, gnt("gnt-cluster queue undrain").status) == (0, 0)
    assert master.calls("SetDrainFlag") == [[True], [False]]


@pytest.mark.parametrize(("flag", "word"), [(True, "set"), (False, "unset")])
def test_the_drain_flag_is_shown(gnt, master, flag, word):
    master.answers["QueryConfigValues"] = [flag]
    ran = gnt("gnt-cluster queue info")
    assert (ran.status, ran.out) == (0, f"The drain flag is {word}\n")
    assert master.calls("QueryConfigValues") == [[["drain_flag"]]]


def test_the_watcher_is_paused_and_goes_on(gnt, master):
    master.answers["SetWatcherPause"] = lambda until: until
    before = time.time()
    ran = gnt("gnt-cluster watcher pause 30m")
    (until,) = master.calls("SetWatcherPause")[0]
    assert before + 1800 <= until <= time.time() + 1800
    assert (ran.status, ran.out) == (0, f"The watcher is paused until {time.ctime(until)}.\n")
    ran = gnt("gnt-cluster watcher continue")
    assert (ran.status, ran.out) == (0, "The watcher is no longer paused.\n")
    assert master.calls("SetWatcherPause")[1] == [None]
    ran = gnt("gnt-cluster watcher pause 0")
    assert (ran.status, ran.out) == (0, "The watcher is not paused.\n")
    assert master.calls("SetWatcherPause")[2] == [None]


def test_what_the_watcher_does_is_shown(gnt, master):
    master.answers["QueryConfigValues"] = [None]
    assert gnt("gnt-cluster watcher info").out == "The watcher is not paused.\n"
    master.answers["QueryConfigValues"] = [4102444800.0]
    assert gnt("gnt-cluster watcher info").out == f"The watcher is paused until {time.ctime(4102444800.0)}.\n"
    master.answers["QueryConfigValues"] = [1000.0]
    assert gnt("gnt-cluster watcher info").out == "The watcher is not paused.\n"


@pytest.mark.parametrize(
    ("line", "status", "sentence"),
    [
        ("gnt-cluster queue", 1, "takes 1 argument"),
        ("gnt-cluster queue stop", 1, "Command 'stop' is not valid: give drain, undrain or info"),
        ("gnt-cluster watcher stop", 1, "Command 'stop' is not valid: give pause, continue or info"),
        ("gnt-cluster watcher pause", 1, "Missing pause duration"),
        ("gnt-cluster watcher info 3", 1, "only 'pause' does"),
        ("gnt-cluster watcher pause soon", 1, "'soon' is not a time"),
    ],
)
def test_what_is_not_understood(gnt, master, line, status, sentence):
    ran = gnt(line)
    assert ran.status == status
    assert sentence in ran.err
    assert master.requests == []
