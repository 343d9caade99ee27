# SPDX-License-Identifier: BSD-2-Clause
"""What the watcher starts, how often, and what it leaves alone."""

from __future__ import annotations

import msgspec

from ganeti.master.watcher import (
    FORGET_AFTER_S,
    MAX_ATTEMPTS,
    Attempts,
    Decision,
    InstanceNow,
    WatcherState,
    decide,
    merged_status,
    read_group,
    read_state,
    status_text,
    without_attempts,
)

DOWN = InstanceNow("web1", "ERROR_down", "node1")
UP = InstanceNow("web1", "running", "node1")
NODES = {"node1": "boot-1"}


def look(state: WatcherState, instance: InstanceNow, now_s: float, busy: frozenset[str] = frozenset()) -> Decision:
    return decide(state, [instance], NODES, busy, now_s)


def test_what_should_run_is_started_five_times_then_given_up() -> None:
    state, started = WatcherState(), 0
    for round_number in range(8):
        decision = look(state, DOWN, 1000.0 + 300 * round_number)
        state, started = decision.state, started + len(decision.start)
    assert started == MAX_ATTEMPTS
    assert "given up" in decision.sentences[0]


def test_after_eight_hours_it_is_tried_again() -> None:
    state = WatcherState(instance={"web1": Attempts(MAX_ATTEMPTS, 1000.0)})
    assert look(state, DOWN, 1000.0 + FORGET_AFTER_S).start == []
    decision = look(state, DOWN, 1001.0 + FORGET_AFTER_S)
    assert decision.start == ["web1"]
    assert decision.state.instance["web1"].restart_count == 1


def test_attempts_in_the_future_count_for_nothing() -> None:
    """The clock was years ahead when the node started, and is right now."""
    state = WatcherState(instance={"web1": Attempts(MAX_ATTEMPTS, 2e9)})
    assert look(state, DOWN, 1.7e9).start == ["web1"]
    ended = InstanceNow("web1", "USER_down", "node1")
    state = WatcherState(instance={"web1": Attempts(cleanup_count=MAX_ATTEMPTS, cleanup_when=2e9)})
    assert look(state, ended, 1.7e9).shut_down == ["web1"]


def test_one_that_runs_again_is_forgotten() -> None:
    state = WatcherState(instance={"web1": Attempts(3, 1000.0)})
    assert look(state, UP, 1100.0).state.instance == {}


def test_left_alone() -> None:
    for status in ("ADMIN_down", "ADMIN_offline", "ERROR_nodedown", "ERROR_nodeoffline", "USER_down", "ERROR_up"):
        assert look(WatcherState(), InstanceNow("web1", status, "node1"), 1000.0).start == []
    assert look(WatcherState(), DOWN, 1000.0, frozenset({"web1"})).start == []
    assert decide(WatcherState(), [DOWN], {"node1": None}, frozenset(), 1000.0).start == []


def test_one_shut_down_by_its_user_is_marked_as_down_five_times_at_most_and_never_started() -> None:
    ended = InstanceNow("web1", "USER_down", "node1")
    state, marked = WatcherState(), 0
    for round_number in range(8):
        decision = look(state, ended, 1000.0 + 300 * round_number)
        state, marked = decision.state, marked + len(decision.shut_down)
        assert decision.start == []
    assert marked == MAX_ATTEMPTS and "given up" in decision.sentences[0]
    assert state.instance["web1"] == Attempts(cleanup_count=MAX_ATTEMPTS, cleanup_when=2200.0)
    assert look(state, ended, 2201.0 + FORGET_AFTER_S).shut_down == ["web1"]
    assert look(WatcherState(), InstanceNow("web1", "USER_down", "node1", "down"), 1000.0).shut_down == []
    assert look(WatcherState(), ended, 1000.0, frozenset({"web1"})).shut_down == []
    assert decide(WatcherState(), [ended], {"node1": None}, frozenset(), 1000.0).shut_down == []


def test_a_busy_instance_keeps_its_count() -> None:
    state = WatcherState(instance={"web1": Attempts(3, 1000.0)})
    assert look(state, DOWN, 1100.0, frozenset({"web1"})).state.instance["web1"].restart_count == 3


def test_the_state_file_is_that_of_3_1() -> None:
    decision = look(WatcherState(), DOWN, 1000.0)
    plain = msgspec.json.decode(msgspec.json.encode(decision.state))
    assert plain == {
        "node": {"node1": {"bootid": "boot-1"}},
        "instance": {"web1": {"restart_count": 1, "restart_when": 1000.0}},
    }
    assert read_state(msgspec.json.encode(decision.state)) == decision.state
    assert read_state(b"not json") == read_state(None) == WatcherState()


def test_the_status_file_has_a_line_an_instance() -> None:
    assert status_text([DOWN, InstanceNow("web2", "running", "node1")]) == "web1 ERROR_down\nweb2 running\n"


def test_a_node_that_is_offline_has_no_boot_id_whatever_is_told_of_it() -> None:
    nodes = {"node1": {"offline": False, "bootid": "b1"}, "node2": {"offline": True, "bootid": "b2"}}
    found = read_group({"nodes": nodes, "instances": {"web1": {"status": "ERROR_down", "pnode": "node2"}}})
    assert found.boot_ids == {"node1": "b1", "node2": None}
    assert decide(WatcherState(), found.instances, found.boot_ids, frozenset(), 1000.0).start == []


def test_attempts_that_were_none_are_what_they_were_before() -> None:
    before = WatcherState(instance={"web1": Attempts(2, 500.0)})
    names = ("web1", "web2", "web3")
    after = WatcherState(node={"node1": {"bootid": "b"}}, instance={name: Attempts(3, 900.0) for name in names})
    found = without_attempts(after, before, ["web1", "web2", "web4"])
    assert found == WatcherState(after.node, {"web1": Attempts(2, 500.0), "web3": Attempts(3, 900.0)})


def test_of_two_lines_for_an_instance_the_last_counts() -> None:
    assert merged_status(["b down\na up\n", "", "c up\nb up\n"]) == "a up\nb up\nc up\n"
