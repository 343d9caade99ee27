# SPDX-License-Identifier: BSD-2-Clause
"""The rules of the copies, each by itself; and every plan again, with the master killed after each of its steps."""

import pytest

from ganeti.master.replication import events
from ganeti.master.replication.effects import (
    AskMembers,
    Deposed,
    LogLine,
    NodeIn,
    NodeOut,
    Reclaim,
    Release,
    SendAppend,
    SendQueue,
    SendSnapshot,
    SendState,
    StoreMembership,
)
from ganeti.master.replication.followers import Follower, State, Timing
from ganeti.master.replication.machine import Machine
from ganeti.master.replication.quorum import may_shrink, shrink_quorum, take_over_quorum
from ganeti.model.membership import Kept, Membership

TIMING = Timing()
A, B, C = "a", "b", "c"
CANDIDATES = {A: "node-a", B: "node-b", C: "node-c"}


class Play:
    """A machine whose clock and messages are the test's."""

    def __init__(self, members=(A, B, C), candidates=CANDIDATES, kept=None, *, forced=False):
        self.now_s = 100.0
        kept = kept or Kept(Membership((1, 1), tuple(members)))
        self.machine = Machine(A, kept, candidates, 1, self.now_s, TIMING, forced=forced)
        self.told = []
        self.effects = []
        self.kept = kept
        self.give(events.Tick())

    def give(self, event, after_s=0.0):
        self.now_s += after_s
        new = self.machine.handle(event, self.now_s)
        self.machine.check_invariants()
        self.told += [effect.sentence for effect in new if isinstance(effect, LogLine | NodeIn | NodeOut | Deposed)]
        self.effects = new
        return new

    def of(self, kind):
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def in_sync(self, *nodes):
        for node in nodes:
            self.give(events.StateKnown(node, 1, self.machine.membership.version))
            self.give(events.QueueEqual(node, 1))
        return self

    def written(self):
        return self.give(events.MembershipKept())

    def durable(self, number):
        return self.give(events.Durable(number))

    def fail(self, node, problem=events.Problem.UNREACHABLE, after_s=0.5):
        return self.give(events.Failed(node, problem, "it is gone"), after_s)

    @property
    def members(self):
        return self.machine.membership.members


def ready(*nodes, members=(A, B, C)):
    """All members have said what they have, and what was to be written at the start is."""
    play = Play(members).in_sync(*(nodes or (B, C)))
    if play.of(StoreMembership):
        play.written()
    return play


@pytest.mark.parametrize("candidates", range(1, 12))
def test_a_take_over_meets_one_that_knows_who_was_left_out(candidates):
    assert take_over_quorum(candidates) + shrink_quorum(candidates) > candidates
    assert 2 * take_over_quorum(candidates) > candidates


@pytest.mark.parametrize("former", range(1, 12))
@pytest.mark.parametrize("step", [-1, 1])
def test_while_the_former_candidates_are_not_known_majorities_and_knowledge_meet_all_the_same(former, step):
    """Whoever has not heard of the change counts among the former, one node more or less."""
    now = former + step
    union = max(former, now)
    assert take_over_quorum(former) + take_over_quorum(now) > union
    assert take_over_quorum(former) + shrink_quorum(now, former_is_known=False) > union


def test_a_shrinking_needs_enough_under_each_set_of_candidates():
    assert may_shrink([A], [(A, B)])
    assert not may_shrink([A], [(A, B, C)])
    assert may_shrink([A, B], [(A, B, C)])
    assert not may_shrink([A, B], [(A, B, C), (A, "d", "e")])
    assert may_shrink([A, "d"], [(A, B), (A, "d", "e")])


def test_nothing_is_released_before_each_member_found_at_the_start_has_everything():
    play = Play()
    assert [effect.node for effect in play.of(SendState)] == [B, C]
    play.written()
    play.in_sync(B)
    assert play.machine.released == 0
    play.give(events.StateKnown(C, None, None))
    assert play.of(SendSnapshot) == [SendSnapshot(C, play.machine.membership)]
    play.give(events.SnapshotTaken(C, 1, (1, 1)))
    assert play.of(SendQueue) == [SendQueue(C, 1)]
    play.give(events.QueueEqual(C, 1))
    assert play.of(Release) == [Release(1)]
    assert "The copy at node node-c was catching-up and is in-sync now: it has everything" in play.told


def test_a_record_is_released_when_the_last_member_has_it():
    play = ready()
    play.durable(2)
    assert play.of(SendAppend) == [SendAppend(node, 1, 1, 2, None, 1) for node in (B, C)]
    play.give(events.Acked(B, 2, 2))
    assert not play.of(Release)
    play.durable(3)
    assert play.of(SendAppend) == [SendAppend(B, 2, 2, 3, None, 1)], "one request in flight for each"
    play.give(events.Acked(C, 2, 2))
    assert play.of(Release) == [Release(2)]
    assert play.of(SendAppend) == [SendAppend(C, 2, 2, 3, None, 2)]


def test_a_membership_that_may_have_been_told_and_never_held_is_made_the_older_one():
    """Its version was reserved, then the master died: who heard of it would keep it as the newest for ever."""
    play = Play(kept=Kept(Membership((1, 2), (A, B, C)), 3, (A, B, C)))
    (store,) = play.of(StoreMembership)
    assert store.kept == Kept(Membership((1, 4), (A, B, C)), 4, (A, B, C))
    assert not play.written() or not play.of(StoreMembership), "once is enough"
    play.give(events.StateKnown(B, 1, (1, 3)))
    play.give(events.QueueEqual(B, 1))
    assert play.of(SendAppend) == [SendAppend(B, 1, 1, 1, Membership((1, 4), (A, B, C)))]


def test_a_master_alone_releases_at_once_and_asks_for_no_time():
    play = Play((A,), {A: "node-a"})
    play.written()
    assert play.durable(2) == [Release(2)]
    assert play.machine.due_s() is None


def leave_out(play):
    """C refuses connections; gives the steps that follow as (what happened, event) until it is left out."""
    play.durable(2)
    play.give(events.Acked(B, 2, 2))
    play.fail(C)
    play.fail(C)
    yield
    play.give(events.Tick(), 0.6)
    (store,) = play.of(StoreMembership)
    assert store.kept == Kept(Membership((1, 1), (A, B, C)), 2, (A, B, C)), "the version is reserved first"
    play.kept = store.kept
    yield
    play.written()
    assert play.of(AskMembers) == [AskMembers(Membership((1, 2), (A, B)), (B, C))]
    yield
    play.give(events.MembersRefused(C, "gone"))
    play.give(events.MembersAccepted(B, (1, 2)))
    (store,) = play.of(StoreMembership)
    assert store.kept.membership == Membership((1, 2), (A, B))
    assert not play.of(Release)
    yield
    play.kept = store.kept
    play.written()
    assert play.of(Release) == [Release(2)]
    yield


def test_a_member_that_is_gone_is_left_out_with_the_knowledge_of_the_quorum():
    play = ready()
    for _ in leave_out(play):
        pass
    assert play.members == (A, B)
    assert (
        "The copy at node node-c is left out of those in sync, with the knowledge of 2 of 3 candidates: it is gone"
        in play.told
    )


@pytest.mark.parametrize("steps", range(1, 6))
def test_a_master_killed_while_it_leaves_one_out_never_uses_a_version_twice_nor_forgets_whom_it_waits_for(steps):
    play = ready()
    for _, _ in zip(range(steps), leave_out(play), strict=False):
        pass
    told = {effect.membership for effect in play.effects if isinstance(effect, AskMembers)}
    again = Play(kept=play.kept)
    if again.of(StoreMembership):
        again.written()
    assert (C in again.members) == (steps < 5)
    again.in_sync(*again.members[1:2])
    again.give(events.Tick(), 1.6)
    for _ in range(3):
        for store in again.of(StoreMembership):
            for before in told:
                assert store.kept.membership.version != before.version or store.kept.membership == before
            again.written()
        for ask in again.of(AskMembers):
            assert all(ask.membership.version > before.version for before in told)


def test_without_the_quorum_nothing_is_released_and_it_is_asked_again():
    play = ready()
    play.durable(2)
    for node in (B, C, B, C):
        play.fail(node, after_s=0.3)
    play.give(events.Tick(), 1.0)
    play.written()
    (asked,) = play.of(AskMembers)
    assert asked.membership.members == (A,)
    play.give(events.MembersRefused(B, "gone"))
    play.give(events.MembersRefused(C, "gone"))
    play.give(events.Tick(), TIMING.ask_again_s)
    assert play.of(AskMembers) == [asked]
    assert play.machine.released == 1
    play.give(events.StateKnown(B, 1, (1, 1), is_expected=True))
    play.give(events.Tick(), TIMING.ask_again_s)
    play.written()
    (asked,) = play.of(AskMembers)
    assert asked.membership == Membership((1, 3), (A, B)), "B is back, so that only C is left out"


def test_who_comes_back_before_the_quorum_is_reached_stays_under_a_newer_version():
    play = ready()
    play.durable(2)
    play.give(events.Acked(B, 2, 2))
    play.fail(C)
    play.fail(C)
    play.give(events.Tick(), 0.6)
    play.written()
    play.give(events.StateKnown(C, 1, (1, 2), is_expected=True), 0.1)
    play.give(events.QueueEqual(C, 2))
    play.give(events.Acked(C, 2, 2))
    assert play.of(Release) == [Release(2)]
    play.give(events.Tick(), TIMING.ask_again_s)
    (store,) = play.of(StoreMembership)
    assert store.kept.membership == Membership((1, 3), (A, B, C)), "some may know one without it"


@pytest.mark.parametrize("problem", [events.Problem.UNREACHABLE, events.Problem.REFUSED])
def test_one_that_says_no_is_left_out_after_two_tries_and_a_second(problem):
    play = ready()
    play.durable(2)
    play.give(events.Acked(B, 2, 2))
    play.fail(C, problem, 0.0)
    assert play.machine.followers[C].lost_s(2, TIMING) == play.now_s + TIMING.take_s
    failing_s = play.now_s
    play.fail(C, problem)
    assert play.machine.due_s() <= failing_s + TIMING.quick_s
    assert not play.give(events.Tick(), 0.4)
    assert play.of(StoreMembership) == []
    play.give(events.Tick(), failing_s + TIMING.quick_s - play.now_s)
    assert play.of(StoreMembership)


def test_one_that_only_does_not_answer_has_five_seconds():
    play = ready()
    play.durable(2)
    play.give(events.Acked(B, 2, 2), 1.0)
    assert play.machine.due_s() == 100.0 + TIMING.take_s
    play.give(events.Tick(), 3.9)
    assert not play.of(StoreMembership)
    play.give(events.Tick(), 0.1)
    assert play.of(StoreMembership)


def test_two_candidates_leave_each_other_out_alone():
    play = Play((A, B), {A: "node-a", B: "node-b"})
    play.in_sync(B)
    play.written()
    play.durable(2)
    play.fail(B, after_s=0.0)
    play.fail(B)
    play.give(events.Tick(), 0.6)
    assert [store.kept.membership for store in play.of(StoreMembership)] == [Membership((1, 2), (A,))]
    play.written()
    assert play.of(Release) == [Release(2)]


def test_a_newcomer_is_waited_for_before_it_is_a_member():
    play = ready(B, members=(A, B))
    play.give(events.StateKnown(C, 1, None))
    play.durable(2)
    play.give(events.Acked(B, 2, 2))
    assert play.of(Release) == [Release(2)], "not waited for while it catches up"
    play.give(events.QueueEqual(C, 1))
    assert not play.of(StoreMembership), "it lacks what was released"
    play.durable(3)
    play.give(events.Acked(B, 3, 3))
    assert not play.of(Release), "it is waited for now"
    play.give(events.Acked(C, 3, 3))
    assert play.of(Release) == [Release(3)]
    (store,) = play.of(StoreMembership)
    assert store.kept.membership == Membership((1, 2), (A, B, C))
    play.written()
    assert play.of(NodeIn)
    newest = play.machine.membership
    assert play.of(SendAppend) == [SendAppend(node, 3, 3, 3, newest, 3) for node in (B,)]
    play.give(events.Acked(C, 3, 3, (1, 1)))
    assert play.of(SendAppend) == [SendAppend(C, 3, 3, 3, newest, 3)], "everybody is told"


def test_a_newcomer_that_fails_holds_up_nobody():
    play = ready(B, members=(A, B))
    play.give(events.StateKnown(C, 1, None))
    play.durable(2)
    play.give(events.Acked(B, 2, 2))
    play.give(events.QueueEqual(C, 1))
    play.durable(3)
    play.give(events.Acked(B, 3, 3))
    play.fail(C, events.Problem.SILENT)
    assert play.of(Release) == [Release(3)]
    assert play.members == (A, B)


def test_one_that_is_being_written_down_as_member_is_waited_for_whatever_happens():
    play = ready(B, members=(A, B))
    play.in_sync(C)
    assert play.of(StoreMembership)
    play.durable(2)
    play.give(events.Acked(B, 2, 2))
    play.fail(C)
    assert not play.of(Release)
    play.written()
    assert not play.of(Release), "it is a member: now the quorum must know"


def test_a_change_of_the_candidates_counts_under_both_until_every_member_has_it():
    play = ready()
    play.durable(2)
    play.give(events.CandidatesChanged(2, {A: "node-a", "d": "node-d", "e": "node-e"}))
    assert play.machine.candidates.sets == [(A, B, C), (A, "d", "e")]
    play.give(events.Acked(B, 2, 2))
    (store,) = play.of(StoreMembership)
    assert (store.kept.membership.members, store.kept.reserved) == ((A, B, C), 2), "B is to go: it knows why"
    play.written()
    assert play.of(AskMembers) == [AskMembers(Membership((1, 2), (A, C)), (B, C, "d", "e"))]
    play.give(events.Acked(C, 2, 2))
    assert play.machine.candidates.sets == [(A, "d", "e")]


def test_candidates_change_by_one_node_at_a_time_and_not_while_the_former_are_not_known():
    play = Play()
    assert not play.machine.candidates.may_become({A: "", B: ""}), "it has just taken over"
    (store,) = play.of(StoreMembership) or [None]
    assert store is None or store.kept.candidates == (), "a guess is not written down"
    play.in_sync(B, C)
    may = play.machine.candidates.may_become
    assert may([A, B, C]) and may([A, B]) and may([A, B, C, "d"])
    assert not may([A, B, "d"]) and not may([A])
    play.give(events.CandidatesChanged(2, {A: "", B: ""}))
    play.durable(2)
    assert not may([A]) and not may([A, B, C]) and may([A, B])
    for node in (B, C):
        play.give(events.Acked(node, 2, 2))
    assert may([A]) and may([A, B, C])


def test_who_has_just_taken_over_leaves_nobody_out_with_half_of_four():
    four = {**CANDIDATES, "d": "node-d"}
    play = Play((A, B, C, "d"), four)
    play.in_sync(B)
    for node in (C, "d") * 2:
        play.fail(node)
    play.give(events.Tick(), 2.0)
    play.written()
    (asked,) = play.of(AskMembers)
    assert asked.membership.members == (A, B)
    play.give(events.MembersAccepted(B, asked.membership.version))
    assert not play.of(StoreMembership), "c and e, which was a candidate once, may still make a majority with d"
    play.give(events.MembersAccepted("d", asked.membership.version))
    play.give(events.Tick(), 1.0)
    assert play.of(StoreMembership)


def test_what_the_candidates_were_outlives_a_restart():
    kept = Kept(Membership((1, 1), (A, B, C)), 0, (A, B, C))
    play = Play(kept=kept, candidates={A: "node-a", B: "node-b"})
    assert play.machine.candidates.sets == [(A, B, C), (A, B)]


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (events.Problem.REFUSED, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]),
        (events.Problem.UNREACHABLE, [0.5, 1.0, 2.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]),
    ],
)
def test_who_is_no_member_and_fails_is_tried_with_growing_pauses(problem, expected):
    play = ready(B, members=(A, B))
    pauses = []
    for _ in range(9):
        play.fail(C, problem)
        pauses.append(play.machine.followers[C].retry_s - play.now_s)
        play.give(events.Tick(), pauses[-1])
        assert SendState(C) in play.of(SendState)
    assert pauses == expected
    play.fail(C)
    play.give(events.Appeared(C))
    assert play.of(SendState) == [SendState(C)], "at once, when it is heard of"


def test_a_doubt_about_the_queue_wants_a_comparison_that_begins_after_it():
    play = Play().in_sync(B, C)
    play.give(events.QueueDoubted())
    assert [request.node for request in play.of(SendQueue)] == [B, C]
    assert play.machine.followers[B].state is State.IN_SYNC
    play.give(events.QueueDoubted())
    assert play.of(SendQueue) == []
    play.give(events.QueueEqual(B, 1))
    assert [request.node for request in play.of(SendQueue)] == [B], "the answer may be of before the second doubt"
    play.give(events.QueueEqual(B, 1))
    assert play.of(SendQueue) == []
    play.give(events.Durable(2))
    assert [request.node for request in play.of(SendAppend)] == [B], "the other is being compared"


def test_those_without_traffic_are_asked_now_and_then():
    play = ready()
    play.give(events.Tick(), TIMING.heartbeat_s)
    assert play.of(SendState) == [SendState(B, 1), SendState(C, 1)]


def test_all_are_asked_when_the_first_has_to_be_so_that_the_master_wakes_up_once():
    play = ready()
    play.durable(2)
    play.give(events.Acked(B, 2, 2))
    play.give(events.Acked(C, 2, 2), 0.3)
    tell(play, 2)
    due_s = play.machine.due_s()
    play.give(events.Tick(), due_s - play.now_s)
    assert play.of(SendState) == [SendState(B, 2), SendState(C, 2)]
    assert play.machine.due_s() is None, "both are being asked"


def test_one_that_was_heard_of_a_moment_ago_is_not_asked_along():
    play = ready()
    play.durable(2)
    play.give(events.Acked(B, 2, 2, told=2))
    play.give(events.Acked(C, 2, 2, told=2), TIMING.heartbeat_s / 2)
    play.give(events.Tick(), TIMING.heartbeat_s / 2)
    assert play.of(SendState) == [SendState(B, 2)]


def tell(play, number):
    """Have all be told what is acknowledged, once there is time for it."""
    play.give(events.Tick(), TIMING.tell_s)
    assert play.of(SendState) == [SendState(B, number), SendState(C, number)]
    for node in (B, C):
        play.give(events.StateKnown(node, number, play.machine.membership.version, told=number))


def test_who_has_what_is_acknowledged_is_told_so_soon_although_nothing_follows():
    play = ready()
    tell(play, 1)
    play.durable(2)
    play.give(events.Acked(B, 2, 2, told=1))
    play.give(events.Tick(), TIMING.tell_s)
    assert not play.of(SendState), "one member does not have it"
    play.give(events.Acked(C, 2, 2, told=1))
    assert play.of(Release) == [Release(2)]
    assert not play.of(SendState), "the next record may come, which would wait"
    assert play.machine.due_s() == play.now_s + TIMING.tell_s
    tell(play, 2)
    assert play.machine.due_s() > play.now_s + TIMING.tell_s, "they know"


def test_nobody_is_told_of_its_own_that_a_file_of_the_queue_is_everywhere():
    """There is nothing to publish for it: only what changes the configuration is worth a request."""
    play = ready()
    tell(play, 1)
    play.give(events.Durable(2, is_queue_only=True))
    for node in (B, C):
        play.give(events.Acked(node, 2, 2, told=1))
    assert play.machine.released == 2
    assert play.machine.due_s() > play.now_s + TIMING.tell_s
    assert not play.give(events.Tick(), TIMING.tell_s)
    play.durable(3)
    for node in (B, C):
        play.give(events.Acked(node, 3, 3, told=2))
    play.give(events.Durable(4, is_queue_only=True), TIMING.tell_s / 2)
    assert [effect.acknowledged for effect in play.of(SendAppend)] == [3, 3], "it is told along"
    for node in (B, C):
        play.give(events.Acked(node, 4, 4, told=3))
    assert not play.give(events.Tick(), TIMING.tell_s)


def test_with_the_next_record_goes_what_is_acknowledged():
    play = ready()
    for number in range(2, 6):
        play.durable(number)
        assert play.of(SendAppend) == [
            SendAppend(node, number - 1, number - 1, number, None, number - 1) for node in (B, C)
        ]
        for node in (B, C):
            play.give(events.Acked(node, number, number, told=number - 1), TIMING.tell_s / 3)
        assert not play.of(SendState)


def test_one_that_was_silent_is_told_again():
    play = ready()
    tell(play, 1)
    play.fail(B, after_s=0.1)
    play.give(events.Tick(), TIMING.retry_first_s)
    assert play.of(SendState) == [SendState(B, 0)], "what it has is not known"
    play.give(events.StateKnown(B, 1, play.machine.membership.version))
    play.give(events.QueueEqual(B, 1))
    assert play.of(SendState) == [SendState(B, 1)]


def test_where_positions_were_given_twice_a_new_epoch_is_asked_for_at_once():
    play = Play()
    play.give(events.StateKnown(B, None, (1, 5), False, is_given_twice=True))
    assert play.of(Reclaim)
    assert "has records of epoch 1 that this database never had" in play.told[-1]
    play.give(events.StateKnown(C, None, (1, 5), False, is_given_twice=True))
    assert not play.of(Reclaim), "it was asked for"
    play.give(events.Tick(), TIMING.reclaim_s)
    assert play.of(Reclaim), "who was asked may have been away"


def test_one_that_has_gone_back_in_time_gets_everything_again():
    play = ready()
    play.durable(2)
    for node in (B, C):
        play.give(events.Acked(node, 2, 2))
    play.give(events.Tick(), TIMING.heartbeat_s)
    play.give(events.StateKnown(B, None, (1, 1), is_expected=False))
    assert play.of(SendSnapshot)
    play.durable(3)
    play.give(events.Acked(C, 3, 3))
    assert not play.of(Release)


def test_damage_is_mended_once_and_then_a_fault_like_any_other():
    play = ready()
    play.durable(2)
    play.give(events.Acked(C, 2, 2))
    play.give(events.Damaged(B, "bit rot"))
    assert play.of(SendSnapshot)
    play.give(events.SnapshotTaken(B, 1, (1, 1)))
    play.give(events.QueueEqual(B, 2))
    assert play.of(SendAppend)
    play.give(events.Damaged(B, "bit rot"))
    assert not play.of(SendSnapshot)
    assert play.machine.followers[B].state is State.BEHIND
    play.give(events.Damaged(B, "bit rot"), 0.5)
    play.give(events.Tick(), TIMING.quick_s)
    assert play.of(StoreMembership), "it is left out"


def test_damage_that_could_not_be_mended_yet_is_mended_later():
    """Seed 3363 of the simulator: its disk was full when everything was sent, and later nobody sent it again."""
    play = ready()
    play.durable(2)
    play.give(events.Acked(C, 2, 2))
    play.give(events.Damaged(B, "bit rot"))
    assert play.of(SendSnapshot)
    play.fail(B, events.Problem.REFUSED)
    play.give(events.Tick(), TIMING.retry_longest_s)
    play.give(events.Damaged(B, "nothing has replaced it yet"))
    assert play.of(SendSnapshot)


def test_who_promised_itself_in_vain_is_asked_back_after_a_while():
    """It takes nothing of this epoch any more: only a new epoch brings it back into sync."""
    play = ready()
    play.give(events.EpochSeen(B, 2, C, 1))
    play.fail(B, events.Problem.REFUSED)
    assert not play.of(Reclaim)
    play.give(events.Tick(), TIMING.reclaim_s)
    assert play.of(Reclaim) == [Reclaim()]
    play.give(events.Tick(), TIMING.reclaim_s - 1)
    assert not play.of(Reclaim), "whoever is asked has as long again"
    assert play.machine.due_s() <= play.now_s + 1
    play.give(events.Tick(), 1)
    assert play.of(Reclaim) == [Reclaim()]


@pytest.mark.parametrize(("holder", "asked"), [(C, True), (A, False), (None, False)])
def test_who_promised_the_masters_own_epoch_to_another_is_asked_back_too(holder, asked):
    """Two asked for the same epoch at once: B promised it to the one who did not get enough."""
    play = ready()
    play.give(events.EpochSeen(B, 1, holder, 0))
    play.fail(B, events.Problem.REFUSED)
    play.give(events.Tick(), TIMING.reclaim_s)
    play.give(events.Tick(), TIMING.reclaim_s)
    assert bool(play.of(Reclaim)) == asked


def test_nobody_is_asked_back_while_the_candidates_change():
    """A majority of the new ones need not meet a majority of the old ones."""
    play = ready()
    play.give(events.Durable(2))
    play.give(events.CandidatesChanged(2, {A: "node-a", B: "node-b"}))
    play.give(events.EpochSeen(B, 2, C, 1))
    play.fail(B, events.Problem.REFUSED)
    play.give(events.Tick(), TIMING.reclaim_s)
    assert not play.of(Reclaim)


@pytest.mark.parametrize(("established", "holder", "deposed"), [(2, B, True), (1, B, False), (2, A, False)])
def test_only_a_record_of_another_master_deposes(established, holder, deposed):
    play = ready()
    play.give(events.EpochSeen(C, 7, holder, established))
    assert bool(play.of(Deposed)) == deposed
    assert (play.machine.deposed is not None) == deposed
    if deposed:
        assert play.told[-1].startswith("node node-b is the master since epoch 2, this node was until epoch 1")
        assert play.durable(9) == []


def test_where_a_human_has_said_so_silent_members_are_left_out_without_asking():
    play = Play(forced=True)
    play.written()
    for node in (B, C):
        play.fail(node, after_s=0.0)
    play.give(events.Tick(), TIMING.first_s)
    assert [store.kept.membership.members for store in play.of(StoreMembership)] == [(A,)]
    play.written()
    assert play.machine.released == 1
    assert not play.machine._members.forced, "once"


def test_what_cannot_be_written_is_written_later():
    play = ready(B, members=(A, B))
    play.give(events.Tick(), TIMING.tell_s)
    play.in_sync(C)
    (store,) = play.of(StoreMembership)
    play.give(events.MembershipNotKept("disk full"))
    assert not play.of(StoreMembership)
    assert play.machine.due_s() == play.now_s + TIMING.ask_again_s
    play.give(events.Tick(), TIMING.ask_again_s)
    assert play.of(StoreMembership) == [store]
    play.written()
    assert play.members == (A, B, C)


def test_what_is_refused_again_and_again_is_not_forgotten_for_an_answer_in_between():
    follower = Follower(C, "node-c", since_s=0.0, heard_s=0.0)
    follower.failed(events.Problem.REFUSED, "full", 0.0, TIMING, is_member=False)
    follower.take(events.StateKnown(C, 1, None), 1.0, last=2)
    assert follower.problem is events.Problem.REFUSED
    assert follower.tries == 1
    follower.take(events.Acked(C, 2, 2), 2.0, last=2)
    assert follower.problem is None
