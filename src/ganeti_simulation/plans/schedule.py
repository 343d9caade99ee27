# SPDX-License-Identifier: BSD-2-Clause
"""One simulated schedule: a plan played on a cluster, everything mended, and everything checked."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ganeti_simulation.cluster.world import World, prepared
from ganeti_simulation.plans import defects as defects  # declares its steps
from ganeti_simulation.plans import replicated as replicated  # declares its steps
from ganeti_simulation.plans.checkers import Checkers
from ganeti_simulation.plans.plan import Plan
from ganeti_simulation.plans.player import Player

_BEGIN_S = 60.0
_REST_S = 900.0
_LOOK_EVERY_S = 0.5


@dataclass
class Outcome:
    plan: Plan
    violations: list[str] = field(default_factory=list)
    trace_hash: str = ""
    simulated_s: float = 0.0
    jobs: int = 0
    commits: int = 0
    epochs: int = 0


def play(plan: Plan, listener: Callable[[float, str, str], None] | None = None) -> Outcome:
    """Play *plan*; *listener* is told the story as it happens."""
    image = prepared(plan.nodes, plan.candidates)
    world = World(plan.seed, plan.nodes, image, plan.candidates)
    if listener is not None:
        world.kernel.listeners.append(listener)
    player = Player(world)
    checkers = Checkers(world, player)
    try:
        _play(plan, world, player, checkers)
    finally:
        for machine in world.machines:
            machine.databases.close()
    return Outcome(
        plan,
        checkers.violations,
        world.kernel.trace_hash,
        world.kernel.now_s,
        len(player.ledger.accepted_jobs),
        len(checkers.acknowledged),
        len({epoch for epoch, _ in checkers.acknowledged}),
    )


def _play(plan: Plan, world: World, player: Player, checkers: Checkers) -> None:
    kernel = world.kernel
    world.start()
    if not world.run_until(lambda: world.master() is not None, _BEGIN_S):
        checkers.violated("the cluster has no master after it was switched on")
        return
    begun_s = kernel.now_s

    def look() -> None:
        checkers.look()
        kernel.after(_LOOK_EVERY_S, look)

    look()
    for step in plan.steps:
        kernel.at(begun_s + step.at_s, lambda step=step: player.play(step.what))  # type: ignore[misc]
    kernel.run(begun_s + plan.duration_s, lambda: bool(checkers.violations))
    if checkers.violations:
        return
    kernel.tell("plan", "everything is mended")
    player.settle()
    if not player.watching:
        player.watching = True
        player.watch()
    end_s = kernel.now_s + _REST_S
    while kernel.now_s < end_s and not checkers.violations:
        kernel.run(kernel.now_s + 1.0)
        if checkers.at_rest():
            break
    else:
        for reason in checkers.why_not_at_rest():
            checkers.violated(f"no rest within {_REST_S:g} seconds: {reason}")
        return
    checkers.check_at_rest()
