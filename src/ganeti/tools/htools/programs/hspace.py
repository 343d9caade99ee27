# SPDX-License-Identifier: BSD-2-Clause
"""``hspace``: how many more instances the cluster has room for (spec: htools, 11)."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from ganeti.base.errors import ParameterError
from ganeti.tools.htools.haskell.failures import ToolError
from ganeti.tools.htools.haskell.figures import fixed
from ganeti.tools.htools.haskell.quoting import quoted
from ganeti.tools.htools.printing import capacity_report, opening, report, standing
from ganeti.tools.htools.printing.capacity_report import Outcome, Work
from ganeti.tools.htools.printing.progress import Progress
from ganeti.tools.htools.printing.tables import coefficient_table, node_table, table
from ganeti.tools.htools.programs import program

if TYPE_CHECKING:
    from ganeti.placement.capacity.count import Allocation, Failures, Room, Size
    from ganeti.placement.capacity.room import Site
    from ganeti.placement.cluster.policy import Policy, Spec
    from ganeti.placement.kernel.state import ClusterState
    from ganeti.tools.htools.command_line.options import Options
    from ganeti.tools.htools.loading.sources import Loaded

LOUD, DETAILED, THOROUGH = 2, 3, 4


def measure_capacity(options: "Options") -> int:
    """Load the cluster, fill it both ways, and tell the result; gives the exit status."""
    from ganeti.tools.htools.loading.sources import load

    loaded = _supposed(options, load(options))
    state = loaded.state()
    if not loaded.cluster.policy.templates:
        raise ToolError("null list of disk templates received from cluster")
    template = options.disk_template or loaded.cluster.policy.templates[0]
    if options.verbosity >= LOUD and loaded.suffix:
        report.complain(opening.suffix_line(loaded.suffix))
    _print_nodes(options, loaded, state, "Initial cluster")
    if options.verbosity >= DETAILED:
        everyone = state.everyone()
        report.complain(f"Initial coefficients: overall {fixed(state.score(everyone), 8)}")
        report.complain(coefficient_table(standing.components(state, everyone)), end="")
    work = Work(options, loaded, state, template, _room(options, loaded, state, template))
    machine = options.machine_readable
    for line in (capacity_report.opening_lines if machine else capacity_report.opening_sentences)(work):
        print(line)
    try:
        tiered = _allocate(work, "Tiered", _tiered_sizes(options, loaded.cluster.policy), _fill_tiered)
        standard = _allocate(work, "Standard", [_standard_size(options, loaded.cluster.policy)], _fill_standard)
    except KeyboardInterrupt:
        _give_up(work)
    for line in (capacity_report.machine_lines if machine else capacity_report.sentences)(work, tiered, standard):
        print(line)
    if options.html is not None:
        _write_page(work, options.html, {"tiered": tiered, "standard": standard})
    return 0


def _supposed(options: "Options", loaded: "Loaded") -> "Loaded":
    """The cluster as it would be with what ``--if-added`` and ``--if-lost`` say; tells what becomes of instances."""
    from ganeti.placement.request import what_if

    try:
        wanted = what_if.read(options.if_added, options.if_lost)
        if wanted is None:
            return loaded
        from ganeti.placement.capacity.what_if import suppose

        found = suppose(loaded.cluster, wanted)
    except ParameterError as err:
        raise ToolError(str(err)) from None
    if found.sentence:
        report.complain(f"If this were lost, {found.sentence}.")
    return replace(loaded, cluster=found.cluster, prepare=found.make_moves)


def _write_page(work: Work, path: str, outcomes: dict[str, Outcome]) -> None:
    """The page of ``--html``: each kind of allocation, one new instance after the other."""
    from ganeti.tools.htools.printing import page

    alias, everyone = work.loaded.alias_of, work.state.everyone()
    runs, facts = [], [f"{len(everyone)} nodes, {len(work.state.instances)} instances"]
    for name, outcome in outcomes.items():
        state, numbers = outcome.state, outcome.numbers
        placed = [(state.instances[n], state.primary_of[n], state.secondary_of[n]) for n in numbers]
        runs.append(page.record_placements(name, work.loaded.state(), placed, alias))
        facts.append(f"Room for {len(numbers)} more instances by {name} allocation")
    names = [alias(work.state.name_of(node)) for node in everyone]
    looks = page.Camera(work.state, everyone).everyone()
    page.write(path, page.Page("hspace: nodes before and after", facts, names, looks, runs))


def _room(options: "Options", loaded: "Loaded", state: "ClusterState", template: str) -> "Room | None":
    """Where instances may go; None where nodes that fail N+1 keep everything out."""
    from ganeti.model.templates import traits_of
    from ganeti.placement.capacity.count import Room
    from ganeti.placement.capacity.room import survey

    site = survey(
        state,
        accept_existing_errors=options.accept_existing_errors,
        independent_groups=options.independent_groups,
        whole=options.verbosity >= THOROUGH,
    )
    traits = traits_of(template)
    pairs = traits is not None and traits.has_secondary
    if options.verbosity >= THOROUGH:
        report.complain(*_where(state, site, options.first_number, pairs=pairs))
    if site.stuck:
        return None
    return Room(
        template=template,
        nodes_each=2 if pairs else 1,
        spindle_use=loaded.cluster.policy.standard.spindle_use if options.spindle_use is None else options.spindle_use,
        candidates=site.candidates,
        members=tuple(state.everyone()),
        checked=site.checked if options.capacity_checks else (),
    )


def _where(state: "ClusterState", site: "Site", first: int, *, pairs: bool) -> Iterator[str]:
    """What is in the way, and the numbers of the nodes that instances may go to, counted from *first*."""
    if site.bad:
        yield f"Bad nodes: {quoted(state.name_of(node) for node in site.bad)}"
    if site.failing:
        yield f"Bad groups: {quoted(state.groups[group].name for group in site.failing)}"
    if pairs:
        yield f"Allocatable nodes: Right [{','.join(_mates(state, site.candidates, first))}]"
    else:
        yield f"Allocatable nodes: Left {_listed(site.candidates, first)}"


def _mates(state: "ClusterState", candidates: Sequence[int], first: int) -> Iterator[str]:
    for one in candidates:
        others = [other for other in candidates if other != one and state.group_of[other] == state.group_of[one]]
        if others:
            yield f"({first + one},{_listed(others, first)})"


def _listed(nodes: Sequence[int], first: int) -> str:
    return f"[{','.join(str(first + node) for node in nodes)}]"


def _check_candidates(state: "ClusterState", room: "Room") -> None:
    """Raise `ToolError` where there is nothing to try."""
    groups = Counter(state.group_of[node] for node in room.candidates)
    if max(groups.values(), default=0) < room.nodes_each:
        raise ToolError(f"failure during allocation: {'Not enough' if room.nodes_each > 1 else 'No'} online nodes")


def _size(spec: "Spec") -> "Size":
    from ganeti.placement.capacity.count import Size

    return Size(spec.memory_mib, spec.disk_mib, spec.cpus, spec.spindle_use)


def _standard_size(options: "Options", policy: "Policy") -> "Size":
    from ganeti.placement.capacity.count import Size

    asked = options.standard_spec
    if asked is None:
        return _size(policy.standard)
    return Size(asked.memory_mib, asked.disk_mib, asked.cpus, asked.spindles)


def _tiered_sizes(options: "Options", policy: "Policy") -> "list[Size]":
    from ganeti.placement.capacity.count import Size

    asked = options.tiered_spec
    if asked is None:
        return [_size(largest) for _, largest in policy.ranges]
    return [Size(asked.memory_mib, asked.disk_mib, asked.cpus, asked.spindles)]


Fill = Callable[["Allocation", "Size", int | None], "Failures"]


def _fill_tiered(allocation: "Allocation", size: "Size", limit: int | None) -> "Failures":
    return allocation.fill_tiered(size, limit)


def _fill_standard(allocation: "Allocation", size: "Size", limit: int | None) -> "Failures":
    return allocation.fill(size, limit)


def _allocate(work: Work, kind: str, sizes: "Sequence[Size]", fill: Fill) -> Outcome:
    from ganeti.placement.capacity.count import Allocation
    from ganeti.placement.cluster.failure import FailMode

    options, state = work.options, work.loaded.state()
    if work.room is None:
        outcome = Outcome(sizes[0], state, [], [], Counter({FailMode.FailN1: 1}))
    else:
        _check_candidates(state, work.room)
        progress = Progress()
        allocation = Allocation(state, work.room, lambda one: progress.tell(_how_far(kind, one)))
        work.found[kind] = allocation.placed
        failures: Failures = Counter()
        try:
            for number, size in enumerate(sizes):
                left = options.max_length - len(allocation.placed) if options.max_length >= 0 else None
                if number and left is not None and left <= 0:
                    break
                failures = fill(allocation, size, left)
        finally:
            progress.end()
        outcome = Outcome(sizes[0], state, allocation.placed, allocation.numbers, failures)
    if options.verbosity >= LOUD:
        _print_map(kind, outcome, work.loaded)
    _print_nodes(options, work.loaded, state, f"{kind} allocation")
    chosen = (state.everyone(), range(len(state.instances)))
    report.save_state(options, state, work.loaded, (kind.lower(), f"after {kind.lower()} allocation"), chosen)
    return outcome


def _how_far(kind: str, allocation: "Allocation") -> str:
    return f"{kind} allocation: {len(allocation.placed)} instances so far"


def _give_up(work: Work) -> NoReturn:
    """Tell what was found until somebody interrupted it, and end."""
    from ganeti.placement.capacity.count import runs

    exclusive = any(node.exclusive_storage for node in work.state.nodes)
    for kind, placed in work.found.items():
        report.complain(f"Interrupted: {kind.lower()} allocation found room for {len(placed)} instances so far.")
        for size, count in runs(placed):
            report.complain(f"  - {count:3d} instances of spec {capacity_report.described(size, exclusive)}")
    if not work.found:
        report.complain("Interrupted before anything was found.")
    report.die_interrupted()


def _print_map(kind: str, outcome: Outcome, loaded: "Loaded") -> None:
    state = outcome.state
    report.complain(f"{kind} allocation map")
    rows = [
        (
            *(state.instances[number].name, state.name_of(state.primary_of[number])),
            *(state.name_of(state.secondary_of[number]), str(size.memory_mib), str(size.disk_mib), str(size.vcpus)),
            str(size.spindles) if any(node.exclusive_storage for node in state.nodes) else "",
        )
        for number, size in zip(outcome.numbers, outcome.placed, strict=True)
    ]
    if rows:
        report.complain(table("", rows[0], rows[1:], (False, False, False, True, True, True, True)), end="")


def _print_nodes(options: "Options", loaded: "Loaded", state: "ClusterState", when: str) -> None:
    if options.print_nodes is not None:
        report.complain("", f"{when} status:")
        first, everyone = options.first_number, state.everyone()
        report.complain(node_table(state, everyone, options.print_nodes, loaded.alias_of, first=first))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    return program.run("hspace", arguments, measure_capacity)
