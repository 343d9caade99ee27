# SPDX-License-Identifier: BSD-2-Clause
"""``hbal --solver`` beside the usual plan: CPU seconds, moves, data to copy, score, and the bound no plan gets below.

.venv/bin/python bench/solver.py [SIZE…] [--json]        sizes of ``model_cluster``; 20x200 80x1000 80x1000u30
"""

from __future__ import annotations

import sys
import time
from functools import partial

import model_cluster
from measure import report

from ganeti.placement.balance.lower_bound import lower_bound
from ganeti.placement.balance.plan_price import total_price
from ganeti.placement.balance.solver import Solver
from ganeti.placement.balance.steps import BalanceOptions, balance
from ganeti.placement.kernel.state import ClusterState
from ganeti.tools.htools.loading import text

SIZES = ("20x200", "80x1000", "80x1000u30")
GIB_MIB = 1024
LONGEST_S = 60.0


def measure(size: str) -> None:
    """Report the figures of one cluster."""
    cluster, _ = text.read(model_cluster.to_text(model_cluster.build(size)))
    fresh = partial(ClusterState, cluster)
    state = fresh()
    members, movable = state.everyone(), [True] * len(cluster.instances)
    started_s = time.process_time()
    usual = list(balance(fresh(), members, movable, BalanceOptions()))
    usual_s = time.process_time() - started_s
    started_s = time.process_time()
    plan = Solver(fresh, members, movable, BalanceOptions()).solve()
    own_s = time.process_time() - started_s
    report(f"{size}: the usual plan", usual_s, "CPU s")
    report(f"{size}: --solver", own_s, "CPU s", bar="60", met=own_s <= LONGEST_S)
    moves, most = len(plan.steps), len(usual)
    report(f"{size}: moves", moves, "moves", bar=f"the usual {most}", met=moves <= most)
    data, before = (total_price(state, steps).total_mib / GIB_MIB for steps in (plan.steps, usual))
    report(f"{size}: data to copy", data, "GiB", bar=f"the usual {before:.1f}", met=data <= before)
    score = usual[-1].score
    report(f"{size}: score", plan.score, "", bar=f"the usual {score:.6f}", met=plan.score <= score)
    report(f"{size}: no plan gets below", lower_bound(state, members, movable), "")


if __name__ == "__main__":
    for chosen in [word for word in sys.argv[1:] if not word.startswith("--")] or SIZES:
        measure(chosen)
