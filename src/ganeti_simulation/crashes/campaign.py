# SPDX-License-Identifier: BSD-2-Clause
"""Plays operations with all their crashes, and judges what is left of each (issue 4).

*done*: as after the undisturbed play. *clean*: as before it. Anything else is a violation, and so is an end of which
the user was told something else, be it in the words of the job's result. Guests on a machine that has lost power are
left out of the comparison. An operation whose job died may be done although the job says that it failed; and what
cannot be undone is named by an undo record, which `gnt-cluster verify` shows. A guest that should run and does not,
after a job that failed, is started by the watcher, as after any crash.
"""

import functools
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ganeti_simulation.apart import WorkFailedError, each_apart
from ganeti_simulation.cluster.world import prepared
from ganeti_simulation.crashes.branches import Branched, play_branches, play_drawn
from ganeti_simulation.crashes.cases import CASES, Case
from ganeti_simulation.crashes.points import NODES, Crash, Ending, Point, play
from ganeti_simulation.plans.plan import PlanError

VICTIMS: Final = ("job", "ganeti-luxid", "ganeti-wconfd", "ganeti-noded", "node", "master", "master for good")
_TOGETHER: Final = 100
"""So many crashes share one way to them."""
_FEW: Final = 100
"""From this distance on, the few crashes of a case are drawn on the way of its undisturbed play."""
_GUEST: Final = re.compile(r"guest .* on (.*)")
_CRASH: Final = re.compile(r"[0-9]{1,6}:(" + "|".join(VICTIMS) + ")")
_INSTANCE: Final = re.compile(r'instances .*"name": "(.*?)"')
_THERE: Final = re.compile(r"instance ([^ ]*) is there")
_GONE: Final = re.compile(r"there is no instance ([^ ';,]*)")
_NO_TRACE: Final = re.compile("nothing to undo|changed nothing|(?<!its later )steps were undone")
_MISSING_GUEST: Final = re.compile(r"- guest (.*) on .*")


@dataclass
class Tally:
    """What came of the plays of one case."""

    case: Case
    points: int = 0
    runs: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    examples: dict[str, Crash] = field(default_factory=dict)
    """The first crash of each verdict."""

    def __str__(self) -> str:
        runs, verdicts = (_counted(each) for each in (self.runs, self.verdicts))
        head = f"{self.case.name}: {self.points} points, {self.runs.total()} plays ({runs}): {verdicts}; "
        unusual = [
            f"{verdict}, such as {self.case.name}:{crash.point.number}:{crash.victim}"
            for verdict, crash in self.examples.items()
            if verdict not in ("done", "clean")
        ]
        return "\n  ".join([f"{head}{len(self.violations)} violations", *unusual, *self.violations])


def _counted(things: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in things.items())


def crashes_of(points: Sequence[Point], every: int, first: int = 0) -> Iterator[Crash]:
    """What to play; with *every* above one a sample, the same each time: *first* says where it begins."""
    for point in points:
        for index, victim in enumerate(VICTIMS):
            concerns_node = point.process == "ganeti-noded"
            if (
                (victim == "job" and not point.has_job)
                or (victim == "ganeti-noded" and not concerns_node)
                or (victim == "node" and (not concerns_node or point.machine == "node1.example.com"))
                or (point.number * len(VICTIMS) + index - first) % every
            ):
                continue
            yield Crash(point, victim)


def verdict_of(
    before: Sequence[str], after: Sequence[str], ending: Ending, *, stops_first: bool = False
) -> tuple[str, list[str]]:
    """Whether *ending* is ``done`` or ``clean``, and what is wrong with it."""
    wrong = list(ending.violations)
    lost = set(ending.rebooted)

    def still(state: Sequence[str]) -> list[str]:
        return [line for line in state if not ((match := _GUEST.fullmatch(line)) and match[1] in lost)]

    found, done, clean = still(ending.state), still(after), still(before)
    succeeded = all(
        status == "success" for status in ending.statuses or [ending.told or ""]
    )  # jobs that it submitted, too
    if found == done and (succeeded or done != clean):
        verdict = "done" if succeeded else "done although it failed"
    elif found == clean:
        verdict = "clean"
    elif stops_first and not succeeded and found == _stopped(clean):
        verdict = "stopped only"
    elif not succeeded and _watched(found, clean):
        verdict = "clean once the watcher has been there"
    elif not succeeded and _watched(found, done):
        verdict = "done once the watcher has been there"
    else:
        verdict = "neither"
        wanted = clean if len(_apart(found, clean)) < len(_apart(found, done)) else done
        if not ending.named:
            wrong.append(f"neither done nor clean (jobs {ending.statuses}): {'; '.join(_apart(found, wanted))[:700]}")
        else:
            verdict = "named by an undo record"
    if succeeded and found != done:
        wrong.append("the user got a success, and it is not done")
    return verdict, wrong + _untrue(ending.result, ending.state, verdict)


def _untrue(result: str, state: Sequence[str], verdict: str) -> list[str]:
    """What the result of a job says of the work it did, where that is not so."""
    names = {match[1] for line in state if (match := _INSTANCE.match(line))}
    wrong = [f"the result says that {name} is there" for name in _THERE.findall(result) if name not in names]
    wrong += [f"the result says that there is no {name}" for name in _GONE.findall(result) if name in names]
    if verdict == "done although it failed" and _NO_TRACE.search(result):
        wrong.append(f"the result says that nothing was left, and it is done: {result}")
    return wrong


def _stopped(state: Sequence[str]) -> list[str]:
    """*state* with all its guests stopped by wish."""
    lines = [line for line in state if not _GUEST.fullmatch(line)]
    changes = (('"admin_state": "up"', '"admin_state": "down"'), ('"disks_active": true', '"disks_active": false'))
    for old, new in changes:
        lines = [line.replace(old, new) if line.startswith("instances ") else line for line in lines]
    return sorted(lines)


def _watched(found: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether nothing is missing but guests of instances that should run: the watcher starts them."""
    missing = _apart(found, wanted)
    running = "".join(line for line in found if line.startswith("instances ") and '"admin_state": "up"' in line)
    return all((match := _MISSING_GUEST.fullmatch(line)) and f'"{match[1]}"' in running for line in missing)


def _apart(found: Sequence[str], wanted: Sequence[str]) -> list[str]:
    more, less = Counter(found) - Counter(wanted), Counter(wanted) - Counter(found)
    return [*(f"+ {line}" for line in more), *(f"- {line}" for line in less)]


def undisturbed(case: Case) -> Ending:
    """How *case* goes by itself, in a process of its own. Raises `WorkFailedError` where it fails by itself."""
    ((_, calm),) = each_apart(lambda _: play(case), [None], Ending, 1)
    if isinstance(calm, WorkFailedError):
        raise calm
    return _succeeded(calm)


def _succeeded(calm: Ending) -> Ending:
    """Raises `WorkFailedError` where it did not."""
    if calm.violations or calm.told != "success":
        raise WorkFailedError(f"it fails undisturbed: {calm.told} {calm.result}, {'; '.join(calm.violations)}")
    return calm


def play_case(case: Case, every: int, at_once: int) -> Tally:
    """Play *case* with all its crashes, or with a sample of them."""
    tally = Tally(case)
    first = zlib.crc32(case.name.encode()) % every  # so that samples of all cases have each victim
    try:
        if every >= _FEW and at_once == 1:
            calm, endings = _drawn(case, every, first)
        else:
            calm = undisturbed(case)
            endings = _endings(case, list(crashes_of(calm.points, every, first)), at_once)
    except WorkFailedError as err:
        tally.violations.append(f"{case.name}: {err}")
        return tally
    tally.points = len(calm.points)
    for crash, ending in endings:
        tally.runs[crash.victim] += 1
        where = f"{case.name}, {crash.victim} at {crash.point}"
        if isinstance(ending, WorkFailedError):
            tally.violations.append(f"{where}: {ending}")
            continue
        verdict, wrong = verdict_of(calm.before, calm.state, ending, stops_first=case.stops_first)
        tally.verdicts[verdict] += 1
        tally.examples.setdefault(verdict, crash)
        tally.violations += [f"{where}: {sentence}" for sentence in wrong]
    return tally


def _drawn(case: Case, every: int, first: int) -> tuple[Ending, Iterator[tuple[Crash, Ending | WorkFailedError]]]:
    """The undisturbed play, and what a sample of crashes that branch off it comes to. Raises `WorkFailedError`."""

    def work(_: None) -> Branched:
        return play_drawn(case, lambda point: crashes_of([point], every, first))

    ((_, outcome),) = each_apart(work, [None], Branched, 1)
    if isinstance(outcome, WorkFailedError):
        raise outcome
    assert outcome.whole is not None
    endings = ((crash, outcome.ending(index)) for index, crash in enumerate(outcome.drawn))
    return _succeeded(outcome.whole), endings


def _endings(case: Case, crashes: Sequence[Crash], at_once: int) -> Iterator[tuple[Crash, Ending | WorkFailedError]]:
    """What each crash comes to, by points; so many processes go the way to them *at_once*."""
    length = min(_TOGETHER, max(1, -(-len(crashes) // at_once)))
    pieces = [crashes[begin : begin + length] for begin in range(0, len(crashes), length)]
    work = functools.partial(play_branches, case)
    outcomes = {piece[0]: outcome for piece, outcome in each_apart(work, pieces, Branched, at_once)}
    for piece in pieces:
        outcome = outcomes[piece[0]]
        for index, crash in enumerate(piece):
            yield crash, outcome if isinstance(outcome, WorkFailedError) else outcome.ending(index)


def tell_crash(case: Case, number: int, victim: str) -> int:
    """Tell the story of one play."""
    calm = undisturbed(case)
    if number >= len(calm.points):
        raise PlanError(f"{case.name} has no point {number}: its last one is {len(calm.points) - 1}")
    crash = Crash(calm.points[number], victim)
    ending = play(case, crash, lambda now_s, who, sentence: print(f"{now_s:11.6f} {who}: {sentence}"))
    verdict, wrong = verdict_of(calm.before, calm.state, ending, stops_first=case.stops_first)
    print(f"{verdict}; told {ending.told}, jobs {ending.statuses}", *wrong, sep="\n  ")
    return 1 if wrong else 0


def run(names: Sequence[str], every: int, at_once: int) -> int:
    """Play the cases called *names*, or all; CASE:POINT:VICTIM tells the story of one play. Gives an exit status.

    Raises `PlanError` for a name that is none.
    """
    known = {case.name: case for case in CASES}
    for name in names:
        case_name, _, crash = name.partition(":")
        if case_name not in known or (crash and (len(names) > 1 or not _CRASH.fullmatch(crash))):
            raise PlanError(f"'{name}' is no operation to interrupt: write one of {', '.join(known)}")
    prepared(NODES)  # before anything is forked
    if len(names) == 1 and names[0].count(":") == 2:
        name, number, victim = names[0].split(":")
        return tell_crash(known[name], int(number), victim)
    status = 0
    for case in [known[name] for name in names] or CASES:
        tally = play_case(case, every, at_once)
        print(tally, flush=True)
        status = status or bool(tally.violations)
    return int(status)
