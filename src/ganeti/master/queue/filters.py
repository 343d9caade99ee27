# SPDX-License-Identifier: BSD-2-Clause
"""What job filter rules and ad-hoc rate limits say about a job (protocols, section 13).

Of the rules that match a job, the first by (priority, watermark, uuid) whose action is not CONTINUE decides; if there
is none, the job runs. Whatever the rules say, a reason `rate-limit:N:KEY` in a reason trail of the job lets at most N
jobs of that key have a process. A job that has begun, one of whose opcodes has ended, is neither paused nor rejected
any more when its process hands it back: half a job would be worse than none. Rate limits count for it as before.

A rule that cannot be read (an imported configuration may hold anything) matches nothing; `check_rule` says why,
where a rule is made.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from ganeti.base.errors import ParameterError
from ganeti.master.queue.predicates import JobTest, compile_predicate, reasons
from ganeti.model.objects import FilterRule
from ganeti.wire.job_file import FINAL_STATUSES, JobFile

Action = Literal["run", "pause", "reject"]

_ACTIONS: dict[str, Action | None] = {"ACCEPT": "run", "PAUSE": "pause", "REJECT": "reject", "CONTINUE": None}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_AD_HOC = "rate-limit:"
_LARGEST_LIMIT_DIGITS = 9
_PREDICATES_MOST = 100


class Verdict(NamedTuple):
    """What may become of a queued job; for one that has a process, *limits* say what it counts for."""

    action: Action
    limits: tuple[tuple[str, int], ...] = ()
    """(bucket, most jobs of that bucket that may have a process): all must have room."""
    rule: str | None = None
    """The uuid of the rule that decided."""


_RUN = Verdict("run")


class _Compiled(NamedTuple):
    rule: FilterRule
    tests: list[JobTest]
    action: Action | None
    """None for CONTINUE."""
    most: int | None = None
    """How many jobs may have a process, for RATE_LIMIT."""


def in_order(rules: Iterable[FilterRule]) -> list[FilterRule]:
    """The rules in the order in which they are looked at."""
    return sorted(rules, key=lambda rule: (rule.priority, rule.watermark, rule.uuid))


class Admission:
    """All rules, ready to be asked. A verdict depends on a job's id and opcodes alone: it may be kept."""

    def __init__(self, rules: Sequence[FilterRule]) -> None:
        compiled = [_compile_if_sound(rule) for rule in in_order(rules)]
        self._rules = [item for item in compiled if item is not None and item.action is not None]

    def of(self, file: JobFile) -> Verdict:
        """Decide about a job; never raises."""
        limits = _ad_hoc_limits(file)
        found = self._first_match(file) if self._rules else None
        if found is None:
            return Verdict("run", limits) if limits else _RUN
        uuid = found.rule.uuid
        if found.most is not None:
            limits = ((uuid, found.most), *limits)
        return Verdict("run" if _has_begun(file) else found.action or "run", limits, uuid)

    def rejection(self, file: JobFile) -> str:
        """The sentence for a job that `of` says is rejected: by which rule, and why there is that rule."""
        found = self._first_match(file)
        if found is None:
            return "Job rejected by a filter rule"
        said = reason_given(found.rule.reason_trail)
        return f"Job rejected by the filter rule {found.rule.uuid}" + (f" ({said})" if said else "")

    def explain(self, file: JobFile) -> str | None:
        """Say in a sentence which rule or reason holds the job back, or may; None if nothing does."""
        verdict = self.of(file)
        sentences = []
        found = self._first_match(file)
        if found is not None and (found.most is not None or found.action != "run"):
            sentences.append(_sentence(found))
        for bucket, most in _ad_hoc_limits(file):
            key = bucket.removeprefix(_AD_HOC)
            sentences.append(
                f"its reason '{_AD_HOC}{most}:{key}' lets at most {_jobs(most)} with the key '{key}' run at a time"
            )
        if not sentences:
            return None
        held = {"pause": "is held", "reject": "is rejected", "run": "may have to wait"}[verdict.action]
        return f"Job {file.id} {held}: {'; '.join(sentences)}"

    def _first_match(self, file: JobFile) -> _Compiled | None:
        for item in self._rules:
            if all(test(file) for test in item.tests):
                return item
        return None


def _has_begun(file: JobFile) -> bool:
    return any(entry.status in FINAL_STATUSES for entry in file.ops)


def reason_given(trail: Sequence[Any]) -> str:
    """What a person gave with ``--reason``, in a reason trail that may come from anywhere; nothing if nothing was."""
    for entry in trail:
        match entry:
            case ["gnt:user", str() as text, _]:
                return text
    return ""


def check_rule(rule: FilterRule) -> None:
    """Raise `ParameterError` with a sentence on the first thing that is wrong with a rule somebody wants to make."""
    if not _UUID.fullmatch(rule.uuid):
        raise ParameterError(f"'{rule.uuid}' is not the UUID of a rule: see 'gnt-filter list'; a new one needs none")
    if rule.priority < 0:
        raise ParameterError(f"The priority of a filter rule must be 0 or more, not {rule.priority}")
    if len(rule.predicates) > _PREDICATES_MOST:
        raise ParameterError(f"A filter rule may have {_PREDICATES_MOST} predicates, not {len(rule.predicates)}")
    _compile(rule)


def _compile_if_sound(rule: FilterRule) -> _Compiled | None:
    try:
        return _compile(rule)
    except (ParameterError, RecursionError):
        return None


def _compile(rule: FilterRule) -> _Compiled:
    action, most = _read_action(rule.action)
    tests = [compile_predicate(predicate, rule.watermark) for predicate in rule.predicates]
    return _Compiled(rule, tests, action, most)


def _read_action(action: Any) -> tuple[Action | None, int | None]:
    """Give what becomes of a job (None: the next rule decides) and how many may run."""
    match action:
        case str() if action in _ACTIONS:
            return _ACTIONS[action], None
        case ["RATE_LIMIT", int() as most] if not isinstance(most, bool) and 0 < most < 10**_LARGEST_LIMIT_DIGITS:
            return "run", most
        case ["RATE_LIMIT", *_] | "RATE_LIMIT":
            raise ParameterError("RATE_LIMIT needs how many jobs may run at a time, 1 or more, as in RATE_LIMIT 3")
    known = ", ".join(_ACTIONS)
    raise ParameterError(f"'{action}' is not an action of a filter rule: use {known}, or RATE_LIMIT and a number")


def _ad_hoc_limits(file: JobFile) -> tuple[tuple[str, int], ...]:
    """The limits that the reasons of a job ask for; of two for one key, the stricter."""
    found: dict[str, int] = {}
    for _, text, _ in reasons(file):
        if not isinstance(text, str) or not text.startswith(_AD_HOC):
            continue
        number, colon, key = text.removeprefix(_AD_HOC).partition(":")
        if not (colon and number.isascii() and number.isdecimal() and len(number) <= _LARGEST_LIMIT_DIGITS):
            continue
        bucket, most = _AD_HOC + key, int(number)
        if most > 0:
            found[bucket] = min(most, found.get(bucket, most))
    return tuple(found.items())


def _sentence(item: _Compiled) -> str:
    rule = item.rule
    if item.most is not None:
        does = f"lets at most {_jobs(item.most)} that match it run at a time"
    else:
        does = f"says {rule.action}"
    return f"filter rule {rule.uuid} with priority {rule.priority} {does} (see 'gnt-filter info {rule.uuid}')"


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"
