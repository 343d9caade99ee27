# SPDX-License-Identifier: BSD-2-Clause
"""Which steps of a plan may run side by side: those that share no node (spec: htools, 6)."""

from collections.abc import Sequence

from ganeti.placement.balance.steps import Step
from ganeti.placement.kernel.state import NOWHERE


def nodes_of(step: Step) -> frozenset[int]:
    """The nodes a step is about: those of its instance before and after."""
    return frozenset((*step.before, *step.after)) - {NOWHERE}


def job_sets(steps: Sequence[Step]) -> list[list[Step]]:
    """Group *steps* into sets that run one after the other.

    As in 3.1 grouping runs from the last step backwards: a step joins the set in front of it unless it shares a node.
    """
    sets: list[list[Step]] = []
    busy: set[int] = set()
    for step in reversed(steps):
        own = nodes_of(step)
        if not sets or busy & own:
            sets.insert(0, [])
            busy = set()
        sets[0].insert(0, step)
        busy |= own
    return sets
