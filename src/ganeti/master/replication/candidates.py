# SPDX-License-Identifier: BSD-2-Clause
"""Who the master candidates are, for quorums: what they were counts too until every member knows what they will be."""

from collections.abc import Iterable, Mapping

from ganeti.model.membership import Kept


class Candidates:
    def __init__(self, kept: Kept, newest: Mapping[str, str], last: int) -> None:
        """*newest* (UUID to name) is what the newest record, *last*, has."""
        self.settled: tuple[str, ...] = kept.candidates or tuple(newest)
        self.written = kept.candidates
        """What of `known` is on the master's disk."""
        self._unknown_until = 0 if kept.candidates else last
        """Members without this record may count by a former set, of which nothing is known here."""
        self._names = dict(newest)
        self._pending: list[tuple[int, tuple[str, ...]]] = []
        self.change(last, newest)

    @property
    def newest(self) -> tuple[str, ...]:
        return self._pending[-1][1] if self._pending else self.settled

    @property
    def changed_at(self) -> int:
        """The record that made the newest, 0 if all members know it."""
        return self._pending[-1][0] if self._pending else 0

    @property
    def sets(self) -> list[tuple[str, ...]]:
        """All that quorums must be reached under."""
        return [self.settled, *(candidates for _, candidates in self._pending)]

    @property
    def known(self) -> tuple[str, ...]:
        """What is to be written on the master's disk; nothing while `settled` is a guess."""
        return self.settled if self.former_is_known else ()

    @property
    def former_is_known(self) -> bool:
        """Whether no member has another set than these; if one may, it differs by one node."""
        return not self._unknown_until

    def may_become(self, candidates: Iterable[str]) -> bool:
        """Whether a record may make these the candidates: one more or one less, once all members know the former."""
        new = tuple(candidates)
        if frozenset(new) == frozenset(self.newest):
            return True
        return self.former_is_known and not self._pending and self.differ(new) == 1

    def differ(self, candidates: Iterable[str]) -> int:
        """How many nodes would become candidates or cease to be any."""
        return len(frozenset(candidates) ^ frozenset(self.newest))

    def change(self, number: int, candidates: Mapping[str, str]) -> None:
        """From record *number* on, these are the candidates."""
        self._names.update(candidates)
        if tuple(candidates) != self.newest:
            self._pending.append((number, tuple(candidates)))

    def settle(self, released: int) -> None:
        """All members have all records up to this one."""
        if released >= self._unknown_until:
            self._unknown_until = 0
        while self._pending and self._pending[0][0] <= released:
            self.settled = self._pending.pop(0)[1]

    def name(self, node: str) -> str:
        return self._names.get(node, node)
