# SPDX-License-Identifier: BSD-2-Clause
"""Who may take over, who may not and why, and what is asked of whom before."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ganeti.master.mastership.messages import (
    Answered,
    AskBefore,
    AskPromise,
    Begin,
    Claim,
    Effect,
    MembersWritten,
    OldMasterNotStopped,
    OldMasterStopped,
    PromiseItself,
    Refuse,
    Silent,
    StopOldMaster,
    WriteMembers,
)
from ganeti.master.mastership.takeover import FORCED_STEP, Phase, TakeOver
from ganeti.model.membership import Membership
from ganeti.model.node_calls.replica import CopyAnswer

ALL = Membership((1, 3), ("a", "b", "c"))
CLAIM = Claim("b", {node: f"node-{node}" for node in "abcd"}, ("a", "b", "c"), "a", (1, 40))
USUAL = CopyAnswer(promised=1, holder="a", established=1, position=(1, 40), membership=ALL, names="node-a")


def before(machine: TakeOver, **answers: CopyAnswer | None) -> list[Effect]:
    """Answer the first questions: as in a sound cluster, but for what is given; None is silence."""
    (ask,) = machine.start()
    assert ask == AskBefore(("a", "b", "c", "d"))
    return tell(machine, ask.nodes, {node: USUAL for node in ask.nodes} | answers)


def tell(machine: TakeOver, nodes: tuple[str, ...], answers: dict[str, CopyAnswer | None]) -> list[Effect]:
    effects: list[Effect] = []
    for node in nodes:
        assert effects == [], f"decided before {node} was heard"
        answer = answers[node]
        effects = machine.hear(Silent(node, "no route") if answer is None else Answered(node, answer))
        machine.check_invariants()
    return effects


def itself(machine: TakeOver, effect: Effect, own: CopyAnswer | None = None) -> list[Effect]:
    """Answer the question for the node's own promise: granted, or as given."""
    me = machine.claim.me
    assert effect == PromiseItself(me, machine.epoch)
    granted = replace_answer(USUAL, granted=True, promised=machine.epoch, holder=me)
    return tell(machine, (me,), {me: own or granted})


def promised(machine: TakeOver, effect: Effect, **answers: CopyAnswer | None) -> list[Effect]:
    """Answer the questions for promises: granted, but for what is given."""
    me = machine.claim.me
    effects = [effect]
    if isinstance(effect, PromiseItself):
        effects = itself(machine, effect, answers.pop(me, None))
    if isinstance(effects[0], AskPromise):
        (ask,) = effects
        granted = replace_answer(USUAL, granted=True, promised=ask.epoch, holder=me)
        effects = tell(machine, ask.awaited, {node: granted for node in ask.awaited} | answers)
    while effects and isinstance(effects[0], WriteMembers):
        (write,) = effects
        for node in write.nodes:
            effects = machine.hear(MembersWritten(node))
    machine.check_invariants()
    return effects


def replace_answer(answer: CopyAnswer, **changes: object) -> CopyAnswer:
    fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
    return CopyAnswer(**{**fields, **changes})


def refused(effects: list[Effect]) -> Refuse:
    (refusal,) = effects
    assert isinstance(refusal, Refuse), refusal
    return refusal


def test_a_graceful_take_over_stops_the_old_master_and_then_asks_everybody():
    machine = TakeOver(CLAIM)
    assert before(machine) == [StopOldMaster("a")]
    (own,) = machine.hear(OldMasterStopped(3))
    assert own == PromiseItself("b", 2)
    (ask,) = itself(machine, own)
    assert ask == AskPromise(("a", "c", "d"), ("a", "c", "d"), 2)
    assert promised(machine, ask) == [Begin(2, "a", True, ALL.members)]
    assert machine.phase is Phase.BEGUN


def test_a_dead_master_is_not_waited_for_again_and_its_absence_is_told():
    machine = TakeOver(CLAIM)
    (ask,) = itself(machine, *before(machine, a=None))
    assert ask == AskPromise(("a", "c", "d"), ("c", "d"), 2)
    (begin,) = promised(machine, ask)
    assert begin == Begin(2, "a", False, ALL.members, ("a",), begin.warnings)
    assert "node-a could not be told (no route)" in begin.warnings[0]


def test_a_master_that_does_not_stop_holds_nobody_up():
    machine = TakeOver(CLAIM)
    before(machine)
    (ask,) = machine.hear(OldMasterNotStopped("it hangs"))
    (begin,) = promised(machine, ask)
    assert not begin.old_master_stopped and "it hangs" in begin.warnings[0]


def test_the_epoch_is_above_all_that_is_known_anywhere():
    machine = TakeOver(CLAIM)
    before(
        machine, d=replace_answer(USUAL, promised=7, holder="c"), c=replace_answer(USUAL, refused="clock", promised=9)
    )
    (ask,) = machine.hear(OldMasterStopped(0))
    assert ask.epoch == 10


def test_who_is_no_candidate_is_refused_before_anybody_is_asked():
    refusal = refused(TakeOver(replace(CLAIM, me="d")).start())
    assert "node-d is not a master candidate" in refusal.why
    assert "on node-b, node-c" in refusal.remedy


def test_the_master_itself_is_refused():
    refusal = refused(before(TakeOver(replace(CLAIM, me="a"))))
    assert "node-a is the master already" in refusal.why and "daemon-util start-master" in refusal.remedy


def test_a_master_fenced_off_by_a_take_over_that_came_to_nothing_may_take_over_again():
    machine = TakeOver(replace(CLAIM, me="a"))
    away = replace_answer(USUAL, promised=2, holder="b")
    assert before(machine, a=away, b=away) == [StopOldMaster("a")]
    (ask,) = machine.hear(OldMasterStopped(0))
    assert ask.epoch == 3


def test_a_master_is_fenced_off_too_when_the_node_that_was_promised_has_died():
    machine = TakeOver(replace(CLAIM, me="a"))
    away = replace_answer(USUAL, promised=2, holder="b")
    assert before(machine, b=None, c=away) == [StopOldMaster("a")]


HALF = replace_answer(USUAL, promised=2, holder="b")
"""Has promised itself to the node whose take-over was interrupted."""


def test_an_interrupted_take_over_is_begun_again_with_a_new_epoch():
    machine = TakeOver(replace(CLAIM, resumes=2))
    assert before(machine, a=HALF, b=HALF, c=HALF) == [StopOldMaster("a")]
    (ask,) = machine.hear(OldMasterStopped(0))
    assert promised(machine, ask) == [Begin(3, "a", True, ALL.members)]


@pytest.mark.parametrize("claim", [CLAIM, replace(CLAIM, resumes=2)])
def test_members_written_without_a_record_make_nobody_the_master(claim: Claim):
    written = replace_answer(HALF, established=2, membership=Membership((2, 1), ALL.members))
    machine = TakeOver(claim)
    assert before(machine, a=written, b=HALF, c=written) == [StopOldMaster("a")]


def test_whose_records_others_have_is_the_master_already():
    record = replace_answer(HALF, established=2, position=(2, 1), membership=Membership((2, 1), ALL.members))
    refusal = refused(before(TakeOver(CLAIM), a=record, b=record, c=record))
    assert "node-b is the master already" in refusal.why


def test_an_interrupted_take_over_is_left_when_another_node_has_a_later_promise():
    later = replace_answer(USUAL, promised=3, holder="c")
    refusal = refused(before(TakeOver(replace(CLAIM, resumes=2)), b=HALF, c=later))
    assert "epoch 3 is promised to node-c" in refusal.why


def test_an_interrupted_take_over_is_left_while_the_old_master_can_go_on():
    machine = TakeOver(replace(CLAIM, resumes=2))
    refusal = refused(before(machine, b=HALF))
    assert "node-a answers, and 1 of 3 master candidates name another" in refusal.why
    assert before(TakeOver(replace(CLAIM, resumes=2)), a=None, b=HALF) != [refusal]
    assert isinstance(before(TakeOver(replace(CLAIM, resumes=2)), a=None, b=HALF)[0], PromiseItself)


def test_an_interrupted_take_over_goes_on_where_the_old_master_lost_the_candidates_to_an_earlier_one():
    """Two were interrupted one after the other: only the later one may go on, with however few promises of its own."""
    machine = TakeOver(replace(CLAIM, me="c", resumes=3))
    last = replace_answer(USUAL, promised=3, holder="c")
    assert before(machine, a=HALF, b=HALF, c=last) == [StopOldMaster("a")]


def test_nobody_else_is_asked_before_the_own_promise_is_written_down():
    """Others that have promised would wait for a node that does not know of it."""
    machine = TakeOver(CLAIM)
    (own,) = before(machine, a=None)
    assert own == PromiseItself("b", 2)
    assert "does not answer: its disk is full" in refused(machine.hear(Silent("b", "its disk is full"))).why
    machine = TakeOver(CLAIM)
    (own,) = before(machine, a=None)
    other = replace_answer(USUAL, promised=2, holder="c")
    assert "node-c is taking over at the same time" in refused(itself(machine, own, other)).why


def test_a_master_that_asks_for_its_candidates_back_stops_nobody_and_asks_at_once():
    machine = TakeOver(replace(CLAIM, me="a", reclaims=True))
    assert before(machine) == [PromiseItself("a", 2)]


def test_a_master_that_asks_for_its_candidates_back_is_refused_when_another_has_begun():
    begun = replace_answer(USUAL, established=9, promised=9, holder="b", position=(9, 1))
    refusal = refused(before(TakeOver(replace(CLAIM, me="a", reclaims=True)), b=begun))
    assert "node-b is the master by now" in refusal.why


def test_a_minority_is_refused_naming_who_is_silent():
    refusal = refused(before(TakeOver(CLAIM), a=None, c=None))
    assert "1 of 3 master candidates can be counted on, and 2 are needed" in refusal.why
    assert "node-a: no route; node-c: no route" in refusal.why
    assert "--no-voting" in refusal.remedy


@pytest.mark.parametrize("reason", ["damaged", "clock", "cluster", "software", "disk"])
def test_a_copy_that_is_not_sound_is_not_counted(reason):
    unfit = replace_answer(USUAL, refused=reason, sentence=f"it is {reason}")
    refusal = refused(before(TakeOver(CLAIM), a=None, c=unfit))
    assert f"node-c: it is {reason}" in refusal.why


def test_the_own_copy_must_be_sound():
    refusal = refused(before(TakeOver(CLAIM), b=replace_answer(USUAL, refused="damaged", sentence="bits are wrong")))
    assert "node-b, cannot take over: bits are wrong" in refusal.why


def test_the_own_node_daemon_must_answer():
    assert "daemon-util start ganeti-noded" in refused(before(TakeOver(CLAIM), b=None)).remedy


def test_who_is_behind_is_refused_naming_who_may():
    newest = replace_answer(USUAL, membership=Membership((1, 4), ("a", "c")))
    refusal = refused(before(TakeOver(CLAIM), c=newest))
    assert "node-b is behind: only node-a, node-c had everything" in refusal.why
    assert refusal.remedy == "run gnt-cluster master-failover on node-c"


def test_who_is_behind_while_all_others_are_down_learns_whom_to_bring_back():
    newest = replace_answer(USUAL, membership=Membership((1, 4), ("a",)))
    refusal = refused(before(TakeOver(CLAIM), a=None, c=newest))
    assert refusal.remedy.startswith("bring node-a back")


def test_a_membership_a_damaged_copy_reports_counts_for_nothing():
    unfit = replace_answer(USUAL, refused="damaged", membership=Membership((9, 1), ("c",)))
    assert before(TakeOver(CLAIM), c=unfit) == [StopOldMaster("a")]


def test_without_any_membership_nobody_takes_over():
    unknown = replace_answer(USUAL, membership=None)
    refusal = refused(before(TakeOver(CLAIM), a=unknown, b=unknown, c=unknown, d=unknown))
    assert "No node that answers knows which copies are in sync" in refusal.why


def test_being_left_out_between_the_questions_is_noticed_and_the_stopped_master_named():
    machine = TakeOver(CLAIM)
    before(machine)
    (ask,) = machine.hear(OldMasterStopped(0))
    newest = Membership((1, 4), ("a", "c"))
    told = replace_answer(USUAL, granted=True, promised=ask.epoch, holder="b", membership=newest)
    refusal = refused(promised(machine, ask, a=told))
    assert "behind" in refusal.why
    assert "node-a was stopped for this: start it again there with daemon-util start-master" in refusal.remedy


def test_two_who_ask_at_once_are_told_of_each_other():
    machine = TakeOver(CLAIM)
    (ask,) = before(machine, a=None)
    other = replace_answer(USUAL, granted=False, promised=2, holder="c")
    refusal = refused(promised(machine, ask, b=other, c=other))
    assert "node-c is taking over at the same time: epoch 2 is promised to it" in refusal.why


def test_a_promise_of_another_epoch_or_to_another_is_not_counted():
    machine = TakeOver(CLAIM)
    (ask,) = before(machine, a=None)
    wrong = replace_answer(USUAL, granted=True, promised=ask.epoch, holder="c")
    assert machine.granted() == ()
    assert isinstance(refused(promised(machine, ask, c=wrong)), Refuse)


def test_it_begins_with_the_newest_members_though_its_own_copy_does_not_know_them():
    machine = TakeOver(CLAIM)
    (ask,) = before(machine, a=None)
    newest = Membership((1, 5), ("a", "b"))
    told = replace_answer(USUAL, granted=True, promised=2, holder="b", membership=newest)
    (begin,) = promised(machine, ask, c=told)
    assert begin.members == ("a", "b")


def test_too_few_that_know_the_members_are_a_minority():
    """A former master may have told one node alone of a copy left out: then nobody else would know."""
    machine = TakeOver(CLAIM)
    (ask,) = itself(machine, *before(machine, a=None))
    assert isinstance(ask, AskPromise)
    granted = replace_answer(USUAL, granted=True, promised=2, holder="b")
    effects = tell(machine, ask.awaited, dict.fromkeys(ask.awaited, granted))
    assert effects == [WriteMembers(("c",), Membership((2, 1), ALL.members))]
    assert machine.hear(MembersWritten("a")) == []
    refusal = refused(machine.hear(Silent("c", "its disk is full")))
    assert "1 of 3" in refusal.why and "node-c: its disk is full" in refusal.why


def test_promises_of_nodes_that_are_no_candidates_are_not_counted():
    machine = TakeOver(CLAIM)
    (ask,) = before(machine, a=None)
    refusal = refused(promised(machine, ask, c=None))
    assert "1 of 3" in refusal.why


def test_answers_come_once_and_from_nodes_that_were_asked():
    machine = TakeOver(CLAIM)
    machine.start()
    assert machine.hear(Answered("z", USUAL)) == []
    assert machine.hear(Silent("c", "first")) == []
    assert machine.hear(OldMasterStopped(1)) == []
    for node in "abc":
        assert machine.hear(Answered(node, USUAL)) == []
    assert machine.hear(Answered("d", USUAL)) == [StopOldMaster("a")]
    assert machine.hear(Answered("d", USUAL)) == []


def test_the_master_is_who_holds_the_newest_epoch_with_a_record_whatever_ssconf_says():
    """A take-over by c of which only c's ssconf has heard."""
    new = replace_answer(HALF, holder="c", established=2, position=(2, 1), membership=Membership((2, 1), ALL.members))
    machine = TakeOver(CLAIM)
    assert before(machine, a=None, c=new) == [StopOldMaster("c")]


def test_the_master_is_whom_most_name():
    machine = TakeOver(CLAIM)
    named = replace_answer(USUAL, promised=0, holder=None, established=0, names="node-c")
    assert before(machine, a=named, b=replace_answer(named, names="node-a"), c=named, d=named) == [StopOldMaster("c")]


class TestForced:
    claim = replace(CLAIM, forced=True, entropy=77)

    def test_needs_no_majority_and_takes_an_epoch_of_its_own(self):
        machine = TakeOver(self.claim)
        (ask,) = before(machine, a=None, c=None, d=None)
        assert ask == PromiseItself("b", FORCED_STEP + 77)
        (begin,) = promised(machine, ask)
        assert begin.epoch == FORCED_STEP + 77 and begin.members == ("b",)

    def test_after_a_forced_epoch_comes_the_next_step(self):
        machine = TakeOver(self.claim)
        known = replace_answer(USUAL, promised=FORCED_STEP + 500, holder="a")
        (ask,) = before(machine, a=None, b=known)
        assert ask.epoch == 2 * FORCED_STEP + 77

    def test_says_what_is_lost(self):
        machine = TakeOver(self.claim)
        newest = replace_answer(USUAL, membership=Membership((1, 4), ("a",)))
        (ask,) = before(machine, a=None, c=newest)
        (begin,) = promised(machine, ask)
        assert any("what was changed after 1.40 is lost" in sentence for sentence in begin.warnings)
        assert len(begin.warnings) == len(set(begin.warnings))

    def test_still_needs_a_copy_and_a_promise_of_its_own(self):
        assert "does not answer" in refused(before(TakeOver(self.claim), b=None)).why
        machine = TakeOver(self.claim)
        (ask,) = before(machine, a=None)
        other = replace_answer(USUAL, promised=ask.epoch + 1, holder="c")
        assert "node-c is taking over" in refused(promised(machine, ask, b=other)).why


def test_a_take_over_can_be_given_up_after_every_step_and_done_by_another():
    """Whatever one has done so far, the next one gets a higher epoch and the same decision."""
    for steps in range(10):
        first = TakeOver(CLAIM)
        events = [*(Answered(node, USUAL) for node in "abcd"), OldMasterStopped(0)]
        granted = replace_answer(USUAL, granted=True, promised=2, holder="b")
        events += [Answered(node, granted) for node in "bacd"]
        first.start()
        for event in events[:steps]:
            first.hear(event)
        given = dict.fromkeys(first.promises, replace_answer(granted, granted=False))
        second = TakeOver(replace(CLAIM, me="c"))
        (effect,) = before(second, **given)
        assert effect == StopOldMaster("a"), steps
        (ask,) = second.hear(OldMasterStopped(0))
        assert ask.epoch == (3 if given else 2)
        (begin,) = promised(second, ask)
        assert isinstance(begin, Begin)
