# SPDX-License-Identifier: BSD-2-Clause
"""The tags that allow repairs and keep their state (spec: htools, 14; protocols, 26).

A run of harep remembers nothing: what was begun, and how it ended, stands in the tags of the instance alone.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ganeti.base.errors import ParameterError

PREFIX = "ganeti:watcher:autorepair:"
FIX_STORAGE, MIGRATE, FAILOVER, REINSTALL = TYPES = ("fix-storage", "migrate", "failover", "reinstall")
"""The kinds of repair, the mildest first; who allows one allows those before it."""
SUCCESS, FAILURE, NO_PERMISSION = RESULTS = ("success", "failure", "enoperm")
_SUSPENDED = re.compile(r"suspend(?::(\d+))?")


@dataclass(frozen=True)
class Policy:
    """What may be done to an instance: repairs up to *allowed*; none if that is empty, as *reason* says."""

    allowed: str = ""
    reason: str = "ArNotEnabled"


@dataclass(frozen=True)
class Repair:
    """One repair of an instance: its kind, id, start or end (seconds since 1970), result (empty: pending), its jobs."""

    kind: str
    uuid: str
    moment_s: int
    result: str
    jobs: Sequence[int]

    @property
    def tag(self) -> str:
        end = f":{self.result}" if self.result else ""
        word = "result" if self.result else "pending"
        jobs = "+".join(map(str, self.jobs))
        return f"{PREFIX}{word}:{self.kind}:{self.uuid}:{self.moment_s}{end}:{jobs}"


@dataclass(frozen=True)
class State:
    """Where an instance stands: its latest repair, None if there was none, and the tags that told it, newest first."""

    latest: Repair | None = None
    tags: Sequence[str] = ()

    @property
    def is_pending(self) -> bool:
        return self.latest is not None and not self.latest.result

    @property
    def has_failed(self) -> bool:
        return self.latest is not None and self.latest.result == FAILURE


def policy(levels: Iterable[Iterable[str]], now_s: float) -> Policy:
    """What the tags of an instance, its group and its cluster allow; the nearest that say anything decide.

    Of several in one place the mildest counts, and one that suspends more than any other.
    """
    for tags in levels:
        words = [tag.removeprefix(PREFIX) for tag in tags if tag.startswith(PREFIX)]
        ends = [match.group(1) for match in map(_SUSPENDED.fullmatch, words) if match]
        if None in ends:
            return Policy(reason="ArSuspended Forever")
        if (until_s := max(map(int, filter(None, ends)), default=0)) > now_s:
            return Policy(reason=f"ArSuspended (Until {_moment(until_s)})")
        allowed = [kind for kind in TYPES if kind in words]
        if allowed:
            return Policy(allowed[0], "")
    return Policy()


def _moment(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%a %b %e %H:%M:%S UTC %Y")
    except (ValueError, OverflowError):
        return f"{seconds} s after 1970"


def state(instance: str, tags: Iterable[str]) -> State:
    """Where an instance stands by its tags; raises `ParameterError` for a repair that began before another had ended.

    Repairs follow each other by their first tag; a failure stays, whatever came later.
    """
    by_uuid: dict[str, list[tuple[Repair, str]]] = {}
    for tag in tags:
        if (found := _read(tag)) is not None:
            by_uuid.setdefault(found.uuid, []).append((found, tag))
    repairs = [sorted(entries, key=_age) for entries in by_uuid.values()]
    merged = State()
    for entries in sorted(repairs, key=lambda entries: _age(entries[0])):
        merged = _followed(instance, merged, entries)
    return merged


def _age(entry: tuple[Repair, str]) -> tuple[int, bool, str]:
    repair, tag = entry
    return repair.moment_s, bool(repair.result), tag


def _followed(instance: str, before: State, entries: Sequence[tuple[Repair, str]]) -> State:
    repair, tag = entries[-1]
    if before.is_pending:
        raise ParameterError(
            f"when parsing auto-repair tags: An unfinished repair was found in instance {instance}: found tag"
            f' "{tag}", but older pending tag "{before.tags[0]}" exists.'
        )
    failures = [entry for entry, _ in entries if entry.result == FAILURE]
    latest = before.latest if before.has_failed else failures[-1] if failures else repair
    return State(latest, (*(tag for _, tag in entries[::-1]), *before.tags))


def _read(tag: str) -> Repair | None:
    """The repair a tag tells of; None for any other tag, and for one that cannot be read."""
    word, _, rest = tag.removeprefix(PREFIX).partition(":")
    parts = rest.split(":")
    if not tag.startswith(PREFIX) or (word, len(parts)) not in (("pending", 4), ("result", 5)):
        return None
    kind, uuid, moment, *result, jobs = parts
    numbers = jobs.split("+") if jobs else []
    known = kind in TYPES and all(each in RESULTS for each in result)
    if not known or not uuid or not all(_is_number(each) for each in (moment, *numbers)):
        return None
    return Repair(kind, uuid, int(moment), "".join(result), [int(number) for number in numbers])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def ended(repair: Repair, result: str, now_s: float) -> Repair:
    """The repair with its result."""
    return replace(repair, result=result, moment_s=int(now_s))
