# SPDX-License-Identifier: BSD-2-Clause
"""Laws of mastership over several claimants, whatever is lost, late or interrupted in between.

The model: each candidate keeps one promise and the newest membership it was told, and has a copy of which a serial
number stands for everything in it. Masters acknowledge records at all members, take members out with the quorum
for that, and claimants run the real machine, each step of which may come late or never.
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
        one.membership, one.synced = more, set(more.members)

    # Claimants

    def claim(self) -> None:
        if len(self.claimants) >= 4:
            return
        node = self.random.choice(self.nodes)
        names = {each: each for each in self.nodes}
        epoch = self.copies[node].membership.version[0]
        _, master = max(begun for begun in self.begun if begun[0] <= epoch)
        claim = Claim(node, names, tuple(self.nodes), master, (epoch, 1))
        one = Claimant(TakeOver(claim))
        self.claimants.append(one)
        self.carry_out(one, one.machine.start())

    def step(self) -> None:
        """The next node is asked; it may be silent, or do as asked and its answer be lost."""
        if not self.claimants:
            return
        one = self.random.choice(self.claimants)
        if not one.asked:
            return
        node, epoch = one.asked.pop(0)
        me = one.machine.claim.me
        fate = self.random.random()
        silent, lost = fate < 0.1, fate > 0.9
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
        answer = CopyAnswer(
            granted=granted,
            promised=copy.promised,
            holder=copy.holder,
            established=copy.membership.version[0],
            position=(copy.membership.version[0], 1),
            membership=copy.membership,
            names="n0",
        )
        self.carry_out(one, one.machine.hear(Silent(node, "lost") if lost and node != me else Answered(node, answer)))

    def die(self) -> None:
        if self.claimants:
            self.claimants.remove(self.random.choice(self.claimants))

    def carry_out(self, one: Claimant, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, AskBefore):
                one.asked = [(node, 0) for node in effect.nodes]
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
        copy.membership = membership
        self.masters.append(Master(me, begin.epoch, membership, {me}))

    def run(self, steps: int) -> None:
        rules = {self.step: 12, self.write: 4, self.shrink: 2, self.grow: 2, self.claim: 2, self.die: 0.2}
        for _ in range(steps):
            self.random.choices(list(rules), list(rules.values()))[0]()
            self.check()

    def check(self) -> None:
        epochs = [epoch for epoch, _ in self.begun]
        assert len(epochs) == len(set(epochs)), self.begun
        for one in self.claimants:
            one.machine.check_invariants()


@settings(max_examples=examples(400), deadline=None)
@given(st.integers(0, 2**64))
def test_nothing_acknowledged_is_lost_and_no_epoch_has_two_masters(seed: int) -> None:
    Cluster(Random(seed)).run(200)


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


def _more_than_promised(machine: TakeOver) -> tuple[str, ...]:
    return tuple(node for node, answer in machine.promises.items() if answer.promised <= machine.epoch)


@pytest.mark.parametrize(
    ("place", "name", "broken"),
    [
        (takeover, "take_over_quorum", lambda count: max(1, count // 2)),
        (TakeOver, "_behind", lambda machine, answers: None),
        (TakeOver, "_next_epoch", lambda machine: machine.claim.position[0] + 1),
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
