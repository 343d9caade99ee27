# SPDX-License-Identifier: BSD-2-Clause
"""How much cluster time one hour of CPU simulates: five nodes, all candidates, and a job every minute.

Jobs take turns: two instances are started and stopped, a limit is changed, a node waits. All daemons, copies and the
watcher run; nothing fails. Bar: 60 days. With ``--profile`` it says where the CPU goes.

    bench/simulator.py [--hours HOURS] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import report

from ganeti_simulation.cluster.world import World, prepared
from ganeti_simulation.facades import loader, stand_ins
from ganeti_simulation.plans.player import Player

NODES = 5
BAR_DAYS = 60.0
JOB_EVERY_S = 60.0
SEED = 5
TURNS = (
    "user starts one",
    "user sets limit 17",
    "user stops two",
    "user lets node3 wait",
    "user stops one",
    "user sets limit 18",
    "user starts two",
    "user lets node4 wait",
)
SHOWN = 30


def made() -> tuple[World, Player]:
    """A cluster that serves, with two running instances."""
    world = World(SEED, NODES, prepared(NODES))
    player = Player(world)
    world.start()
    assert world.run_until(lambda: world.master() is not None), "no master"
    for name, node in (("one", 2), ("two", 3)):
        player.play(f"user adds {name} on node{node}")
        world.run(JOB_EVERY_S)
    player.play("user stops one")
    world.run(JOB_EVERY_S)
    return world, player


def live(world: World, player: Player, hours: float) -> int:
    """Give how many jobs were asked for."""
    jobs = int(hours * 3600 / JOB_EVERY_S)
    for number in range(jobs):
        player.play(TURNS[number % len(TURNS)])
        world.run(JOB_EVERY_S)
    return jobs


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=4.0)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, __file__, *arguments], {**os.environ, "PYTHONHASHSEED": "0"})
    loader.install(stand_ins.PATCHES)
    world, player = made()
    told_before = len(player.ledger.accepted_jobs)
    profile = cProfile.Profile()
    if options.profile:
        profile.enable()
    begun_s, simulated_s = time.process_time(), world.now_s
    jobs = live(world, player, options.hours)
    cpu_s, simulated_s = time.process_time() - begun_s, world.now_s - simulated_s
    profile.disable()
    ended = [accepted.status for accepted in player.ledger.accepted_jobs.values()][told_before:]
    good = ended.count("success")
    assert good == jobs, f"of {jobs} jobs, {good} went well: {ended}"
    days = simulated_s / 86400 / (cpu_s / 3600)
    report("CPU per simulated job, idle time included", cpu_s / jobs * 1000, "ms")
    report("simulated time per CPU hour", days, "days", bar=f"{BAR_DAYS:g} days", met=days >= BAR_DAYS)
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(SHOWN)
    for machine in world.machines:
        machine.databases.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
