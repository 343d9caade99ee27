# SPDX-License-Identifier: BSD-2-Clause
"""Makes a failing plan short: drops steps, in ever smaller pieces, for as long as what is left still fails."""

import re
from collections.abc import Callable
from dataclasses import replace

from ganeti_simulation.plans.plan import Plan

_PARTICULAR = re.compile(r"\b(?:node|disk)?[0-9][0-9a-f.-]*\b|\(.*|\[[0-9]+\]|'[^']*'")


def kind_of(violation: str) -> str:
    """What a violation is about, whoever it happened to: a shorter plan must fail in the same way."""
    return " ".join(_PARTICULAR.sub(" ", violation.partition(": ")[0]).split()[:12])


def shrink(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """Give a failing plan that needs each of its steps; raises `ValueError` if *plan* does not fail."""
    if not fails(plan):
        raise ValueError("this plan does not fail: there is nothing to make shorter")
    size = max(1, len(plan.steps) // 2)
    while True:
        shorter = _without_a_piece(plan, size, fails)
        if shorter is not None:
            plan = shorter
            size = min(size, max(1, len(plan.steps) // 2))
        elif size > 1:
            size //= 2
        else:
            return _end_early(plan, fails)


def _without_a_piece(plan: Plan, size: int, fails: Callable[[Plan], bool]) -> Plan | None:
    for begin in range(0, len(plan.steps), size):
        shorter = plan.without(range(begin, begin + size))
        if fails(shorter):
            return shorter
    return None


def _end_early(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    last_s = max((step.at_s for step in plan.steps), default=0.0)
    shorter = replace(plan, duration_s=round(last_s + 5.0, 1))
    return shorter if shorter.duration_s < plan.duration_s and fails(shorter) else plan
