# SPDX-License-Identifier: BSD-2-Clause
"""``hbal``: lower the score of a node group step by step, the best step first (spec: htools, 5)."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ganeti.tools.htools.haskell.failures import ToolError
from ganeti.tools.htools.haskell.figures import fixed, general
from ganeti.tools.htools.haskell.quoting import quoted
from ganeti.tools.htools.printing import opening, report, solver_report, standing
from ganeti.tools.htools.printing.peer_maps import PeerMaps
from ganeti.tools.htools.printing.progress import Progress
from ganeti.tools.htools.printing.tables import coefficient_table, instance_table, node_table
from ganeti.tools.htools.programs import commands, program

if TYPE_CHECKING:
    from ganeti.placement.balance.solver import Solver
    from ganeti.placement.balance.steps import Step
    from ganeti.placement.kernel.state import ClusterState
    from ganeti.tools.htools.command_line.options import Options
    from ganeti.tools.htools.loading.sources import Loaded, Source

LOUD, DETAILED, TOTALS, EVERYTHING = 2, 3, 4, 5
"""Verbosities from which on more is said; 1 is the usual one."""
SCORE_WIDTH = 12


@dataclass
class _Work:
    """One group being balanced, and what was found so far."""

    options: "Options"
    loaded: "Loaded"
    state: "ClusterState"
    members: list[int]
    instances: list[int]
    peers: PeerMaps | None
    score_before: float = 0.0
    steps: "list[Step]" = field(default_factory=list)
    solver: "Solver | None" = None

    @property
    def score(self) -> float:
        return self.steps[-1].score if self.steps else self.score_before

    def node(self, number: int) -> str:
        """The short name of a node."""
        return self.loaded.alias_of(self.state.name_of(number))

    def instance(self, number: int) -> str:
        """The short name of an instance."""
        return self.loaded.alias_of(self.state.instances[number].name)


def balance_cluster(options: "Options") -> int:
    """Load, balance, report; gives the exit status. Raises `ToolError` for what cannot be done."""
    from ganeti.tools.htools.loading.sources import load

    loaded = _without_cooling(options, load(options, lambda source: _tell_of_tags(options, source)))
    if not loaded.cluster.instances:
        print("Cluster is empty, exiting.")
        return 0
    _tell_what_was_loaded(options, loaded)
    state = loaded.state()
    report.save_state(options, state, loaded, ("original", "before balancing"))
    work = _choose_group(options, loaded, state)
    _tell_what_is_bad(work)
    _print_maps(work, "Initial")
    work.score_before = standing.score(state, work.members)
    _print_score(work, "Initial score:", "Initial coefficients:")
    if _is_balanced(work) or _is_even(work):
        _write_page(work)
        return 0
    before = _totals(work)
    _search(work)
    _tell_result(work)
    _write_page(work)
    part = (work.members, work.instances)
    report.save_state(options, state, loaded, ("balanced", "after balancing"), part, work.steps)
    _print_maps(work, "Final")
    if options.verbosity >= TOTALS:
        print(f"Original: {before}\nFinal:    {_totals(work)}")
    return _execute(work)


# before


def _tell_of_tags(options: "Options", source: "Source") -> None:
    if options.verbosity >= LOUD:
        print(opening.tags_line(source.cluster.tags))
        print(opening.policy_line(source.cluster.policy))


def _tell_what_was_loaded(options: "Options", loaded: "Loaded") -> None:
    if options.verbosity >= LOUD and loaded.split:
        report.complain(
            "Found instances belonging to multiple node groups:",
            *(f"  {name}" for name in loaded.split),
            "These instances will not be moved.",
        )
    print(f"Loaded {len(loaded.cluster.nodes)} nodes, {len(loaded.cluster.instances)} instances")
    if options.verbosity >= LOUD and loaded.suffix:
        print(opening.suffix_line(loaded.suffix))


def _choose_group(options: "Options", loaded: "Loaded", state: "ClusterState") -> _Work:
    chosen = standing.groups_with_nodes(state)
    if options.group is not None:
        chosen = [n for n, group in enumerate(state.groups) if options.group in (group.name, group.uuid)]
        if not chosen:
            everyone = range(len(state.groups))
            _list_groups(f"Node group {options.group} not found. Node group list is:", state, everyone)
    elif len(chosen) > 1:
        _list_groups("Found multiple node groups:", state, chosen)
    members = standing.members_of(state, chosen[0])
    instances = standing.instances_of(state, members)
    print(f"Group size {len(members)} nodes, {len(instances)} instances")
    print(f"Selected node group: {state.groups[chosen[0]].name}")
    peers = PeerMaps(state) if options.print_nodes is not None else None
    return _Work(options, loaded, state, members, instances, peers)


def _list_groups(sentence: str, state: "ClusterState", groups: Sequence[int]) -> None:
    report.complain(sentence, *(f"  {state.groups[group].name}" for group in groups))
    raise ToolError("Aborting.")


def _tell_what_is_bad(work: _Work) -> None:
    state, verbosity = work.state, work.options.verbosity
    bad = standing.bad_nodes(state, work.members)
    good = standing.good_nodes(state, work.members)
    limits = {state.name_of(node): standing.broken_limit(state.view(node)) for node in good}
    if verbosity > 0:
        print(f"Initial check done: {len(bad)} bad nodes, {standing.instances_on(state, bad)} bad instances.")
    if verbosity >= EVERYTHING:
        print(f"Bad nodes: {quoted(state.name_of(node) for node in bad)}")
        print(f"N+1 happy nodes: {quoted(limits)}")
        print(f"Node policy status: {opening.policy_states(limits)}")
    if bad:
        print("Cluster is not N+1 happy, continuing but no guarantee that the cluster will end N+1 happy.")
    violating = sum(1 for limit in limits.values() if limit)
    if not violating:
        return
    print(f"The cluster contains {violating} policy-violating nodes.")
    if work.options.ignore_soft_errors:
        print("Continuing, ignoring soft errors.")
    else:
        print(
            "Continuing, but the set of moves might be too restricted; consider using the --ignore-soft-errors option."
        )


def _print_maps(work: _Work, when: str) -> None:
    """What ``--print-instances`` and ``-p`` ask for, on standard error."""
    options, state = work.options, work.state
    if options.print_instances:
        report.complain("", f"{when} instance map:")
        report.complain(instance_table(state, work.instances), end="")
    if options.print_nodes is not None and work.peers is not None:
        report.complain("", f"{when} cluster status:")
        for step in work.steps:
            work.peers.follow(step)
        report.complain(node_table(state, work.members, options.print_nodes, work.loaded.alias_of, work.peers.of))


def _print_score(work: _Work, words: str, detailed_words: str) -> None:
    score = fixed(work.score, 8)
    if work.options.verbosity < DETAILED:
        print(f"{words} {score}")
        return
    print(f"{detailed_words} overall {score}")
    print(coefficient_table(standing.components(work.state, work.members)), end="")


def _without_cooling(options: "Options", loaded: "Loaded") -> "Loaded":
    """Let instances stay that were changed within ``--cool-down``."""
    if not options.cool_down_s:
        return loaded
    if options.luxi is None:
        raise ToolError("--cool-down needs to know when instances were changed: ask the master daemon, with -L")
    from ganeti.base.errors import TransportError
    from ganeti.placement.balance.steadiness import cooling
    from ganeti.tools.htools.loading.luxi import times_of_change

    try:
        stay = cooling(times_of_change(options.luxi), time.time(), options.cool_down_s)
    except TransportError as error:
        raise ToolError(f"failed to load data, aborting: {error}") from None
    movable = [
        may and instance.name not in stay
        for may, instance in zip(loaded.movable, loaded.cluster.instances, strict=True)
    ]
    if stay:
        print(f"{len(stay)} instances were changed within {options.cool_down_s:g} seconds and stay.")
    return replace(loaded, movable=movable)


def _is_even(work: _Work) -> bool:
    """Whether measured load is too even for a move, by ``--load-threshold``."""
    threshold = work.options.load_threshold
    if threshold is None:
        return False
    from ganeti.placement.balance.steadiness import unevenness

    found = unevenness(work.state.nodes[number] for number in work.members)
    if found is None:
        print("No load was measured, so --load-threshold says nothing; add --mond.")
        return False
    if found.above_mean >= threshold:
        return False
    print(f"Load is even: {found.busiest} is busiest with {fixed(found.share, 2)}, the mean is {fixed(found.mean, 2)}.")
    print("Nothing to do, exiting")
    return True


def _is_balanced(work: _Work) -> bool:
    from ganeti.placement.balance.steps import optimal_score

    optimum, minimum = optimal_score(work.state, work.members), work.options.min_score
    if not work.score_before - optimum < minimum:
        return False
    print(f"Cluster is already well balanced (initial score {general(work.score_before)},")
    print(f"optimum score due to N+1 reservations {general(optimum)},")
    print(f"minimum score {general(minimum)}).")
    print("Nothing to do, exiting")
    return True


# the search


def _search(work: _Work) -> None:
    """Find and print the steps. When the user interrupts, what was found so far is told."""
    from ganeti.placement.balance.steps import balance

    print("Trying to minimize the CV...")
    name_width = max((len(work.instance(number)) for number in work.instances), default=0)
    places_width = 2 * max((len(work.node(number)) for number in work.members), default=0) + 1
    wishes = report.balance_options(work.options)
    steps = balance(work.state, work.members, work.loaded.movable, wishes)
    if work.options.solver:
        work.solver = solver_report.seek(work.options, work.loaded, work.members)
        steps = work.solver.best.carry_out(work.state)
    progress = Progress()
    try:
        for step in steps:
            work.steps.append(step)
            if not sys.stdout.isatty():
                progress.tell(f"{len(work.steps)} moves, score {fixed(step.score, 8)}")
            print(_step_line(work, step, name_width, places_width), flush=True)
    except KeyboardInterrupt:
        progress.end()
        _give_up(work)
    progress.end()
    if work.solver is not None and work.solver.interrupted:
        _give_up(work)


def _give_up(work: _Work) -> None:
    sys.stdout.flush()
    report.complain(_interruption(work))
    report.die_interrupted()


def _interruption(work: _Work) -> str:
    if not work.steps:
        return "Interrupted before a step was found."
    before, after = fixed(work.score_before, 8), fixed(work.score, 8)
    return f"Interrupted: the {len(work.steps)} steps found so far lower the score from {before} to {after}."


def _step_line(work: _Work, step: "Step", name_width: int, places_width: int) -> str:
    before, after = (
        ":".join(work.node(node) for node in places if node >= 0).ljust(places_width)
        for places in (step.before, step.after)
    )
    name, score = work.instance(step.instance).ljust(name_width), fixed(step.score, 8).rjust(SCORE_WIDTH)
    return f"  {len(work.steps):3d}. {name} {before} => {after} {score} a={step.text(work.node(step.target))}"


# after


def _tell_result(work: _Work) -> None:
    if not work.steps:
        print("No solution found")
    else:
        before = fixed(work.score_before, 8)
        _print_score(work, f"Cluster score improved from {before} to", "Final coefficients:  ")
    if work.options.verbosity > 0:
        print(f"Solution length={len(work.steps)}")
    if work.solver is not None and work.steps:
        print(*_price_lines(work, work.solver), sep="\n")
    if work.options.print_commands:
        _give_commands(work, work.options.commands_file)


def _price_lines(work: _Work, solver: "Solver") -> list[str]:
    from ganeti.placement.balance.lower_bound import lower_bound

    state = work.loaded.state()
    bound = lower_bound(state, work.members, work.loaded.movable)
    return list(solver_report.lines(state, solver, bound, work.score_before, work.options.link_speed_mbit))


def _write_page(work: _Work) -> None:
    """What ``--html`` asks for."""
    if work.options.html is None:
        return
    from ganeti.tools.htools.printing import page

    state = work.loaded.state()
    names = [work.node(number) for number in work.members]
    facts = [
        f"Group {state.groups[state.group_of[work.members[0]]].name}: {len(names)} nodes,"
        f" {len(work.instances)} instances",
        f"Score {fixed(work.score_before, 8)} before, {fixed(work.score, 8)} after {len(work.steps)} moves",
        *(_price_lines(work, work.solver) if work.solver is not None else ()),
    ]
    looks, run = page.record_moves(state, work.members, work.steps, lambda step: _described(work, step))
    page.write(work.options.html, page.Page("hbal: nodes before and after", facts, names, looks, [run]))


def _described(work: _Work, step: "Step") -> tuple[str, str]:
    """A step for the page: what is done, and what it copies."""
    before, after = (":".join(work.node(node) for node in places if node >= 0) for places in (step.before, step.after))
    words = f"{work.instance(step.instance)} {before} → {after} ({step.text(work.node(step.target))})"
    return words, f"copies {solver_report.step_price(work.state, step)}"


def _give_commands(work: _Work, path: str | None) -> None:
    from ganeti.placement.balance.steps import job_sets

    sets = job_sets(work.steps)
    words = "Commands to run to reach the above solution:"
    if work.options.first_job_group:
        sets, words = sets[:1], "First set of jobs:"
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(commands.script(work.state, sets, work.loaded.alias_of))
        print(f"The commands have been written to file '{path}'")
    else:
        print(f"\n{words}")
        print(commands.listing(work.state, sets, work.loaded.alias_of), end="")


def _totals(work: _Work) -> str:
    views = [work.state.view(node) for node in work.members] if work.options.verbosity >= TOTALS else []
    memory, disk = sum(view.free_memory_mib for view in views), sum(view.free_disk_mib for view in views)
    return f"mem={memory} disk={disk}"


def _execute(work: _Work) -> int:
    """Submit the jobs of ``-X``; without steps there is nothing to submit."""
    if not work.options.execute or not work.steps:
        return 0
    if work.options.luxi is None:
        raise ToolError("hbal: Execution of commands possible only on LUXI")
    from ganeti.placement.balance.steps import job_sets
    from ganeti.tools.htools.programs import execution

    sets = [execution.job_set(work.state, steps) for steps in job_sets(work.steps)]
    origin = execution.Origin("hbal", "rebalancing via", work.options.reason, work.options.priority)
    execution.execute(work.options.luxi, sets[:1] if work.options.first_job_group else sets, origin)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    return program.run("hbal", arguments, balance_cluster)
