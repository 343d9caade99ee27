# SPDX-License-Identifier: BSD-2-Clause
"""The simulator's command line: many seeds in processes of their own, one seed with its story, scenarios, shrinking."""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ganeti.simulation import loader, stand_ins
from ganeti.simulation.drawing import draw_plan
from ganeti.simulation.plan import Plan, parse
from ganeti.simulation.schedule import Outcome, play

_HASH_SEED = "0"


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:  # the order of sets of words must be the same in every run
        environment = {**os.environ, "PYTHONHASHSEED": _HASH_SEED}
        os.execve(sys.executable, [sys.executable, "-m", "ganeti.simulation", *arguments], environment)  # noqa: S606
    loader.install(stand_ins.PATCHES)
    if options.plan:
        with open(options.plan, encoding="utf-8") as file:
            return _tell(parse(file.read()), options.shrink)
    if options.seed is not None:
        return _tell(draw_plan(options.seed, options.nodes or 3), options.shrink)
    return _campaign(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ganeti.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="play one seed and tell its story")
    parser.add_argument("--seeds", default="1-100", help="which seeds to play: 1-500, or 7")
    parser.add_argument("--nodes", type=int, help="size of the cluster; without it 3, 5 and 7 in turn")
    parser.add_argument("--plan", help="a file with a plan")
    parser.add_argument("--shrink", action="store_true", help="make a failing plan as short as it can be")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once")
    parser.add_argument("--keep-going", action="store_true", help="do not end with the tenth failure")
    return parser


def _tell(plan: Plan, shrinks: bool) -> int:
    if shrinks:
        from ganeti.simulation.shrinking import shrink

        plan = shrink(plan, lambda candidate: bool(_apart(candidate)))
        print(plan)
    outcome = play(plan, lambda now_s, who, sentence: print(f"{now_s:11.6f} {who}: {sentence}"))
    print(_summary(outcome))
    return 1 if outcome.violations else 0


def _apart(plan: Plan) -> list[str]:
    """Play in a process of its own; gives the violations."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        try:
            text = "\n".join(play(plan).violations)
        except BaseException as err:
            text = f"the simulation itself failed: {type(err).__name__}: {err}"
        os.write(write_end, text.encode()[:60000])
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8") as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    return text.splitlines()


def _summary(outcome: Outcome) -> str:
    plan = outcome.plan
    what = f"seed {plan.seed} with {plan.nodes} nodes: {outcome.jobs} jobs, {outcome.commits} commits in "
    what += f"{outcome.epochs} epochs, {outcome.simulated_s:.0f} simulated seconds, trace {outcome.trace_hash}"
    return "\n".join([what, *(f"  VIOLATION: {sentence}" for sentence in outcome.violations)])


@dataclass(frozen=True)
class _Result:
    seed: int
    nodes: int
    simulated_s: float
    cpu_s: float
    jobs: int
    epochs: int
    violations: tuple[str, ...]


def _campaign(options: argparse.Namespace) -> int:
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    sizes = [options.nodes] if options.nodes else [3, 5, 7]
    from ganeti.simulation.world import prepared

    for nodes in sizes:
        prepared(nodes)
    wanted = [(seed, sizes[seed % len(sizes)]) for seed in seeds]
    begun_s = time.monotonic()
    results = []
    failed = 0
    for result in _many(wanted, options.jobs):
        results.append(result)
        if result.violations:
            failed += 1
            print(f"seed {result.seed} with {result.nodes} nodes:", *result.violations, sep="\n  ", flush=True)
            if failed >= 10 and not options.keep_going:
                break
    simulated_s, cpu_s = sum(each.simulated_s for each in results), sum(each.cpu_s for each in results)
    days = simulated_s / 86400
    print(
        f"{len(results)} schedules, {failed} with violations; {sum(each.jobs for each in results)} jobs, "
        f"{sum(each.epochs - 1 for each in results if each.epochs)} changes of master; {days:.2f} simulated days in "
        f"{cpu_s:.0f} s of CPU, {time.monotonic() - begun_s:.0f} s"
    )
    return 1 if failed else 0


def _many(wanted: list[tuple[int, int]], at_once: int) -> Iterator[_Result]:
    """Play each in a process of its own, *at_once* at a time."""
    import msgspec

    running: dict[int, tuple[int, int, int]] = {}
    queue = list(reversed(wanted))
    while queue or running:
        while queue and len(running) < at_once:
            seed, nodes = queue.pop()
            read_end, write_end = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(read_end)
                os.write(write_end, msgspec.json.encode(_one(seed, nodes)))
                os._exit(0)
            os.close(write_end)
            running[pid] = (read_end, seed, nodes)
        pid, status = os.wait()
        read_end, seed, nodes = running.pop(pid)
        with os.fdopen(read_end, "rb") as stream:
            raw = stream.read()
        if status or not raw:
            yield _Result(seed, nodes, 0.0, 0.0, 0, 0, (f"the simulation itself ended with {status}",))
        else:
            yield msgspec.json.decode(raw, type=_Result)


def _one(seed: int, nodes: int) -> _Result:
    import traceback

    begun_s = time.process_time()
    try:
        outcome = play(draw_plan(seed, nodes))
    except BaseException as err:
        told = "".join(traceback.format_exception(err))[-1500:]
        return _Result(seed, nodes, 0.0, 0.0, 0, 0, (f"the simulation itself failed: {told}",))
    return _Result(
        seed,
        nodes,
        outcome.simulated_s,
        time.process_time() - begun_s,
        outcome.jobs,
        outcome.epochs,
        tuple(outcome.violations[:5]),
    )
