# SPDX-License-Identifier: BSD-2-Clause
"""Plans played for somebody: told as stories, made short, compared with what their files say."""

import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from ganeti_simulation.apart import WorkFailedError, each_apart
from ganeti_simulation.cluster.world import prepared
from ganeti_simulation.plans import defects as defects  # declares its steps
from ganeti_simulation.plans import replicated as replicated  # declares its steps
from ganeti_simulation.plans.campaign import violations_apart
from ganeti_simulation.plans.plan import Plan, PlanError
from ganeti_simulation.plans.player import check
from ganeti_simulation.plans.schedule import Outcome, play
from ganeti_simulation.plans.shrinking import kind_of, shrink
from ganeti_simulation.plans.stories import Scenario, Story, differences, read_scenario, tells_of_jobs


def read(path: str) -> Scenario:
    """Raises `OSError`, or `PlanError` that names the file."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        scenario = read_scenario(text)
        check(scenario.plan)
    except PlanError as err:
        raise PlanError(f"{path}: {err}") from err
    return scenario


def tell(plan: Plan, *, shrinks: bool = False) -> int:
    """Play and print; gives the exit status: 1 where something was violated."""
    if shrinks:
        violations = violations_apart(plan)
        if not violations:
            print("This plan violates nothing: there is nothing to make shorter.", file=sys.stderr)
            return 2
        kind = kind_of(violations[0])
        plan = shrink(plan, lambda shorter: kind in map(kind_of, violations_apart(shorter)))
        print(plan)
    outcome = play(plan, lambda now_s, who, sentence: print(f"{now_s:11.6f} {who}: {sentence}"))
    print(_summary(outcome))
    return 1 if outcome.violations else 0


def _summary(outcome: Outcome) -> str:
    plan = outcome.plan
    what = f"seed {plan.seed} with {plan.nodes} nodes: {outcome.jobs} jobs, {outcome.commits} commits in "
    what += f"{outcome.epochs} epochs, {outcome.simulated_s:.0f} simulated seconds, trace {outcome.trace_hash}"
    return "\n".join([what, *(f"  VIOLATION: {sentence}" for sentence in outcome.violations)])


@dataclass(frozen=True)
class _Played:
    violations: tuple[str, ...]
    story: tuple[str, ...]


def _played(scenario: Scenario) -> _Played:
    story = Story()
    outcome = play(scenario.plan, story.hear)
    return _Played(tuple(outcome.violations), tuple(story.lines))


def compare(paths: Sequence[str], jobs: int, *, rewrites: bool) -> int:
    """Play the scenarios of these files; a file without a story must give no violation only.

    A story is not written down with a violation, or in which no job runs any more.
    """
    scenarios = {path: read(path) for path in paths}
    for nodes, candidates in sorted({(each.plan.nodes, each.plan.candidates or 0) for each in scenarios.values()}):
        prepared(nodes, candidates or None)
    play_one = functools.partial(_play_path, scenarios)
    failed = written = 0
    for path, played in each_apart(play_one, list(paths), _Played, jobs):
        faults = _faults(scenarios[path], played, rewrites=rewrites)
        if faults:
            failed += 1
            print(f"{path}:", *faults, sep="\n  ", flush=True)
        elif rewrites and isinstance(played, _Played):
            written += _rewrite(path, scenarios[path], played.story)
    told = f"{failed} of {len(paths)} scenarios failed" if failed else f"{len(paths)} scenarios, all as they should be"
    print(f"{told}; {written} written: read what has changed" if written else told)
    return 1 if failed else 0


def _play_path(scenarios: dict[str, Scenario], path: str) -> _Played:
    return _played(scenarios[path])


def _faults(scenario: Scenario, played: _Played | WorkFailedError, *, rewrites: bool) -> list[str]:
    if isinstance(played, WorkFailedError):
        return [str(played)]
    faults = [f"VIOLATION: {sentence}" for sentence in played.violations]
    if scenario.story is not None and not rewrites:
        faults += differences(scenario.story, played.story)
    if rewrites and tells_of_jobs(scenario.story or ()) and not tells_of_jobs(played.story):
        faults.append("no job runs any more, so nothing is written: mend the simulator, or remove the story first")
    return faults


def _rewrite(path: str, scenario: Scenario, story: Sequence[str]) -> bool:
    """Gives whether the file has changed."""
    text = scenario.with_story(story)
    with open(path, encoding="utf-8") as file:
        if file.read() == text:
            return False
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"{path}: written")
    return True
