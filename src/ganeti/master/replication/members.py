# SPDX-License-Identifier: BSD-2-Clause
"""The membership of one master and its changes, one at a time: what is written and asked, in which order.

Leaving somebody out: the new version is reserved on the master's disk, the candidates are asked to know the membership,
and when R do under every set of candidates it is written on the master's disk and holds. Where the master alone is
enough, it is written at once. Growing: it is written on the master's disk, then it holds, then the others are told.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ganeti.master.replication.candidates import Candidates
from ganeti.master.replication.effects import AskMembers, Effect, StoreMembership
from ganeti.master.replication.followers import Timing
from ganeti.master.replication.quorum import may_shrink
from ganeti.model.membership import Kept, Membership, Version


class Stage(Enum):
    RESERVING = "its version is written down, so that it is never used twice"
    ASKING = "candidates are asked to know it"
    STORING = "it is written on the master's disk"


@dataclass(eq=False)
class Changing:
    """The way from one membership to the next."""

    membership: Membership
    stage: Stage
    accepted: dict[str, None] = field(default_factory=dict)
    """Who knows it, the master included."""
    again_s: float = 0.0
    """When to ask again, or to write again."""
    write_failed: bool = False


class Members:
    def __init__(self, me: str, kept: Kept, candidates: Candidates, timing: Timing, *, forced: bool) -> None:
        self.membership: Membership = kept.membership
        self.changing: Changing | None = None
        self.forced = forced
        """A human has said that nobody else is master: nobody is asked."""
        self.is_writing = False
        """Something is on its way to the master's disk: one thing at a time, so that its end is not another's."""
        self.is_doubtful = kept.highest > kept.membership.version[1]
        """A master that died may have told somebody of a membership that never held: they keep it as the newest."""
        self._me = me
        self._highest = kept.highest
        self._again_s = 0.0
        self._writing_candidates = candidates.written
        self._candidates = candidates
        self._timing = timing

    def includes(self, node: str) -> bool:
        """Also of what is being written down, which may hold already."""
        if node in self.membership.members:
            return True
        return self.changing is not None and node in self.changing.membership.members

    def due_s(self) -> float | None:
        """When `poll` has something to do by the time alone."""
        changing = self.changing
        if changing is None or not (changing.stage is Stage.ASKING or changing.write_failed):
            return None
        return changing.again_s

    def check_invariants(self) -> None:
        assert self._me in self.membership.members, "the master is no member"
        assert self.membership.version[1] <= self._highest, "a version is in use that was not reserved"
        if self.changing is not None:
            assert self.changing.membership.version[1] == self._highest, "a version is used twice"

    def grow(self, joining: Sequence[str]) -> list[Effect]:
        self._highest += 1
        self.is_doubtful = False
        self.changing = Changing(self.membership.joined_by(joining, self._highest), Stage.STORING)
        return [self._store(self.changing.membership)]

    def leave_out(self, leaving: Sequence[str]) -> list[Effect]:
        """Go on without these; without nobody, say anew who is a member: others may have heard otherwise."""
        self._highest += 1
        self.is_doubtful = False
        proposal = self.membership.without(leaving, self._highest)
        changing = self.changing = Changing(proposal, Stage.RESERVING, {self._me: None})
        if not leaving or self.forced or self._is_agreed(changing):
            changing.stage = Stage.STORING
            return [self._store(proposal)]
        return [self._store(self.membership)]

    def write_candidates(self, now_s: float) -> list[Effect]:
        """Have the settled candidates written down, if they are not."""
        if self._candidates.written == self._candidates.known or now_s < self._again_s:
            return []
        return [self._store(self.membership)]

    def poll(self, now_s: float, leaving: Callable[[], Sequence[str]]) -> list[Effect]:
        """Go on with the change under way; *leaving* says who is to be left out as of now."""
        changing = self.changing
        if changing is None:
            return []
        if changing.write_failed:
            if now_s < changing.again_s:
                return []
            changing.write_failed = False
            return [self._store(changing.membership if changing.stage is Stage.STORING else self.membership)]
        if changing.stage is not Stage.ASKING:
            return []
        others = [node for node in changing.accepted if not self._loses(changing, node)]
        if not may_shrink(others, self._candidates.sets, self._candidates.former_is_known):
            # One that is left out and answers may be about to take its records: it has until the next time.
            if now_s < changing.again_s:
                return []
            gone = leaving()
            if changing.membership.members != tuple(node for node in self.membership.members if node not in gone):
                return self.leave_out(gone)
            if not self._is_agreed(changing):
                return [self._ask(changing, now_s)]
        changing.stage = Stage.STORING
        return [self._store(changing.membership)]

    def written(self, now_s: float) -> tuple[list[Effect], list[str]]:
        """What was to be stored is; gives what to do, and who is no member any more."""
        self.is_writing = False
        self._candidates.written = self._writing_candidates
        changing = self.changing
        if changing is None:
            return [], []
        if changing.stage is Stage.RESERVING:
            changing.stage = Stage.ASKING
            return [self._ask(changing, now_s)], []
        left = [node for node in self.membership.members if node not in changing.membership.members]
        self.changing = None
        self.membership = changing.membership
        told = tuple(node for node in self._candidates.newest if node not in self.membership.members)
        return ([AskMembers(self.membership, told)] if left and told else []), left

    def not_written(self, now_s: float) -> None:
        self.is_writing = False
        self._again_s = now_s + self._timing.ask_again_s
        if self.changing is not None:
            self.changing.write_failed = True
            self.changing.again_s = self._again_s

    def accepted(self, node: str, version: Version) -> None:
        if self.changing is not None and version == self.changing.membership.version:
            self.changing.accepted[node] = None

    def _loses(self, changing: Changing, node: str) -> bool:
        return node in self.membership.members and node not in changing.membership.members

    def _is_agreed(self, changing: Changing) -> bool:
        return may_shrink(changing.accepted, self._candidates.sets, self._candidates.former_is_known)

    def _ask(self, changing: Changing, now_s: float) -> Effect:
        asked: dict[str, None] = {}
        for candidates in self._candidates.sets:
            asked.update(dict.fromkeys(node for node in candidates if node not in changing.accepted))
        changing.again_s = now_s + self._timing.ask_again_s
        return AskMembers(changing.membership, tuple(asked))

    def _store(self, membership: Membership) -> Effect:
        self.is_writing = True
        self._writing_candidates = self._candidates.known
        return StoreMembership(Kept(membership, self._highest, self._writing_candidates))
