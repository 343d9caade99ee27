# SPDX-License-Identifier: BSD-2-Clause
"""Plays production code on simulated machines: random schedules by their seeds, scenarios by their files.

The same seed tells the same story, and ends with the same trace. See docs/simulator.md.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from ganeti_simulation.facades import loader, mutations
from ganeti_simulation.plans.plan import Plan, PlanError

_HASH_SEED = "0"
_SIZES = range(2, 21)
_SEEDS_AT_MOST = 10_000_000
_ENOUGH = 10


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{message[:1].upper()}{message[1:]}; --help says what there is.\n")


def main(arguments: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    sentence = _contradiction(options)
    if sentence:
        parser.error(sentence)
    if options.mutations:
        for mutation in mutations.MUTATIONS.values():
            print(f"{mutation.name}: {mutation.rule}")
        return 0
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:  # the order of sets of words must be the same in every run
        environment = {**os.environ, "PYTHONHASHSEED": _HASH_SEED}
        os.execve(sys.executable, [sys.executable, "-m", "ganeti_simulation", *arguments], environment)  # noqa: S606
    loader.install(mutations.patches_with(options.mutation))
    try:
        return _act(options)
    except (PlanError, OSError) as err:
        print(_sentence(err), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


def _act(options: argparse.Namespace) -> int:
    from ganeti_simulation.crashes import campaign as crash_campaign
    from ganeti_simulation.plans import printing
    from ganeti_simulation.plans.campaign import run_campaign, size_of
    from ganeti_simulation.plans.drawing import draw_plan

    if options.plan and (options.golden or options.check):
        return printing.compare(options.plan, options.jobs, rewrites=options.golden)
    if options.plan:
        return max([printing.tell(printing.read(path).plan, shrinks=options.shrink) for path in options.plan])
    if options.crash_points is not None:
        return crash_campaign.run(options.crash_points, options.every, options.jobs)
    if options.seed is not None:
        plan: Plan = draw_plan(options.seed, size_of(options.seed, options.nodes))
        return printing.tell(plan, shrinks=options.shrink)
    enough = None if options.keep_going else _ENOUGH if options.mutation is None else 1
    seeds = options.seeds or range(1, 101)
    return 0 if run_campaign(seeds, options.nodes, options.jobs, failures_at_most=enough) else 1


def _parser() -> _Parser:
    parser = _Parser(
        prog="python -m ganeti_simulation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_argument_group("what is played")
    what.add_argument("--seed", type=_seed, metavar="N", help="one random schedule, told as a story")
    what.add_argument("--seeds", type=_seeds, metavar="A-B", help="many, of which the failing are named (1-100)")
    what.add_argument("--nodes", type=_nodes, metavar="N", help="size of the cluster; without it 3, 5 and 7 in turn")
    what.add_argument("--plan", nargs="+", metavar="FILE", help="plans from files, told as stories")
    what.add_argument("--mutation", type=_mutation, metavar="NAME", help="break one rule of the product on purpose")
    what.add_argument("--mutations", action="store_true", help="list what can be broken")
    what.add_argument(
        "--crash-points",
        nargs="*",
        metavar="CASE",
        help="kill somebody at every point of every operation, or of those named; CASE:POINT:VICTIM tells one story",
    )
    how = parser.add_argument_group("how")
    how.add_argument("--every", type=_every, metavar="N", default=1, help="of all crashes, play every Nth")
    how.add_argument("--shrink", action="store_true", help="make a failing plan as short as it can be")
    how.add_argument("--check", action="store_true", help="compare the story below each plan instead of telling it")
    how.add_argument("--golden", action="store_true", help="write the story below each plan into its file")
    how.add_argument("--jobs", type=_jobs, metavar="N", default=os.cpu_count() or 1, help="how many at once")
    how.add_argument(
        "--keep-going", action="store_true", help="do not end with the tenth failure, or the first of a mutation"
    )
    return parser


def _contradiction(options: argparse.Namespace) -> str:
    """Why these options make no sense together, or ""."""
    given = [f"--{name}" for name in ("seed", "seeds", "plan", "crash_points") if getattr(options, name) is not None]
    given = [name.replace("_", "-") for name in given]
    if len(given) > 1:
        return f"{' and '.join(given)} say different things: give one of them"
    if options.plan and options.nodes:
        return "a plan says itself how many nodes there are: leave --nodes out"
    if (options.check or options.golden) and not options.plan:
        return f"{'--golden' if options.golden else '--check'} needs the files of --plan"
    if options.check and options.golden:
        return "--check and --golden say different things: give one of them"
    if options.golden and options.mutation:
        return "a story of broken code must not be written down: leave --golden or --mutation out"
    if options.shrink and (options.check or options.golden or (options.seed is None and not options.plan)):
        return "--shrink needs one --seed or --plan, to be told"
    return ""


def _whole(text: str, what: str, least: int, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"'{text}' is no {what}: write a whole number from {least} to {most}")
    return int(text)


def _seed(text: str) -> int:
    return _whole(text, "seed", 0, 10**18 - 1)


def _every(text: str) -> int:
    return _whole(text, "distance between crashes", 1, 10**6)


def _nodes(text: str) -> int:
    return _whole(text, "size of a cluster", _SIZES.start, _SIZES.stop - 1)


def _jobs(text: str) -> int:
    return _whole(text, "number of processes", 1, 1024)


def _seeds(text: str) -> range:
    first, dash, last = text.partition("-")
    try:
        seeds = range(_seed(first), _seed(last if dash else first) + 1)
    except argparse.ArgumentTypeError as err:
        raise argparse.ArgumentTypeError(f"'{text}' are no seeds: write the first and the last, as 1-500") from err
    if not seeds or len(seeds) > _SEEDS_AT_MOST:
        raise argparse.ArgumentTypeError(f"'{text}' are {len(seeds)} seeds: write 1 to {_SEEDS_AT_MOST} of them")
    return seeds


def _mutation(text: str) -> str:
    if text not in mutations.MUTATIONS:
        raise argparse.ArgumentTypeError(f"nothing is broken by '{text}': --mutations lists what is")
    return text


def _sentence(err: PlanError | OSError) -> str:
    if isinstance(err, OSError):
        return f"{err.filename or 'A file'} cannot be used: {err.strerror or err}"
    return f"{str(err)[:1].upper()}{str(err)[1:]}"
