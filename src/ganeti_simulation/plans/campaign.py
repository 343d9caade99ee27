# SPDX-License-Identifier: BSD-2-Clause
"""Many schedules: each seed in a real process of its own, and what they add up to."""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from ganeti_simulation.apart import WorkFailedError, each_apart
from ganeti_simulation.cluster.world import prepared
from ganeti_simulation.plans.drawing import draw_plan
from ganeti_simulation.plans.plan import Plan
from ganeti_simulation.plans.schedule import play

SIZES = (3, 5, 7)
_SENTENCES_AT_MOST = 5
_LETTERS_AT_MOST = 1500


@dataclass(frozen=True)
class Result:
    """What became of one schedule."""

    simulated_s: float = 0.0
    cpu_s: float = 0.0
    jobs: int = 0
    epochs: int = 0
    trace_hash: str = ""
    violations: tuple[str, ...] = ()


def size_of(seed: int, nodes: int | None) -> int:
    """How many nodes the cluster of a seed has, where nobody says."""
    return nodes or SIZES[seed % len(SIZES)]


def result_of(plan: Plan) -> Result:
    """Play *plan* in this process."""
    begun_s = time.process_time()
    outcome = play(plan)
    return Result(
        outcome.simulated_s,
        time.process_time() - begun_s,
        outcome.jobs,
        outcome.epochs,
        outcome.trace_hash,
        tuple(sentence[:_LETTERS_AT_MOST] for sentence in outcome.violations[:_SENTENCES_AT_MOST]),
    )


def violations_apart(plan: Plan) -> tuple[str, ...]:
    """Play in a process of its own; a simulation that fails itself is a violation, too."""
    return next(_results([plan], 1))[1].violations


def run_campaign(seeds: Iterable[int], nodes: int | None, jobs: int, *, failures_at_most: int | None) -> bool:
    """Play all or until so many have failed, tell what fails and what was done; gives whether nothing failed."""
    plans = [draw_plan(seed, size_of(seed, nodes)) for seed in seeds]
    for size, candidates in sorted({(plan.nodes, plan.candidates or 0) for plan in plans}):
        prepared(size, candidates or None)
    begun_s = time.monotonic()
    results: dict[int, Result] = {}
    failed = 0
    for plan, result in _results(plans, jobs):
        results[plan.seed] = result
        if result.violations:
            failed += 1
            print(f"seed {plan.seed} with {plan.nodes} nodes:", *result.violations, sep="\n  ", flush=True)
            if failed == failures_at_most:
                print(f"{failed} failed: that is enough (--keep-going plays the others, too).", file=sys.stderr)
                break
    print(_told(results, failed, time.monotonic() - begun_s))
    return not failed


def _results(plans: Sequence[Plan], jobs: int) -> Iterator[tuple[Plan, Result]]:
    for plan, result in each_apart(result_of, plans, Result, jobs):
        yield plan, Result(violations=(str(result),)) if isinstance(result, WorkFailedError) else result


def _told(results: dict[int, Result], failed: int, took_s: float) -> str:
    every = [results[seed] for seed in sorted(results)]
    digest = blake2b("".join(result.trace_hash for result in every).encode(), digest_size=16).hexdigest()
    return (
        f"{len(every)} schedules, {failed} with violations; {sum(result.jobs for result in every)} jobs, "
        f"{sum(result.epochs - 1 for result in every if result.epochs)} changes of master; "
        f"{sum(result.simulated_s for result in every) / 86400:.2f} simulated days in "
        f"{sum(result.cpu_s for result in every):.0f} s of CPU, {took_s:.0f} s; "
        f"trace {digest}"
    )
