# SPDX-License-Identifier: BSD-2-Clause
"""``hbal --solver``: seek the plan with progress on a terminal, and say what it costs and how good it is."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ganeti.tools.htools.haskell.figures import fixed
from ganeti.tools.htools.printing import report
from ganeti.tools.htools.printing.progress import Progress

if TYPE_CHECKING:
    from ganeti.placement.balance.plan_price import Price
    from ganeti.placement.balance.solver import Plan, Solver
    from ganeti.placement.balance.steps import Step
    from ganeti.placement.kernel.state import ClusterState
    from ganeti.tools.htools.command_line.options import Options
    from ganeti.tools.htools.loading.sources import Loaded

_GIB = 1024
_MINUTE_S, _HOUR_S = 60, 3600
_LARGE_SHARE = 100.0


def seek(options: "Options", loaded: "Loaded", members: Sequence[int]) -> "Solver":
    """Search to the end, or until an interrupt: then what was found so far is the answer."""
    from ganeti.placement.balance.solver import Solver

    progress = Progress()
    solver = Solver(loaded.state, members, loaded.movable, report.balance_options(options), tell=progress.tell)
    try:
        solver.solve()
    except KeyboardInterrupt:
        solver.interrupted = True
    finally:
        progress.end()
    return solver


def lines(state: "ClusterState", solver: "Solver", bound: float, before: float, link_mbit: float) -> Iterator[str]:
    """What the plan costs beside the usual one, how long it takes, and how far from the best it can be.

    *before* is the score at first; *bound* is one that no plan gets below.
    """
    from ganeti.placement.balance.plan_price import duration_of, total_price

    plan, usual = solver.best, solver.first
    own, other = total_price(state, plan.steps), total_price(state, usual.steps)
    yield f"Plan: {_size(own)} to copy in {_counted(len(plan.steps), 'move')}" + _beside(plan, usual, other)
    took = duration_of(state, plan.steps, link_mbit)
    yield (
        f"Time: {clock(took.one_by_one_s)} one move at a time, {clock(took.side_by_side_s)} in"
        f" {_counted(took.sets, 'job set')} whose moves run side by side (each at {link_mbit:g} Mbit/s; what is written"
        " meanwhile and has to be sent again is not counted)"
    )
    yield _quality(plan.score, bound, before)


def _beside(plan: "Plan", usual: "Plan", price: "Price") -> str:
    if plan is usual:
        return ": the usual plan, for the search found none that is cheaper"
    moves = _counted(len(usual.steps), "move")
    return f"; the usual plan copies {_size(price)} in {moves} and ends at {fixed(usual.score, 8)}"


def _quality(score: float, bound: float, before: float) -> str:
    words = f"Bound: no plan gets below {fixed(bound, 8)}, so the score is "
    if bound > 0 and (share := 100 * (score - bound) / bound) < _LARGE_SHARE:
        words += f"within {max(share, 0.0):.1f} % of the best possible"
    else:
        words += f"within {fixed(max(score - bound, 0.0), 8)} of the best possible"
    if before > bound:
        words += f", and at least {100 * (before - score) / (before - bound):.1f} % of what can be gained is gained"
    return words


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _size(price: "Price") -> str:
    """Gibibytes of disks and of memory."""
    disk, memory = price.disk_mib / _GIB, price.memory_mib / _GIB
    return f"{price.total_mib / _GIB:.1f} GiB ({disk:.1f} of disks, {memory:.1f} of memory)"


def clock(seconds: float) -> str:
    """A time as people say it."""
    if seconds < _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    return f"{seconds / _HOUR_S:.1f} h"


def step_price(state: "ClusterState", step: "Step") -> str:
    """The price of one step in a few words."""
    from ganeti.placement.balance.plan_price import price_of

    price = price_of(state, step)
    parts = [
        f"{mib / _GIB:.1f} GiB {what}" for mib, what in ((price.disk_mib, "disk"), (price.memory_mib, "memory")) if mib
    ]
    return " + ".join(parts) or "nothing"
