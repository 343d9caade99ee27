# SPDX-License-Identifier: BSD-2-Clause
"""Laws of mastership over several claimants, whatever is lost, late or interrupted in between.

The model: each candidate keeps one promise and the newest membership it was told, and has a copy of which a serial
number stands for everything in it. Masters acknowledge records at all members, take members out with the quorum
for that, and claimants run the real machine, each step of which may come late or never. In the end all commands are
killed, and what each node then does by itself has to lead to a master.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.thoroughness import examples

from ganeti.master.config.vote import Verdict, count_votes, vote_of
from ganeti.master.mastership import takeover
from ganeti.master.mastership.messages import (
    Answered,
    AskBefore,
    AskPromise,
    Begin,
    Claim,
    Effect,
    MembersWritten,
    OldMasterNotStopped,
    PromiseItself,
    Refuse,
    Silent,
    StopOldMaster,
    WriteMembers,
)
from ganeti.master.mastership.takeover import TakeOver
from ganeti.master.replication.quorum import shrink_quorum, take_over_quorum
from ganeti.model.membership import Membership
from ganeti.model.node_calls.replica import CopyAnswer


@dataclass
class Copy:
    promised: int
    holder: str
    membership: Membership
    records: frozenset[int]
    recorded: int = 1
    """Epoch of its newest record."""


@dataclass
class Master:
    """A master that has begun, and does not know that it may be over."""

    node: str
    epoch: int
    membership: Membership
    synced: set[str] = field(default_factory=set)


@dataclass
class Claimant:
    machine: TakeOver
    asked: list[tuple[str, int]] = field(default_factory=list)
    """(node, epoch) still to be asked, epoch 0 before the promises."""
    writes: Membership | None = None
    """What is to be written at those."""


class Cluster:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.cut_off = random.choice((0.1, 0.8))
        self.begins = 0
        count = random.randint(1, 5)
        self.nodes = [f"n{number}" for number in range(count)]
        self.names = {node: node for node in self.nodes}
        everybody = Membership((1, 1), tuple(self.nodes))
        self.copies = {node: Copy(1, "n0", everybody, frozenset()) for node in self.nodes}
        self.masters = [Master("n0", 1, everybody, set(self.nodes))]
        self.claimants: list[Claimant] = []
        self.begun: list[tuple[int, str]] = [(1, "n0")]
        self.acknowledged: dict[int, int] = {}
        """Record to the epoch it was acknowledged in."""
        self.next_record = 1

    def reached(self) -> list[str]:
        """Nodes a message gets to: none while the sender is cut off, else mostly all."""
        if self.random.random() < self.cut_off:
            return []
        return [node for node in self.nodes if self.random.random() < 0.8]

    # The master

    def accepts(self, node: str, master: Master) -> bool:
        """What `replica_append` and `replica_members` of a node say to a master, promising themselves to newer ones."""
        copy = self.copies[node]
        if master.epoch < copy.promised or (master.epoch == copy.promised and copy.holder != master.node):
            return False
        copy.promised, copy.holder = master.epoch, master.node
        return True

    def write(self) -> None:
        """A commit: at the master first, then at those reached; acknowledged when all members have it."""
        one = self.random.choice(self.masters[-3:])
        record, self.next_record = self.next_record, self.next_record + 1
        own = self.copies[one.node]
        if own.promised > one.epoch:
            return  # a master whose own node has promised itself away is ended by it
        own.records |= {record}
        has_it = {one.node}
        for node in self.reached():
            if node != one.node and self.accepts(node, one):
                self.copies[node].records = own.records  # the rest of its tail goes: it gets a snapshot
                self.copies[node].recorded = one.epoch
                self.copies[node].membership = max(
                    self.copies[node].membership, one.membership, key=lambda membership: membership.version
                )
                one.synced.add(node)
                has_it.add(node)
        if set(one.membership.members) <= has_it and set(one.membership.members) <= one.synced:
            newest = max(self.acknowledged.values(), default=0)
            assert one.epoch >= newest, f"epoch {one.epoch} acknowledges after epoch {newest} has"
            for acknowledged in own.records:
                self.acknowledged.setdefault(acknowledged, one.epoch)

    def shrink(self) -> None:
        one = self.random.choice(self.masters[-3:])
        gone = self.random.choice(self.nodes)
        if gone == one.node or gone not in one.membership.members or self.copies[one.node].promised > one.epoch:
            return
        version = (one.epoch, one.membership.version[1] + 1)
        fewer = Membership(version, tuple(node for node in one.membership.members if node != gone))
        told = [one.node]
        told += [node for node in self.reached() if node != one.node and self.accepts(node, one)]
        for node in told:
            self.copies[node].membership = fewer
        # The number is used up although too few may have heard.
        if len(told) >= shrink_quorum(len(self.nodes)):
            one.membership = fewer
        else:
            one.membership = Membership(version, one.membership.members)

    def grow(self) -> None:
        """A node gets everything, is waited for from then on, and then is written down at all members."""
        one = self.random.choice(self.masters[-3:])
        node = self.random.choice(self.nodes)
        if node in one.membership.members or self.copies[one.node].promised > one.epoch:
            return
        if not all(self.accepts(each, one) for each in (*one.membership.members, node) if each != one.node):
            return
        more = Membership((one.epoch, one.membership.version[1] + 1), (*one.membership.members, node))
        for each in more.members:
            self.copies[each].membership = more
            self.copies[each].records = self.copies[one.node].records
            self.copies[each].recorded = one.epoch
        one.membership, one.synced = more, set(more.members)

    # Claimants

    def claim(self) -> None:
        if len(self.claimants) >= 4:
            return
        self.begin_claim(self.random.choice(self.nodes))

    def begin_claim(self, node: str, resumes: int = 0) -> Claimant:
        epoch = self.copies[node].recorded
        master = dict(self.begun)[epoch]
        claim = Claim(node, self.names, tuple(self.nodes), master, (epoch, 1), resumes=resumes)
        one = Claimant(TakeOver(claim))
        self.claimants.append(one)
        self.carry_out(one, one.machine.start())
        return one

    def step(self) -> None:
        """The next node is asked; it may be silent, or do as asked and its answer be lost."""
        if not self.claimants:
            return
        one = self.random.choice(self.claimants)
        if not one.asked:
            return
        fate = self.random.random()
        self.ask(one, silent=fate < 0.1, lost=fate > 0.9)

    def ask(self, one: Claimant, *, silent: bool = False, lost: bool = False) -> None:
        node, epoch = one.asked.pop(0)
        me = one.machine.claim.me
        if silent and node != me:
            self.carry_out(one, one.machine.hear(Silent(node, "away")))
            return
        copy = self.copies[node]
        if one.writes is not None:
            if (copy.promised, copy.holder) != (epoch, me):
                self.carry_out(one, one.machine.hear(Silent(node, "promised away")))
                return
            copy.membership = one.writes
            self.carry_out(one, one.machine.hear(Silent(node, "lost") if lost else MembersWritten(node)))
            return
        granted = epoch > copy.promised
        if granted:
            copy.promised, copy.holder = epoch, me
        answer = self.answer(node, granted=granted)
        self.carry_out(one, one.machine.hear(Silent(node, "lost") if lost and node != me else Answered(node, answer)))

    def answer(self, node: str, *, granted: bool) -> CopyAnswer:
        copy = self.copies[node]
        return CopyAnswer(
            granted=granted,
            promised=copy.promised,
            holder=copy.holder,
            established=max(copy.recorded, copy.membership.version[0]),
            position=(copy.recorded, 1),
            membership=copy.membership,
            names=dict(self.begun)[copy.recorded],
        )

    def die(self) -> None:
        if self.claimants:
            self.claimants.remove(self.random.choice(self.claimants))

    def carry_out(self, one: Claimant, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, AskBefore):
                one.asked = [(node, 0) for node in effect.nodes]
            elif isinstance(effect, PromiseItself):
                one.asked = [(effect.node, effect.epoch)]
            elif isinstance(effect, AskPromise):
                one.asked = [(node, effect.epoch) for node in effect.nodes]
            elif isinstance(effect, WriteMembers):
                one.asked = [(node, effect.membership.version[0]) for node in effect.nodes]
                one.writes = effect.membership
            elif isinstance(effect, StopOldMaster):
                self.carry_out(one, one.machine.hear(OldMasterNotStopped("it is never told here")))
            elif isinstance(effect, Refuse):
                self.claimants.remove(one)
            else:
                assert isinstance(effect, Begin)
                self.begin(one, effect)

    def begin(self, one: Claimant, begin: Begin) -> None:
        self.begins += 1
        me = one.machine.claim.me
        self.claimants.remove(one)
        self.begun.append((begin.epoch, me))
        copy = self.copies[me]
        missing = self.acknowledged.keys() - copy.records
        assert not missing, f"{me} begins epoch {begin.epoch} without {missing}"
        if copy.promised > begin.epoch:
            return  # it has promised itself away in the meantime: WConfD will not start
        membership = Membership((begin.epoch, 1), begin.members)
        copy.membership, copy.recorded = membership, begin.epoch
        self.masters.append(Master(me, begin.epoch, membership, {me}))

    def run(self, steps: int) -> None:
        rules = {self.step: 12, self.write: 4, self.shrink: 2, self.grow: 2, self.claim: 2, self.die: 0.2}
        for _ in range(steps):
            self.random.choices(list(rules), list(rules.values()))[0]()
            self.check()

    def check(self) -> None:
        epochs = [epoch for epoch, _ in self.begun]
        assert len(epochs) == len(set(epochs)), self.begun
        for node, copy in self.copies.items():
            assert self.copies[copy.holder].promised >= copy.promised, f"{node} knows more than {copy.holder}"
        for one in self.claimants:
            one.machine.check_invariants()

    # Afterwards, when all commands have ended and all daemons were restarted

    def watch(self, node: str) -> str | None:
        """One round of the watcher of a node; gives the node if it serves as the master afterwards."""
        copy = self.copies[node]
        master = dict(self.begun)[copy.recorded]
        if master == node:
            answers = {each: self.answer(each, granted=False) for each in self.nodes}
            votes = {each: vote_of(answer, each, node, copy.recorded, self.names) for each, answer in answers.items()}
            if len(self.nodes) == 1 or count_votes(votes, node) is Verdict.ELECTED:
                return node
        if copy.promised <= copy.recorded or copy.holder != node:
            return None
        one = self.begin_claim(node, resumes=copy.promised)
        while one in self.claimants:
            self.ask(one)
        return node if self.begun[-1][1] == node and copy.recorded == self.begun[-1][0] else None

    def heal(self) -> None:
        """Let every node's watcher run a few times, one node after the other.

        A node that the master has left out of the copies in sync while it took over may not be the master: there an
        administrator decides.
        """
        self.claimants.clear()
        highest = max(copy.promised for copy in self.copies.values())
        last = {copy.holder for copy in self.copies.values() if copy.promised == highest}
        newest = max((copy.membership for copy in self.copies.values()), key=lambda membership: membership.version)
        if not last & set(newest.members):
            return
        serving: set[str] = set()
        for _ in range(3):
            for node in self.random.sample(self.nodes, len(self.nodes)):
                master = self.watch(node)
                serving = serving - {node} if master is None else {master}
        assert serving, f"nobody serves: {self.copies}"


@settings(max_examples=examples(400), deadline=None)
@given(st.integers(0, 2**64))
def test_nothing_acknowledged_is_lost_and_no_epoch_has_two_masters(seed: int) -> None:
    Cluster(Random(seed)).run(200)


@settings(max_examples=examples(400), deadline=None)
@given(st.integers(0, 2**64))
def test_a_cluster_has_a_master_again_after_take_overs_that_were_interrupted(seed: int) -> None:
    cluster = Cluster(Random(seed))
    cluster.run(100)
    cluster.heal()


def test_the_model_has_what_it_takes_to_find_something() -> None:
    """Take-overs, records and changes of the members happen often enough."""
    clusters = [Cluster(Random(seed)) for seed in range(50)]
    for cluster in clusters:
        cluster.run(200)
    assert sum(cluster.begins for cluster in clusters) > 80
    assert sum(len(cluster.acknowledged) for cluster in clusters) > 200
    assert sum(len(cluster.masters) > 2 for cluster in clusters) > 20


@given(st.integers(1, 1000))
def test_who_takes_over_meets_one_who_knows(count: int) -> None:
    assert take_over_quorum(count) + shrink_quorum(count) > count
    assert take_over_quorum(count) * 2 > count


def _ask_all_at_once(machine: TakeOver) -> list[Effect]:
    machine.phase, machine.epoch = takeover.Phase.PROMISING, machine._next_epoch()
    machine._awaited = tuple(machine.before)
    return [AskPromise(tuple(machine.claim.names), machine._awaited, machine.epoch)]


def _more_than_promised(machine: TakeOver) -> tuple[str, ...]:
    return tuple(node for node, answer in machine.promises.items() if answer.promised <= machine.epoch)


@pytest.mark.parametrize(
    ("place", "name", "broken"),
    [
        (takeover, "take_over_quorum", lambda count: max(1, count // 2)),
        (TakeOver, "_behind", lambda machine, answers: None),
        (TakeOver, "_next_epoch", lambda machine: machine.claim.position[0] + 1),
        (TakeOver, "_ask_for_promises", _ask_all_at_once),
        (sys.modules[__name__], "shrink_quorum", lambda count: 1),
        (Cluster, "accepts", lambda cluster, node, master: True),
    ],
)
def test_each_rule_is_needed(place: Any, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, something is lost or an epoch has two masters, within some thousand runs."""
    monkeypatch.setattr(place, name, broken)
    monkeypatch.setattr(TakeOver, "check_invariants", lambda machine: None)
    if name == "_next_epoch":
        monkeypatch.setattr(TakeOver, "granted", _more_than_promised)
    with pytest.raises(AssertionError):
        for seed in range(2000):
            Cluster(Random(seed)).run(200)
