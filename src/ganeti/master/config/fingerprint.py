# SPDX-License-Identifier: BSD-2-Clause
"""By what WConfD knows a `config.data` as its own, at a cost that does not grow with the cluster (D6).

The fingerprint of `wire/config_fingerprint.py`, kept up: a change subtracts what was and adds what is.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ganeti.master.config.records import Commit, ObjectKey
from ganeti.model.objects import Plain
from ganeti.wire.config_fingerprint import UNREADABLE, fingerprint_of, summand, total_text

__all__ = ["UNREADABLE", "Fingerprint", "fingerprint_of"]

_VARYING = ("serial_no", "mtime")


class Fingerprint:
    """Of a configuration that is changed commit by commit."""

    def __init__(self, header: Plain, fragments: Mapping[ObjectKey, bytes]) -> None:
        self.reset(header, fragments)

    def reset(self, header: Plain, fragments: Mapping[ObjectKey, bytes]) -> None:
        constant = {key: value for key, value in header.items() if key not in _VARYING}
        self._header_sum = sum(summand("", key, msgspec.json.encode(value)) for key, value in constant.items())
        self._by_object = {key: summand(*key, data) for key, data in fragments.items()}
        self._sum = sum(self._by_object.values())

    def apply(self, commit: Commit) -> None:
        """Take over a commit that does not replace everything."""
        self._sum += _difference(commit, self._by_object, self._by_object)
        for key in commit.removes:
            del self._by_object[key]

    @property
    def objects(self) -> Iterable[ObjectKey]:
        """Those it is made of."""
        return self._by_object.keys()

    def now(self, serial: int, mtime_s: float) -> str:
        """As of the last commit applied; its serial number and time stand in the file too."""
        return self.with_times(self._sum, serial, mtime_s)

    def after(self, commits: Iterable[Commit]) -> Iterator[str]:
        """What the fingerprint would be after each of these commits, one upon the other; nothing is taken over."""
        total, changed = self._sum, dict[ObjectKey, int]()
        for commit in commits:
            total += _difference(commit, changed, self._by_object)
            yield self.with_times(total, commit.position[1], commit.time_s)

    @property
    def total(self) -> int:
        return self._sum

    @property
    def numbers(self) -> Mapping[ObjectKey, int]:
        """What each object adds to it."""
        return self._by_object

    def with_times(self, total: int, serial: int, mtime_s: float) -> str:
        total += self._header_sum + summand("", "serial_no", msgspec.json.encode(serial))
        return total_text(total + summand("", "mtime", msgspec.json.encode(mtime_s)))


class Ahead:
    """Fingerprints of commits that are not applied to *base* yet, each upon the one before."""

    def __init__(self, base: Fingerprint) -> None:
        self._base = base
        self._changed: dict[ObjectKey, int] = {}
        self._total: int | None = None

    def sign(self, commits: Iterable[Commit]) -> list[str]:
        """Take over *commits*; gives the fingerprint after each."""
        total = self._base.total if self._total is None else self._total
        digests = []
        for commit in commits:
            total += _difference(commit, self._changed, self._base.numbers)
            digests.append(self._base.with_times(total, commit.position[1], commit.time_s))
        self._total = total
        return digests

    def holds(self, key: ObjectKey) -> bool:
        """Whether there is this object after what was taken over."""
        return (self._changed[key] if key in self._changed else self._base.numbers.get(key, 0)) != 0

    def reset(self, commits: Iterable[Commit] = ()) -> None:
        """Begin again at the base, with *commits* upon it."""
        self._changed = {}
        self._total = None
        self.sign(commits)


def _difference(commit: Commit, changed: dict[ObjectKey, int], before: Mapping[ObjectKey, int]) -> int:
    """What the commit adds to the sum. Its numbers go into *changed*, which covers *before*; a removed one is 0."""
    difference = 0
    new = [((put.kind, put.uuid), summand(put.kind, put.uuid, put.data)) for put in commit.puts]
    for key, number in [*new, *((key, 0) for key in commit.removes)]:
        old = changed[key] if key in changed else before.get(key, 0)
        changed[key] = number
        difference += number - old
    return difference
