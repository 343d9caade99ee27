# SPDX-License-Identifier: BSD-2-Clause
"""The lock table: waiting order, blocking, errors, hand-over, size."""

import time

import pytest

from ganeti.base.errors import LockError, LockOrderError
from ganeti.master.locks.owners import Owner
from ganeti.master.locks.table import LockTable
from ganeti.model.locks import ALL_NODES, BGL, Level

NODE = "node/n1"


def job(number):
    return Owner(number, f"/run/livelocks/job-{number}", 1000 + number)


def names(pendings):
    return [pending.owner.name for pending in pendings]


@pytest.fixture
def table():
    return LockTable()


def wait(table, name, state, priority=0, lock=NODE):
    return table.update_waiting(Owner(name, f"/run/{name}"), priority, {lock: state})


def serve_in_rounds(table, first):
    """Free *first*, then in each round all who were granted in the last one; gives the rounds."""
    rounds, leaving = [], [first]
    while leaving:
        granted = [pending for owner in leaving for pending in table.free(owner).granted]
        table.check()
        rounds += [names(granted)] if granted else []
        leaving = [pending.owner for pending in granted]
    return rounds


@pytest.mark.requirement("S1.95")
def test_s1_95_order_example(table):
    """S1.95: E1, E2, (S1, S2, S3), (S4, S5), E3, S6, E4, E5, however the requests of one priority arrive."""
    table.update(job(1), {NODE: "exclusive"})
    queue = [(33, "S6"), (33, "E4"), (33, "E5"), (10, "E3"), (2, "S4"), (2, "S5")]
    queue += [(0, "E1"), (0, "E2"), (0, "S1"), (0, "S2"), (0, "S3")]
    for priority, name in queue:
        wait(table, name, "exclusive" if name[0] == "E" else "shared", priority)
    order = serve_in_rounds(table, job(1))
    assert " ".join(name for together in order for name in together) == "E1 E2 S1 S2 S3 S4 S5 E3 S6 E4 E5"
    # S4 and S5 do not exclude S1 to S3, nor does anyone exclusive wait between: they follow them at once.
    assert order == [["E1"], ["E2"], ["S1", "S2", "S3", "S4", "S5"], ["E3"], ["S6"], ["E4"], ["E5"]]


@pytest.mark.requirement("S1.93", "S1.91")
def test_shared_requests_join_the_group_of_their_priority(table):
    """S1.93: they skip ahead of exclusive ones if a shared one of that priority waits already."""
    table.update(job(1), {NODE: "exclusive"})
    for name in ("S6", "E4", "E5", "S7"):
        wait(table, name, "shared" if name[0] == "S" else "exclusive", 33)
    wait(table, "S8", "shared", 34)
    assert names(table.waiting_for(NODE)) == ["S6", "S7", "E4", "E5", "S8"]
    assert serve_in_rounds(table, job(1)) == [["S6", "S7"], ["E4"], ["E5"], ["S8"]]


def test_a_shared_request_does_not_overtake_an_exclusive_one_without_a_group(table):
    table.update(job(1), {NODE: "shared"})
    wait(table, "E1", "exclusive")
    blockers = wait(table, "S1", "shared").blockers
    assert [owner.name for owner in blockers] == ["E1"]
    assert names(table.waiting()) == ["E1", "S1"]


def test_trying_looks_at_holders_only_unless_it_has_a_priority(table):
    table.update(job(1), {NODE: "shared"})
    wait(table, "E1", "exclusive", 0)
    assert [owner.name for owner in table.update(job(2), {NODE: "shared"}, priority=0).blockers] == ["E1"]
    assert table.update(job(3), {NODE: "shared"}, priority=-10).blockers == ()
    assert table.update(job(4), {NODE: "shared"}).blockers == ()


def test_order_violation_has_the_words_of_3_1(table):
    table.update(job(1), {"instance/a": "shared"})
    with pytest.raises(LockOrderError) as caught:
        table.update(job(1), {BGL: "shared"})
    assert caught.value.to_wire() == ["GenericError", ['Order violation: requesting BGL while holding Instance "a"']]
    assert table.held(job(1)) == {"instance/a": "shared"}


@pytest.mark.parametrize(
    ("held", "request_", "message"),
    [
        ({ALL_NODES: "shared"}, {NODE: "exclusive"}, 'requesting Node "n1" while holding NodeLockSet'),
        ({NODE: "shared"}, {ALL_NODES: "shared"}, 'requesting NodeLockSet while holding Node "n1"'),
        ({NODE: "shared", "node/n2": "shared"}, {NODE: "exclusive"}, 'requesting Node "n1" while holding Node "n2"'),
        ({"node/n2": "shared"}, {NODE: "shared", "node/n2": "release"}, 'requesting Node "n1" while holding Node "n2"'),
        ({"cluster/config": "shared"}, {"network/u": "shared"}, 'requesting Network "u" while holding ConfigLock'),
    ],
)
def test_order_violations(table, held, request_, message):
    table.update(job(1), held)
    for call in (lambda: table.update(job(1), request_), lambda: table.update_waiting(job(1), 0, request_)):
        with pytest.raises(LockOrderError, match=message):
            call()
    assert table.held(job(1)) == held
    assert not table.has_pending(job(1))


@pytest.mark.parametrize(
    ("held", "request_"),
    [
        ({ALL_NODES: "shared"}, {NODE: "shared"}),
        ({ALL_NODES: "exclusive"}, {NODE: "exclusive", ALL_NODES: "release"}),
        ({NODE: "shared", "instance/a": "shared"}, {NODE: "exclusive"}),
        ({NODE: "exclusive", "node/n2": "shared"}, {NODE: "shared"}),
        ({}, {ALL_NODES: "shared", NODE: "exclusive"}),
    ],
)
def test_what_the_order_allows(table, held, request_):
    table.update(job(1), held)
    assert table.update(job(1), request_).blockers == ()
    expected = {lock: state for lock, state in {**held, **request_}.items() if state != "release"}
    assert table.held(job(1)) == expected


@pytest.mark.parametrize(
    ("held", "wanted", "blocked"),
    [
        ((NODE, "shared"), (NODE, "shared"), False),
        ((NODE, "shared"), (NODE, "exclusive"), True),
        ((NODE, "exclusive"), (NODE, "shared"), True),
        ((ALL_NODES, "exclusive"), (NODE, "shared"), True),
        ((ALL_NODES, "shared"), (NODE, "shared"), False),
        ((ALL_NODES, "shared"), (NODE, "exclusive"), True),
        ((NODE, "exclusive"), (ALL_NODES, "shared"), True),
        ((NODE, "shared"), (ALL_NODES, "shared"), False),
        ((NODE, "shared"), (ALL_NODES, "exclusive"), True),
        ((NODE, "exclusive"), ("node/n2", "exclusive"), False),
        ((ALL_NODES, "exclusive"), ("node-res/n1", "exclusive"), False),
        (("cluster/[lockset]", "exclusive"), (BGL, "shared"), True),
        (("cluster/[lockset]", "exclusive"), ("cluster/config", "exclusive"), False),
    ],
)
def test_blocking_is_that_of_the_protocol(table, held, wanted, blocked):
    table.update(job(1), dict([held]))
    assert table.update(job(2), dict([wanted])).blockers == ((job(1),) if blocked else ())


@pytest.mark.requirement("S2.61")
def test_two_owners_who_upgrade_the_same_lock_do_not_wait_for_ever(table):
    for number in (1, 2):
        table.update(job(number), {NODE: "shared"})
    assert table.update_waiting(job(1), 0, {NODE: "exclusive"}).blockers == (job(2),)
    with pytest.raises(LockOrderError, match='requesting Node "n1" while holding Node "n1"'):
        table.update_waiting(job(2), 0, {NODE: "exclusive"})
    assert names(table.free(job(2)).granted) == [1]


def test_who_is_waited_for_does_not_queue_behind(table):
    """Job 1 holds what the request ahead waits for: it goes first, or both would wait for ever."""
    table.update(job(1), {"instance/a": "exclusive"})
    table.update(job(9), {NODE: "shared"})
    assert table.update_waiting(job(2), -10, {"instance/a": "shared", NODE: "exclusive"}).blockers == (job(1), job(9))
    assert table.update_waiting(job(1), 0, {NODE: "shared"}).blockers == ()
    assert names(table.free(job(9)).granted) == []
    assert names(table.free(job(1)).granted) == [2]


def test_who_begins_to_be_waited_for_stops_queueing(table):
    table.update(job(1), {"instance/a": "exclusive"})
    table.update(job(9), {NODE: "shared"})
    table.update_waiting(job(2), 0, {NODE: "exclusive"})
    assert table.update_waiting(job(1), 0, {NODE: "shared"}).blockers == (job(2),)
    change = table.update_waiting(job(3), 0, {"instance/a": "exclusive"})
    assert (change.blockers, names(change.granted)) == ((job(1),), [1])


def test_a_granted_request_that_releases_lets_others_follow(table):
    table.update(job(1), {"instance/a": "exclusive"})
    table.update(job(2), {NODE: "exclusive"})
    table.update_waiting(job(3), 0, {"instance/a": "shared"})
    table.update_waiting(job(1), 0, {"instance/a": "release", NODE: "shared"})
    change = table.free(job(2))
    assert (names(change.granted), change.weakened) == ([1, 3], (NODE, "instance/a"))


def test_one_request_waits_for_each_owner_and_repeating_it_is_harmless(table):
    table.update(job(1), {NODE: "exclusive"})
    first = table.update_waiting(job(2), 0, {NODE: "shared"})
    assert table.update_waiting(job(2), 0, {NODE: "shared"}) == first
    with pytest.raises(LockError, match="job 2 already waits for node/n1"):
        table.update_waiting(job(2), 0, {"node/n2": "shared"})
    assert table.opportunistic_union(job(2), {"node/n2": "shared"}).acquired == ()
    assert len(table.waiting()) == 1


def test_opportunistic_union_takes_what_it_can(table):
    table.update(job(1), {"node/n2": "exclusive"})
    table.update(job(2), {"node/n0": "shared"})
    wanted = {
        "instance/a": "shared",
        "node/n0": "shared",
        "node/n1": "shared",
        "node/n2": "shared",
        "node/n3": "shared",
    }
    assert table.opportunistic_union(job(2), wanted, at_least=3).acquired == ()
    assert table.opportunistic_union(job(2), wanted, at_least=2).acquired == ("node/n1", "node/n3")
    assert list(table.held(job(2))) == ["node/n0", "node/n1", "node/n3"]


def test_giving_up_wakes_those_concerned(table):
    table.update(job(1), {BGL: "shared", "instance/a": "exclusive", NODE: "exclusive", "node/n2": "exclusive"})
    table.update_waiting(job(2), 0, {"instance/a": "exclusive"})
    table.update_waiting(job(3), 0, {ALL_NODES: "shared"})
    table.update_waiting(job(4), 0, {BGL: "exclusive"})
    downgrade = table.downgrade_level(job(1), Level.NODE)
    assert (names(downgrade.granted), downgrade.weakened) == ([3], (NODE, "node/n2"))
    assert names(table.free_level(job(1), Level.INSTANCE).granted) == [2]
    assert names(table.intersect(job(1), [NODE]).granted) == [4]
    assert table.held(job(1)) == {NODE: "shared"}


def test_a_successor_takes_the_locks_of_the_dead_in_one_step(table):
    dead, heir = job(1), Owner(1, "/run/livelocks/job-1-attempt-2")
    table.update(dead, {BGL: "shared", NODE: "exclusive"})
    table.update(job(3), {"node/n2": "exclusive"})
    table.update_waiting(dead, 0, {"node/n2": "shared"})
    table.update_waiting(job(2), 0, {NODE: "shared"})
    assert table.hand_over(dead, heir).granted == ()
    assert table.held(heir) == {BGL: "shared", NODE: "exclusive"}
    assert (table.held(dead), table.has_pending(dead), table.has_pending(heir)) == ({}, False, False)
    assert table.hand_over(dead, heir).granted == ()
    assert names(table.free(heir).granted) == [2]
    with pytest.raises(LockError, match="cannot take over"):
        table.hand_over(job(3), job(2))


def test_withdrawing_a_request_lets_those_behind_pass(table):
    table.update(job(1), {NODE: "shared"})
    wait(table, "E1", "exclusive")
    wait(table, "S1", "shared")
    change = table.cancel(Owner("E1", "/run/E1"))
    assert (names(change.granted), change.weakened) == (["S1"], ())


@pytest.mark.requirement("S1.87", "S1.92")
def test_a_better_priority_overtakes(table):
    table.update(job(1), {NODE: "exclusive"})
    for number in (2, 3, 4):
        table.update_waiting(job(number), 10, {NODE: "exclusive"})
    table.change_priority(job(4), -20)
    table.change_priority(job(2), 19)
    assert serve_in_rounds(table, job(1)) == [[4], [3], [2]]
    with pytest.raises(LockError, match="waits for no lock"):
        table.change_priority(job(1), 0)


@pytest.mark.requirement("S2.44")
def test_removal_of_the_dead_frees_all_of_them_at_once(table):
    table.update(job(1), {NODE: "exclusive"})
    table.update(job(2), {"node/n2": "exclusive"})
    table.update_waiting(job(3), 0, {NODE: "shared", "node/n2": "shared"})
    table.update_waiting(job(4), 0, {NODE: "exclusive"})
    assert names(table.free(job(1), job(2), job(4)).granted) == [3]
    assert table.owners() == [job(3)]


def test_two_requests_that_go_together_let_all_pass_whom_either_kept_back(table):
    table.update(job(1), {NODE: "shared"})
    for number, state in ((2, "exclusive"), (3, "shared"), (4, "shared")):
        table.update_waiting(job(number), 0, {NODE: state})
    assert names(table.free(job(2), job(3)).granted) == [4]


def test_obstacles_say_who_holds_what(table):
    table.update(job(1), {ALL_NODES: "shared"})
    table.update_waiting(job(2), 0, {NODE: "exclusive"})
    assert table.obstacles(job(2)) == [(NODE, ALL_NODES, job(1), "shared")]
    table.update_waiting(job(3), 0, {NODE: "shared"})
    assert table.obstacles(job(3)) == []
    assert [(lock, pending.owner) for lock, pending in table.ahead(job(3))] == [(NODE, job(2))]


@pytest.mark.parametrize("state", ["exclusive", "shared"])
def test_a_thousand_who_wait_for_one_lock_are_served_in_order_and_fast(table, state):
    table.update(job(0), {NODE: "exclusive"})
    started = time.process_time()
    for number in range(1, 1001):
        table.update(job(number), {BGL: "shared"})
        table.update_waiting(job(number), number * 7919 % 41 - 20, {NODE: state})
    expected = names(table.waiting())
    served = [name for names_ in serve_without_check(table, job(0)) for name in names_]
    assert time.process_time() - started < 1.0
    assert served == expected
    assert table.owners() == []


def test_giving_up_a_shared_lock_looks_at_none_of_those_who_wait_to_share_it(table, monkeypatch):
    """Nearly every job shares the big lock: else each end of a job would cost as much as there are jobs waiting."""
    table.update(job(0), {"instance/a": "exclusive"})
    for number in range(1, 101):
        table.update_waiting(job(number), 0, {BGL: "shared", "instance/a": "exclusive"})
    looks = []
    may_go = LockTable.may_go
    monkeypatch.setattr(LockTable, "may_go", lambda self, pending: looks.append(pending) or may_go(self, pending))
    assert [names_ for names_ in serve_without_check(table, job(0)) if names_] == [[n] for n in range(1, 101)]
    assert len(looks) == 100
    assert table.owners() == []


def test_all_that_are_served_before_are_named(table):
    table.update(job(1), {NODE: "shared", "node/n2": "shared"})
    table.update_waiting(job(2), 5, {"node/n2": "exclusive"})
    table.update_waiting(job(3), 0, {NODE: "exclusive"})
    table.update_waiting(job(4), 5, {NODE: "shared"})
    table.update_waiting(job(5), 5, {NODE: "exclusive"})
    table.update_waiting(job(6), 5, {NODE: "shared", "node/n2": "shared"})
    assert [(lock, pending.owner) for lock, pending in table.all_ahead(job(6))] == [
        (NODE, job(3)),
        ("node/n2", job(2)),
        (NODE, job(5)),
    ]
    assert table.all_ahead(job(3)) == table.all_ahead(job(1)) == []


def serve_without_check(table, first):
    leaving = [first]
    while leaving:
        granted = [pending for owner in leaving for pending in table.free(owner).granted]
        yield names(granted)
        leaving = [pending.owner for pending in granted]
