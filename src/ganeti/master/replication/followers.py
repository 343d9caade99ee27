# SPDX-License-Identifier: BSD-2-Clause
"""One candidate beside the master, as the master knows it: what it has, what it is owed, what is wrong with it."""

from dataclasses import dataclass
from enum import Enum

from ganeti.master.replication import events
from ganeti.master.replication.effects import Effect, SendAppend, SendQueue, SendSnapshot, SendState
from ganeti.master.replication.events import Problem
from ganeti.model.membership import Membership, Version

_ALONG = 0.9
"""After this part of a heartbeat a follower is asked along with one that must be: the master wakes up once for all."""


class State(Enum):
    """As shown to people (`replicationState`)."""

    IN_SYNC = "in-sync"
    CATCHING_UP = "catching-up"
    BEHIND = "behind"
    AWAY = "away"


@dataclass(frozen=True)
class Timing:
    """How long what may take, in seconds."""

    first_s: float = 1.5
    """A member that has not said what it has since this master began is left out after so long."""
    reclaim_s: float = 15.0
    """So long may a candidate have promised itself to another master of which there is no record."""
    take_s: float = 5.0
    """A member that has not taken a record for so long is left out."""
    long_take_s: float = 30.0
    """The same while it is sent everything."""
    quick_s: float = 1.0
    """A member that says no, or cannot be reached at all, is left out after so long, and so many tries."""
    quick_tries: int = 2
    heartbeat_s: float = 5.0
    tell_s: float = 0.1
    """After so long without another record, candidates are told that the newest is acknowledged, and publish it."""
    retry_first_s: float = 0.5
    retry_longest_s: float = 30.0
    """Longest pause after a refusal."""
    retry_away_s: float = 3.0
    """Longest pause while a node is away: to ask it costs nothing, and it shall be back in sync soon."""
    ask_again_s: float = 1.0
    """Pause before candidates are asked again to know who is left out."""
    away: tuple[str, ...] = ()
    """Members that were silent just before this master began: they are left out at once, unless they answer at once."""


@dataclass(eq=False)
class Follower:
    """*commits* and *queue* are numbers of records: it has what those up to there ask for."""

    node: str
    name: str
    since_s: float
    """Since when its state is as it is."""
    heard_s: float
    state: State = State.CATCHING_UP
    is_heard: bool = False
    """It has answered at all since this master began."""
    known: bool = False
    """It has said what it has, and nothing has failed since."""
    is_promised_away: bool = False
    """It has promised itself to another master, of which it has no record: who asked may have failed."""
    needs_snapshot: bool = False
    needs_queue: bool = True
    doubts_queue: bool = False
    """Its files of the queue are to be compared once more, although it was told of every change."""
    is_mended: bool = False
    """It was damaged, was or is to be sent everything, and has taken no commit since."""
    went_back: bool = False
    """It has lost records it had: nobody can help that, but what was released then does not count for it."""
    joining: bool = False
    """It is waited for already, so that what is acknowledged does not run away from it."""
    commits: int = 0
    queue: int = 0
    told: int = 0
    """Up to which record it knows that what it has is acknowledged."""
    is_given_twice: bool = False
    """It has what another database of this master has given away: it gets nothing of this epoch."""
    membership: Version | None = None
    busy: bool = False
    is_long: bool = False
    """What it is busy with may take long."""
    owed_since_s: float | None = None
    problem: Problem | None = None
    reason: str = "it is asked what it has"
    tries: int = 0
    failing_since_s: float = 0.0
    retry_s: float = 0.0

    @property
    def has(self) -> int:
        """All records up to this number."""
        return self.commits if self.commits < self.queue else self.queue

    @property
    def is_following(self) -> bool:
        """Nothing but the newest records is missing."""
        return self.known and not self.needs_snapshot and not self.needs_queue

    def take(self, event: events.Event, now_s: float, last: int) -> None:
        """Take in an answer. *last* is the newest record."""
        if isinstance(event, events.Acked | events.SnapshotTaken | events.StateKnown):
            self.told = max(self.told, event.told)
        match event:
            case events.Acked():
                self.is_mended = self.is_mended and event.commits <= self.commits
                self.commits = max(self.commits, event.commits)
                self.queue = max(self.queue, event.queue)
                self.membership = event.membership or self.membership
            case events.SnapshotTaken():
                self.needs_snapshot = False
                self.commits = max(self.commits, event.commits)
                self.membership = event.membership or self.membership
            case events.QueueEqual():
                self.needs_queue = False
                self.queue = max(self.queue, event.queue)
            case events.StateKnown():
                self.membership = event.membership
                self.is_given_twice = self.is_given_twice or event.is_given_twice
                if not self.known or not event.is_expected:
                    self._begin_anew(event)
        self.busy = self.is_long = self.is_promised_away = False
        self.heard_s = now_s
        is_back = self.problem is Problem.UNREACHABLE
        is_record = isinstance(event, events.Acked | events.SnapshotTaken)
        if is_record or (self.is_following and self.has >= last):
            self.problem = None
            self.tries = 0
        elif is_back:
            self.problem = None  # it is there; what it refused before, it may refuse again
        if self.has >= last:
            self.owed_since_s = None
        elif is_back or not self.is_heard or not isinstance(event, events.StateKnown):
            self.owed_since_s = now_s
        self.is_heard = True

    def heard_again(self, told: int, now_s: float) -> None:
        """It is as it was, and lacks nothing."""
        self.told = max(self.told, told)
        self.busy = self.is_long = False
        self.heard_s = now_s
        self.owed_since_s = None

    def _begin_anew(self, state: events.StateKnown) -> None:
        self.known = self.needs_queue = True
        self.needs_snapshot = state.commits is None
        self.reason = "it gets what it lacks"
        if not state.is_expected and (state.commits or 0) < self.commits:
            self.went_back = True
            self.commits = state.commits or 0
        self.commits = max(self.commits, state.commits or 0)

    def damaged(self, reason: str) -> None:
        """It must be sent everything."""
        self.busy = False
        self.known = self.needs_snapshot = self.needs_queue = self.is_mended = True
        self.problem = None
        self.reason = reason

    def failed(self, problem: Problem, reason: str, now_s: float, timing: Timing, *, is_member: bool) -> None:
        self.busy = self.is_long = self.known = self.joining = False
        self.told = 0  # its daemon may be another one when it is heard again
        if self.needs_snapshot:
            self.is_mended = False  # it was not even sent everything
        if self.problem is None:
            self.failing_since_s = now_s
        self.problem, self.reason = problem, reason
        pause_s = timing.retry_first_s
        if not is_member:
            longest_s = timing.retry_longest_s if problem is Problem.REFUSED else timing.retry_away_s
            pause_s = min(pause_s * 2 ** min(self.tries, 16), longest_s)
        self.tries += 1
        self.retry_s = now_s + pause_s

    def lost_s(self, last: int, timing: Timing) -> float | None:
        """From when on it counts as lost, as a member; None if for nothing that has happened so far."""
        if self.problem is None and self.has >= last:
            return None
        owed_s = self.owed_since_s if self.has < last else None
        times = []
        if owed_s is not None:
            times.append(owed_s + self._patience_s(timing))
        if self.problem is Problem.SILENT:
            times.append(self.failing_since_s + timing.take_s)
        elif self.problem is not None and self.tries >= timing.quick_tries:
            times.append(self.failing_since_s + (timing.take_s if owed_s is None else timing.quick_s))
        return min(times, default=None)

    def _patience_s(self, timing: Timing) -> float:
        if not self.is_heard:
            return 0.0 if self.node in timing.away else timing.first_s
        return timing.long_take_s if self.is_long else timing.take_s

    def state_now(self, *, is_member: bool) -> State:
        if self.problem is Problem.REFUSED:
            return State.BEHIND
        if self.problem is not None:
            return State.AWAY
        return State.IN_SYNC if is_member and self.is_following else State.CATCHING_UP

    def tell_due_s(self, changed: int, released_s: float, timing: Timing) -> float | None:
        """When it is to be told what is acknowledged of what it has; None if it knows.

        *changed* is the newest released record that changes the configuration: it publishes nothing of later ones.
        """
        is_untold = self.is_following and self.told < min(changed, self.commits)
        return released_s + timing.tell_s if is_untold else None

    def next_request(
        self, now_s: float, last: int, released: int, membership: Membership, timing: Timing, *, is_tell_due: bool
    ) -> Effect | None:
        """What to send it now; None if it is busy, failed a moment ago, or has everything."""
        if self.busy or (self.problem is not None and now_s < self.retry_s):
            return None
        if not self.known:
            return SendState(self.node)
        is_due = is_tell_due or now_s - self.heard_s >= timing.heartbeat_s * _ALONG
        if self.is_given_twice:
            return SendState(self.node) if is_due else None
        if self.needs_snapshot:
            return SendSnapshot(self.node, membership, released)
        if self.needs_queue or self.doubts_queue:
            return SendQueue(self.node, last)
        newest = None if self.membership == membership.version else membership
        if self.has < last or newest is not None:
            return SendAppend(self.node, self.commits, self.queue, last, newest, released)
        return SendState(self.node, min(released, self.commits)) if is_due else None
