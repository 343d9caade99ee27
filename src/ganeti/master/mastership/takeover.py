# SPDX-License-Identifier: BSD-2-Clause
"""A node becomes master: the machine of one take-over. Pure: an event in, effects out.

What always holds (`check_invariants`, and over many claimants `tests/property/test_mastership.py`):
 1. In any epoch at most one node acknowledges records.
 2. A node that takes over has every record that was ever acknowledged.
 3. Before the promises are asked for, nothing has changed anywhere but that the old master may have been stopped.
 4. A node that candidates have promised themselves to has made the same promise before, on its own disk.

Why 1 holds. An epoch is begun only with the promises of T of the N candidates, and a candidate gives one promise an
epoch. What is acknowledged in an epoch is on disk at its master and at all members; a member refuses records of epochs
lower than its promise, and to take a member out R candidates must know. Since R + T > N, a former master is told by one
of them: it can neither reach all members nor be rid of those that refuse.

Why 2 holds. Every member has every acknowledged record. The T that promise contain one of the R that know the newest
membership, so the newest they report is the newest there is, or one that nothing was acknowledged under; the claimant
must be in it. The candidates it counts are those of its own copy, which are the right ones if it is in that membership:
a change of the candidates counts only once every member has it.
What they report may never have been agreed on, though: a former master may have told one node alone, of one left out or
taken in. So the membership the epoch begins with is written down at T candidates before anything can be acknowledged
under it; being of the newest epoch, it is the newest that any later claimant meets, also one whose copy has the former
set of candidates still (`replication.quorum`).

What 4 is for. A take-over may end at any moment, and leave a master without the candidates to serve with. The node
whose epoch was promised last then goes on by itself (`Claim.resumes`): it has to know that it is the one.

A forced take-over (`--no-voting`) has neither 1 nor 2: a human vouches that the former master and the other copies are
gone. Its epoch is a number nobody else can have, so that two humans who both do so can be told apart afterwards.
"""

from collections.abc import Iterable
from enum import Enum

from ganeti.master.config.vote import vote_of
from ganeti.master.mastership import refusals
from ganeti.master.mastership.messages import (
    Answered,
    AskBefore,
    AskPromise,
    Begin,
    Claim,
    Effect,
    Event,
    MembersWritten,
    OldMasterNotStopped,
    OldMasterStopped,
    PromiseItself,
    Refuse,
    Silent,
    StopOldMaster,
    WriteMembers,
)
from ganeti.master.replication.quorum import take_over_quorum
from ganeti.model.membership import Membership
from ganeti.model.node_calls.replica import CopyAnswer

FORCED_STEP = 1_000_000
"""Forced epochs lie above the next multiple of this."""


class Phase(Enum):
    NEW = "not begun"
    ASKING = "asks what the nodes would promise"
    STOPPING = "waits for the old master to stop"
    PROMISING_ITSELF = "has its own promise written down"
    PROMISING = "asks for the promises of the others"
    WRITING = "has the promises, and lets the candidates know the members"
    BEGUN = "is master"
    REFUSED = "has given up"


_ANSWERED = (Phase.ASKING, Phase.PROMISING_ITSELF, Phase.PROMISING)


class TakeOver:
    """One attempt of one node; another attempt is another object."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.phase = Phase.NEW
        self.epoch = 0
        """The epoch that is asked for, 0 before that."""
        self.before: dict[str, CopyAnswer] = {}
        self.promises: dict[str, CopyAnswer] = {}
        self.silent: dict[str, str] = {}
        """Who did not answer, and why; in the phase that is on."""
        self.old_master = claim.old_master
        self.stopped: bool | None = None
        """Whether the old master was stopped; None if it was not asked to."""
        self.knowing: set[str] = set()
        """Who has the membership of the new epoch; this node has it with its first commit."""
        self._awaited: tuple[str, ...] = ()
        self._warnings: list[str] = []

    @property
    def quorum(self) -> int:
        return take_over_quorum(len(self.claim.candidates))

    def start(self) -> list[Effect]:
        assert self.phase is Phase.NEW
        if self.claim.me not in self.claim.candidates:
            return self._refuse(refusals.no_candidate(self.claim))
        self.phase = Phase.ASKING
        self._awaited = tuple(self.claim.names)
        return [AskBefore(self._awaited)]

    def hear(self, event: Event) -> list[Effect]:
        """Take in what has happened; what comes too late or was not asked for changes nothing."""
        if self.phase is Phase.STOPPING and isinstance(event, OldMasterStopped | OldMasterNotStopped):
            return self._old_master_done(event)
        if self.phase is Phase.WRITING and isinstance(event, MembersWritten | Silent):
            return self._written(event)
        if self.phase not in _ANSWERED or not isinstance(event, Answered | Silent):
            return []
        if event.node not in self._awaited:
            return []
        answers = self.before if self.phase is Phase.ASKING else self.promises
        if isinstance(event, Silent):
            self.silent.setdefault(event.node, event.why)
        else:
            answers.setdefault(event.node, event.answer)
        if any(node not in answers and node not in self.silent for node in self._awaited):
            return []
        if self.phase is Phase.ASKING:
            return self._decide_before()
        return self._ask_others() if self.phase is Phase.PROMISING_ITSELF else self._decide()

    def _decide_before(self) -> list[Effect]:
        """Would it succeed? All that can be known is looked at before the old master is disturbed."""
        self.old_master = current_master(self.claim, self.before)
        if self.old_master == self.claim.me and not self._has_begun():
            self.old_master = self.claim.old_master
        if self.claim.reclaims and self.old_master != self.claim.me:
            return self._refuse(refusals.another_master(self.claim, self.old_master))
        if self.old_master == self.claim.me and not self.claim.reclaims and not self._is_fenced_off():
            return self._refuse(refusals.already_master(self.claim))
        refusal = (
            self._own_fault(self.before)
            or self._overtaken()
            or self._not_enough(self.before)
            or self._behind(self.before)
        )
        if refusal is not None:
            return self._refuse(refusal)
        if self.claim.reclaims:
            return self._ask_for_promises()
        if self.old_master in self.before:
            self.phase = Phase.STOPPING
            return [StopOldMaster(self.old_master)]
        why = self.silent.get(self.old_master, "it is marked offline")
        self._warnings.append(refusals.old_master_not_told(self._name(self.old_master), why))
        return self._ask_for_promises()

    def _has_begun(self) -> bool:
        """Whether there is a record of an epoch of this node; an interrupted take-over leaves promises and members."""
        known = self.claim.position[0]
        return self.claim.old_master == self.claim.me or any(
            answer.position is not None and answer.position[0] > known for answer in self.before.values()
        )

    def _is_fenced_off(self) -> bool:
        """Whether a master's daemons could not serve here: too many have promised themselves to other nodes.

        The node they promised themselves to may have died: those that are silent cannot be counted on either.
        """
        known = self.claim.position[0]
        answers = [answer for node, answer in self.before.items() if node in self.claim.candidates]
        away = sum(answer.promised > known and answer.holder != self.claim.me for answer in answers)
        return away > 0 and len(answers) - away < self.quorum

    def _overtaken(self) -> Refuse | None:
        """Whether what was interrupted need not be finished: others went on, or the old master can."""
        if not self.claim.resumes:
            return None
        newest = max(self.before.values(), key=lambda answer: answer.promised)
        if newest.promised > self.claim.resumes:
            return refusals.overtaken(self.claim, newest)
        against = votes_against(self.claim, self.old_master, self.before)
        if self.old_master in self.before and 2 * against < len(self.claim.candidates):
            return refusals.not_fenced_off(self.claim, self.old_master, against)
        return None

    def _old_master_done(self, event: OldMasterStopped | OldMasterNotStopped) -> list[Effect]:
        self.stopped = isinstance(event, OldMasterStopped)
        if isinstance(event, OldMasterNotStopped):
            self._warnings.append(refusals.old_master_not_told(self._name(self.old_master), event.why))
        return self._ask_for_promises()

    def _ask_for_promises(self) -> list[Effect]:
        """This node's own comes first: others that have promised must not wait for one that does not know of it."""
        self.phase = Phase.PROMISING_ITSELF
        self.epoch = self._next_epoch()
        self._awaited = (self.claim.me,)
        return [PromiseItself(self.claim.me, self.epoch)]

    def _ask_others(self) -> list[Effect]:
        """All are told; those that were silent just now are not waited for again."""
        refusal = self._own_fault(self.promises) or self._promised_away()
        if refusal is None and self.claim.me not in self.granted():
            refusal = self._not_enough(self.promises)
        if refusal is not None:
            return self._refuse(refusal)
        self.phase = Phase.PROMISING
        others = tuple(node for node in self.claim.names if node != self.claim.me)
        self._awaited = tuple(node for node in others if node in self.before)
        self.silent = {node: why for node, why in self.silent.items() if node not in self._awaited}
        return [AskPromise(others, self._awaited, self.epoch)] if self._awaited else self._decide()

    def _next_epoch(self) -> int:
        answers = self.before.values()
        known = max([self.claim.position[0], *(max(answer.promised, answer.established) for answer in answers)])
        if self.claim.forced:
            return (known // FORCED_STEP + 1) * FORCED_STEP + self.claim.entropy
        return known + 1

    def _decide(self) -> list[Effect]:
        refusal = (
            self._own_fault(self.promises)
            or self._promised_away()
            or self._not_enough(self.promises)
            or self._behind(self.promises)
        )
        if refusal is not None:
            return self._refuse(refusal)
        self._awaited = tuple(node for node in self.granted() if node != self.claim.me)
        if self.claim.forced or not self._awaited:
            return self._begin()
        self.phase = Phase.WRITING
        self.silent = {}
        return [WriteMembers(self._awaited, Membership((self.epoch, 1), self._members()))]

    def _written(self, event: MembersWritten | Silent) -> list[Effect]:
        if event.node not in self._awaited:
            return []
        if isinstance(event, Silent):
            self.silent.setdefault(event.node, event.why)
        else:
            self.knowing.add(event.node)
        if any(node not in self.knowing and node not in self.silent for node in self._awaited):
            return []
        needed = self.quorum
        if len(self.knowing) + 1 < needed:
            away = {node: self.silent.get(node, "it has not promised") for node in self.claim.candidates}
            away = {node: why for node, why in away.items() if node not in self.knowing and node != self.claim.me}
            return self._refuse(refusals.minority(self.claim, len(self.knowing) + 1, needed, away))
        return self._begin()

    def _begin(self) -> list[Effect]:
        self.phase = Phase.BEGUN
        members = self._members()
        away = tuple(node for node in members if node not in self.promises)
        return [Begin(self.epoch, self.old_master, bool(self.stopped), members, away, tuple(self._warnings))]

    def _members(self) -> tuple[str, ...]:
        """Forced, it begins alone: to take out those that do not answer it would need the others."""
        newest = newest_membership(self.promises.values())
        return (self.claim.me,) if self.claim.forced or newest is None else newest.members

    def _own_fault(self, answers: dict[str, CopyAnswer]) -> Refuse | None:
        """This node's own copy and promise are needed whatever the others say."""
        own = answers.get(self.claim.me)
        if own is None:
            return refusals.own_daemon_silent(self._name(self.claim.me), self.silent.get(self.claim.me, ""))
        if own.refused:
            return refusals.own_copy_unfit(self._name(self.claim.me), own)
        return None

    def _promised_away(self) -> Refuse | None:
        """Another node asks for promises at the same time, and came first here or at too many."""
        own = self.phase is Phase.PROMISING_ITSELF
        if self.claim.me in self.granted() and (own or self.claim.forced or len(self.granted()) >= self.quorum):
            return None
        others = [
            answer
            for node, answer in self.promises.items()
            if answer.promised >= self.epoch and answer.holder not in (None, self.claim.me) and node in self.claim.names
        ]
        if not others:
            return None
        highest = max(others, key=lambda answer: (answer.promised, str(answer.holder)))
        return refusals.promised_away(self.claim, highest)

    def _not_enough(self, answers: dict[str, CopyAnswer]) -> Refuse | None:
        """Fewer candidates than needed answer with a sound copy, or promise."""
        counted = self.granted() if self.epoch else _sound(self.claim, answers)
        if len(counted) >= (1 if self.claim.forced else self.quorum) and self.claim.me in counted:
            return None
        away = {node: self._why_not(node, answers) for node in self.claim.candidates if node not in counted}
        return refusals.minority(self.claim, len(counted), self.quorum, away)

    def _behind(self, answers: dict[str, CopyAnswer]) -> Refuse | None:
        newest = newest_membership(answers.values())
        if newest is not None and self.claim.me in newest.members:
            return None
        if self.claim.forced:
            self._warn_once(refusals.forced_behind(self.claim, newest))
            return None
        usable = _sound(self.claim, answers)
        return refusals.behind(self.claim, newest, self.old_master, usable, self.silent)

    def granted(self) -> tuple[str, ...]:
        """The candidates that have promised this epoch to this node, with a sound copy."""
        return tuple(
            node
            for node in _sound(self.claim, self.promises)
            if (answer := self.promises[node]).granted
            and answer.promised == self.epoch
            and answer.holder == self.claim.me
        )

    def _why_not(self, node: str, answers: dict[str, CopyAnswer]) -> str:
        if node not in answers:
            return self.silent.get(node, "no answer")
        answer = answers[node]
        return answer.sentence or answer.refused or f"it has promised itself to epoch {answer.promised}"

    def _warn_once(self, sentence: str) -> None:
        if sentence not in self._warnings:
            self._warnings.append(sentence)

    def _name(self, node: str) -> str:
        return refusals.name_of(self.claim, node)

    def _refuse(self, refusal: Refuse) -> list[Effect]:
        self.phase = Phase.REFUSED
        if self.stopped:
            refusal = refusals.after_stop(refusal, self._name(self.old_master))
        return [refusal]

    def check_invariants(self) -> None:
        """Raise `AssertionError` where this object breaks one of the rules at the head of this module."""
        claim = self.claim
        if self.phase in (Phase.NEW, Phase.ASKING):
            assert not self.promises and self.epoch == 0 and self.stopped is None, "asked before the time"
        if self.phase in (Phase.PROMISING, Phase.WRITING):
            assert self.claim.me in self.granted(), "others were asked before this node's own promise was written down"
        if self.epoch:
            assert self.epoch > max([claim.position[0], *(answer.promised for answer in self.before.values())])
        if self.phase is not Phase.BEGUN:
            return
        assert claim.me in self.granted(), "begun without a promise of its own"
        if not claim.forced:
            assert len(self.granted()) >= take_over_quorum(len(claim.candidates)), "begun without the promises it needs"
            newest = newest_membership(self.promises.values())
            assert newest is not None and claim.me in newest.members, "begun without being in sync"
            knowing = len(self.knowing) + 1
            assert knowing >= take_over_quorum(len(claim.candidates)), "begun with members that too few know"


def _sound(claim: Claim, answers: dict[str, CopyAnswer]) -> tuple[str, ...]:
    return tuple(node for node in claim.candidates if node in answers and not answers[node].refused)


def votes_against(claim: Claim, master: str, answers: dict[str, CopyAnswer]) -> int:
    """How many candidates would not vote for *master*; of those that are silent nobody knows it."""
    own = answers.get(master)
    epoch = own.position[0] if own is not None and own.position is not None else claim.position[0]
    heard = [node for node in claim.candidates if node in answers]
    votes = [vote_of(answers[node], node, master, epoch, claim.names) for node in heard]
    return sum(vote is not None and vote != claim.names.get(master) for vote in votes)


def newest_membership(answers: Iterable[CopyAnswer]) -> Membership | None:
    """The newest that sound copies report."""
    known = [answer.membership for answer in answers if answer.membership is not None and not answer.refused]
    return max(known, key=lambda membership: membership.version, default=None)


def current_master(claim: Claim, answers: dict[str, CopyAnswer]) -> str:
    """Who is master as the answers have it: who holds the newest epoch with a record, else whom most of them name.

    Members that are written down are no record: who had that done may have been interrupted.
    """
    begun = [(answer.position[0], answer) for answer in answers.values() if answer.position is not None]
    newest = max((epoch for epoch, _ in begun), default=0)
    holders = sorted(answer.holder for epoch, answer in begun if answer.holder and epoch == newest == answer.promised)
    if holders and holders[0] in claim.names:
        return holders[0]
    by_name = {name: uuid for uuid, name in claim.names.items()}
    votes: dict[str, int] = {}
    for node, answer in answers.items():
        named = by_name.get(answer.names)
        if named is not None and node != claim.me:
            votes[named] = votes.get(named, 0) + 1
    if not votes:
        return claim.old_master
    return max(votes, key=lambda uuid: (votes[uuid], uuid == claim.old_master, uuid))
