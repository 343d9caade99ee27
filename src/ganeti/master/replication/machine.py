# SPDX-License-Identifier: BSD-2-Clause
"""All followers of one master in one epoch. Pure: an event and a time in, effects out.

What always holds (`check_invariants`):
 1. What was released is on disk at the master and at every member of its membership, and of the one it is growing into.
 2. A copy leaves the membership only when R candidates know, under every set of candidates that may be in force
    (`quorum.may_shrink`); or where a human has said that nobody else is master (`forced`, until all is in sync once).
 3. The master is a member, and memberships have ever greater versions, none used twice.
 4. The candidates change by one node at a time (`Candidates.may_become`): majorities of two sets in force always meet.

Members of a membership found at the start have said nothing yet: nothing is released until each has everything, or is
left out by rule 2.
"""

from collections import deque
from collections.abc import Mapping

from ganeti.master.replication import events
from ganeti.master.replication.candidates import Candidates
from ganeti.master.replication.effects import (
    Deposed,
    Effect,
    LogLine,
    NodeIn,
    NodeOut,
    Reclaim,
    Release,
    SendQueue,
    SendSnapshot,
)
from ganeti.master.replication.events import Event, Problem
from ganeti.master.replication.followers import Follower, State, Timing
from ganeti.master.replication.members import Members
from ganeti.model.membership import Kept, Membership

JOINING_LAG = 1000
"""Records a newcomer may lack when it begins to be waited for."""


class Machine:
    def __init__(
        self,
        me: str,
        kept: Kept,
        candidates: Mapping[str, str],
        last: int,
        now_s: float,
        timing: Timing | None = None,
        *,
        forced: bool = False,
    ) -> None:
        """*candidates* are those of the newest configuration (UUID to name), *last* is the newest durable record."""
        self.me = me
        self.last = last
        self.released = 0
        self._released_s = now_s
        self._changes = deque([last])
        """Records that are not released yet, up to which the configuration changes."""
        self._changed = 0
        """The last released one of them: what comes after it need not be published."""
        self.followers: dict[str, Follower] = {}
        self.deposed: str | None = None
        self.timing = timing or Timing()
        self.candidates = Candidates(kept, candidates, last)
        self._members = Members(me, kept, self.candidates, self.timing, forced=forced)
        self._effects: list[Effect] = []
        self._reclaim_s: float | None = None
        """When to ask for a new epoch; None while nobody has promised itself away."""
        self._keep_followers(now_s)

    @property
    def membership(self) -> Membership:
        return self._members.membership

    @property
    def epoch(self) -> int:
        return self.membership.version[0]

    @property
    def waited(self) -> list[Follower]:
        """Those without whom nothing is released."""
        return [
            follower
            for follower in self.followers.values()
            if follower.joining or self._members.includes(follower.node)
        ]

    def due_s(self) -> float | None:
        """When a `Tick` is wanted; None if only events can bring anything about."""
        times = [self._members.due_s(), self._reclaim_s]
        heartbeat_s = self.timing.heartbeat_s
        for follower in self.followers.values():
            if follower.busy:
                continue
            times.append(follower.heard_s + heartbeat_s if follower.problem is None else follower.retry_s)
            if follower.problem is None:
                times.append(follower.tell_due_s(self._changed, self._released_s, self.timing))
        if self._members.changing is None and not self._members.is_writing:
            times += [lost_s for _, lost_s in self._lost()]
        return min([time_s for time_s in times if time_s is not None], default=None)

    def check_invariants(self) -> None:
        """Raise `AssertionError` with what does not hold."""
        assert self.released <= self.last, "a record was released that is not durable"
        for follower in self.waited:
            has = follower.has
            told = f"{follower.name} has records up to {has}, released are those up to {self.released}"
            is_new = not self._members.includes(follower.node)
            assert has >= self.released or is_new or follower.went_back, told
        self._members.check_invariants()
        unknown = [node for node in self.membership.members if node != self.me and node not in self.followers]
        assert not unknown, f"members nobody sends to: {unknown}"

    def handle(self, event: Event, now_s: float) -> list[Effect]:
        """Take in what has happened; gives what is to be done, in order."""
        self._effects = []
        if isinstance(event, events.StateKnown) and self._is_as_before(event):
            self.followers[event.node].heard_again(event.told, now_s)
            return self._effects  # what comes by the time alone has its own `Tick`
        if self.deposed is None:
            self._take(event, now_s)
        if self.deposed is None:
            self._release(now_s)
            self._change_membership(now_s)
            self._note_states(now_s)
            self._reclaim(now_s)
            self._send(now_s)
        return self._effects

    def _take(self, event: Event, now_s: float) -> None:
        match event:
            case events.Durable():
                self.last = max(self.last, event.up_to)
                if not event.is_queue_only:
                    self._changes.append(self.last)
                for follower in self.followers.values():
                    if follower.owed_since_s is None:
                        follower.owed_since_s = now_s
            case events.QueueDoubted():
                for follower in self.followers.values():
                    follower.doubts_queue = True
            case events.MembershipKept():
                self._membership_written(now_s)
            case events.MembershipNotKept():
                self._tell(f"Which copies are in sync cannot be written down: {event.reason}", is_warning=True)
                self._members.not_written(now_s)
            case events.MembersAccepted():
                self._members.accepted(event.node, event.version)
                if (heard := self.followers.get(event.node)) is not None:
                    heard.retry_s = now_s
            case events.CandidatesChanged():
                self.candidates.change(event.number, event.candidates)
                self._keep_followers(now_s)
            case events.EpochSeen():
                self._epoch_seen(event)
            case events.Tick() | events.MembersRefused():
                pass
            case _:
                if (answering := self.followers.get(event.node)) is not None:
                    self._answered(answering, event, now_s)

    def _is_as_before(self, event: events.StateKnown) -> bool:
        """Whether a follower in sync has said that it is."""
        follower = self.followers.get(event.node)
        return (
            follower is not None
            and event.is_expected
            and follower.state is State.IN_SYNC
            and follower.is_following
            and not follower.doubts_queue
            and follower.problem is None
            and not follower.is_promised_away
            and follower.commits >= self.last
            and follower.queue >= self.last
            and event.membership == follower.membership == self.membership.version
        )

    def _answered(self, follower: Follower, event: Event, now_s: float) -> None:
        match event:
            case events.Failed():
                self._fail(follower, event.problem, event.reason, now_s)
            case events.Lost():
                self._fail(follower, Problem.REFUSED, event.reason, now_s)
                if follower.tries == 1:
                    follower.retry_s = now_s  # at once, but not for ever
            case events.Damaged() if follower.is_mended:
                self._fail(follower, Problem.REFUSED, event.reason, now_s)
            case events.Damaged():
                follower.damaged(event.reason)
                self._tell(
                    f"The copy at node {follower.name} is damaged and is made anew: {event.reason}", is_warning=True
                )
            case events.Appeared():
                follower.retry_s = now_s
            case _:
                was_restored = follower.is_given_twice
                follower.take(event, now_s, self.last)
                if follower.is_given_twice and not was_restored:
                    self._tell(
                        f"The copy at node {follower.name} has records of epoch {self.epoch} that this database never "
                        "had, as after an older one was restored: a new epoch is to begin",
                        is_warning=True,
                    )
                if follower.has >= self.released:
                    follower.went_back = False

    def _fail(self, follower: Follower, problem: Problem, reason: str, now_s: float) -> None:
        is_member = self._members.includes(follower.node)
        follower.failed(problem, reason, now_s, self.timing, is_member=is_member)

    def _membership_written(self, now_s: float) -> None:
        accepted = self._members.changing.accepted if self._members.changing is not None else {}
        knowing = sum(node in self.candidates.newest for node in accepted)
        effects, left = self._members.written(now_s)
        self._effects += effects
        for node in left:
            self._left_out(self.followers[node], knowing)
        self._keep_followers(now_s)
        self._release(now_s)  # the member that left may have been the only one waited for

    def _epoch_seen(self, event: events.EpochSeen) -> None:
        if event.established <= self.epoch or event.holder == self.me:
            # Two that ask for promises at once ask for the same epoch: who lost may keep a promise of this very one.
            is_others = event.promised == self.epoch and event.holder not in (None, self.me)
            is_away = event.promised > self.epoch or is_others
            if is_away and (follower := self.followers.get(event.node)) is not None:
                follower.is_promised_away = True
            return
        other = f"node {self.candidates.name(event.holder)}" if event.holder else "another node"
        self.deposed = (
            f"{other} is the master since epoch {event.established}, this node was until epoch {self.epoch}: node "
            f"{self.candidates.name(event.node)} has its records"
        )
        self._effects.append(Deposed(self.deposed))

    def _reclaim(self, now_s: float) -> None:
        """A candidate that promised itself to a node that did not begin takes nothing of this epoch ever again.

        While the candidates themselves are changing, a majority of the new ones need not meet one of the old.

        After an older database was restored, nobody else is asking: only in a new epoch a position means one thing.
        """
        followers = [self.followers[node] for node in self.candidates.newest if node in self.followers]
        is_away = any(follower.is_promised_away for follower in followers)
        if not (is_away or self._is_restored()) or len(self.candidates.sets) > 1:
            self._reclaim_s = None
            return
        if self._reclaim_s is None:
            self._reclaim_s = now_s + (0.0 if self._is_restored() else self.timing.reclaim_s)
        if now_s >= self._reclaim_s:
            self._reclaim_s = now_s + self.timing.reclaim_s
            self._effects.append(Reclaim())

    def _release(self, now_s: float) -> None:
        if self._is_restored():
            return  # the positions of this epoch have a meaning already
        target = self.last
        if target > self.released:
            target = min([target, *[follower.has for follower in self.waited]])
        if target > self.released:
            self.released = target
            self._released_s = now_s
            while self._changes and self._changes[0] <= target:
                self._changed = self._changes.popleft()
            self._members.forced = False
            self.candidates.settle(target)
            self._effects.append(Release(target))

    def _change_membership(self, now_s: float) -> None:
        if self._members.changing is not None:
            self._effects += self._members.poll(now_s, lambda: self._leaving(now_s))
            return
        if self._members.is_writing:
            return
        leaving = self._leaving(now_s)
        members, ready = self.membership.members, []
        for follower in self.followers.values():
            if follower.node not in members:
                near = follower.is_following and self.last - follower.has <= JOINING_LAG
                follower.joining = follower.joining or (near and follower.node in self.candidates.newest)
                if self._may_join(follower):
                    ready.append(follower.node)
        if leaving:
            self._effects += self._members.leave_out(leaving)
        elif ready:
            self._effects += self._members.grow(ready)
        elif self._members.is_doubtful:
            self._effects += self._members.leave_out([])
        else:
            self._effects += self._members.write_candidates(now_s)

    def _is_restored(self) -> bool:
        """Whether one that answers has records of this epoch that this database never had."""
        if len(self.candidates.sets) > 1:
            return False
        return any(follower.is_given_twice and follower.problem is None for follower in self.followers.values())

    def _may_join(self, follower: Follower) -> bool:
        """It has everything that was acknowledged, and what comes is waited for."""
        has_all = follower.has >= self.released > 0
        return follower.joining and has_all and not self._members.includes(follower.node)

    def _leaving(self, now_s: float) -> list[str]:
        return [node for node, lost_s in self._lost() if lost_s <= now_s]

    def _lost(self) -> list[tuple[str, float]]:
        """The members there is a cause to leave out, and when they are to be."""
        members, candidates, last = self._members.membership.members, self.candidates.newest, self.last
        found = []
        for node, follower in self.followers.items():
            if node not in members:
                continue
            lost_s = None
            if node not in candidates and (follower.has >= self.candidates.changed_at or follower.problem is not None):
                lost_s = follower.heard_s
            elif follower.problem is not None or follower.commits < last or follower.queue < last:
                lost_s = follower.lost_s(last, self.timing)
            if lost_s is not None:
                found.append((node, lost_s))
        return found

    def _left_out(self, follower: Follower, knowing: int) -> None:
        why = follower.reason if follower.problem else f"it has not taken a record for {self.timing.take_s:g} seconds"
        if follower.node not in self.candidates.newest:
            why = "it is no master candidate any more"
        follower.reason = why
        sentence = (
            f"The copy at node {follower.name} is left out of those in sync, with the knowledge of {knowing} of "
            f"{len(self.candidates.newest)} candidates: {why}"
        )
        self._effects.append(NodeOut(follower.node, sentence))

    def _note_states(self, now_s: float) -> None:
        members = self.membership.members
        for follower in self.followers.values():
            new = follower.state_now(is_member=follower.node in members)
            old, follower.state = follower.state, new
            if old is new:
                continue
            follower.since_s = now_s
            if new is State.IN_SYNC:
                follower.reason = "it has everything"
            sentence = f"The copy at node {follower.name} was {old.value} and is {new.value} now: {follower.reason}"
            if new is State.IN_SYNC:
                self._effects.append(NodeIn(follower.node, sentence))
            else:
                self._tell(sentence, is_warning=new is not State.CATCHING_UP)

    def _send(self, now_s: float) -> None:
        membership = self.membership
        for follower in self.followers.values():
            if follower.busy:
                continue
            tell_s = follower.tell_due_s(self._changed, self._released_s, self.timing)
            is_tell_due = tell_s is not None and now_s >= tell_s
            request = follower.next_request(
                now_s, self.last, self.released, membership, self.timing, is_tell_due=is_tell_due
            )
            if request is not None:
                follower.busy = True
                follower.is_long = isinstance(request, SendSnapshot | SendQueue)
                if isinstance(request, SendQueue):
                    follower.doubts_queue = False  # if it fails, all of it begins anew; a later doubt wants another one
                self._effects.append(request)

    def _keep_followers(self, now_s: float) -> None:
        """One for each candidate and each member."""
        wanted = dict.fromkeys(node for node in (*self.candidates.newest, *self.membership.members) if node != self.me)
        for node in wanted:
            if node not in self.followers:
                self.followers[node] = Follower(
                    node, self.candidates.name(node), since_s=now_s, heard_s=now_s, owed_since_s=now_s
                )
        for node in [node for node in self.followers if node not in wanted and not self._members.includes(node)]:
            del self.followers[node]

    def _tell(self, sentence: str, *, is_warning: bool = False) -> None:
        self._effects.append(LogLine(sentence, is_warning))
