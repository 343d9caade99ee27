# SPDX-License-Identifier: BSD-2-Clause
"""``hroller``: in which order the nodes may be rebooted (spec: htools, 13)."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ganeti.tools.htools.haskell.failures import ToolError
from ganeti.tools.htools.haskell.quoting import quoted
from ganeti.tools.htools.printing import report, standing
from ganeti.tools.htools.programs import program

if TYPE_CHECKING:
    from ganeti.placement.balance.rolling import Batch, Colouring, Graph
    from ganeti.placement.kernel.state import ClusterState
    from ganeti.tools.htools.command_line.options import Options
    from ganeti.tools.htools.loading.sources import Source

LOUD, DETAILED = 2, 3
_NO_MASTER = "No master node found (maybe not supported by backend)."


def plan_reboots(options: "Options") -> int:
    """Load the cluster and print the batches; gives the exit status."""
    from ganeti.placement.balance import rolling
    from ganeti.tools.htools.loading.sources import load

    loaded = load(options, lambda source: _check_master(options, source))
    master = loaded.master
    state = loaded.state()
    report.save_state(options, state, loaded, ("original", "before hroller run"))
    chosen = _chosen(options, state)
    if not chosen:
        raise ToolError("Cannot create node graph")
    graph = rolling.reboot_graph(state, chosen, offline_maintenance=options.offline_maintenance)
    if options.verbosity >= DETAILED:
        print(f"Node Graph: {_shown(graph)}")
    found = rolling.colourings(graph)
    batches = _in_order(_batches(options, state, found, set(chosen)), state.node_number.get(master, -1))
    if options.verbosity >= LOUD:
        print(comparison(found))
    _print(options, state, batches)
    return 0


def _check_master(options: "Options", source: "Source") -> None:
    """Without a master, or with several, there is no saying which batch comes last."""
    if len(source.masters) > 1:
        raise ToolError(f"Found more than one master node: {quoted(source.masters)}")
    if source.masters:
        return
    if not options.force:
        raise ToolError(_NO_MASTER)
    report.complain(f"Warning: {_NO_MASTER}")


def _chosen(options: "Options", state: "ClusterState") -> list[int]:
    members = state.everyone()
    if options.group is not None:
        groups = [n for n, group in enumerate(state.groups) if options.group in (group.name, group.uuid)]
        if not groups:
            raise ToolError("Cannot find target group.")
        members = standing.members_of(state, groups[0])
    wanted = set(options.node_tags or ())
    return [
        node
        for node in members
        if state.online[node]
        and (options.node_tags is None or wanted & set(state.nodes[node].tags))
        and not (options.skip_non_redundant and _holds_unmirrored(state, node))
    ]


def _holds_unmirrored(state: "ClusterState", node: int) -> bool:
    from ganeti.placement.balance.rolling import unmirrored_primaries

    return bool(unmirrored_primaries(state, node))


def _shown(graph: "Graph") -> str:
    """The neighbours of each vertex, the last found first: ``array (0,1) [(0,[1]),(1,[0])]``."""
    rows = ",".join(f"({vertex},[{','.join(map(str, others[::-1]))}])" for vertex, others in graph.items())
    return f"array ({min(graph)},{max(graph)}) [{rows}]"


def comparison(found: Sequence["Colouring"]) -> str:
    """The line that compares the algorithms, best first, each with the one before it."""
    words, before = "", 0
    for colouring in sorted(reversed(found), key=lambda colouring: len(colouring.classes)):
        sizes, count = ",".join(str(len(members)) for members in colouring.classes), len(colouring.classes)
        if words:
            words += " TIE " if count == before else " LOOSE "
        words, before = words + f"{colouring.name}: {count} ({sizes})", count
    return words


def _batches(
    options: "Options", state: "ClusterState", found: Sequence["Colouring"], chosen: set[int]
) -> Iterator["Batch"]:
    from ganeti.placement.balance import rolling

    evacuation = rolling.Evacuation(not options.ignore_non_redundant, options.full_evacuation)
    batches = rolling.split_by_capacity(state, rolling.fewest(found).classes, evacuation)
    for batch in batches:
        yield rolling.Batch(tuple(node for node in batch.nodes if node in chosen), batch.moves)


def _in_order(batches: Iterator["Batch"], master: int) -> list["Batch"]:
    """Large ones first; the master's comes last, and it is the last in it."""
    from ganeti.placement.balance.rolling import Batch

    ordered = sorted(batches, key=lambda batch: -len(batch.nodes))
    last = [batch for batch in ordered if master in batch.nodes]
    rest = [batch for batch in ordered if master not in batch.nodes]
    return [
        *rest,
        *(Batch((*(node for node in batch.nodes if node != master), master), batch.moves) for batch in last),
    ]


def _print(options: "Options", state: "ClusterState", batches: Sequence["Batch"]) -> None:
    from ganeti.placement.kernel.state import NOWHERE

    if options.headers:
        print("'First Reboot Group'" if options.one_step_only else "'Node Reboot Groups'")
    for batch in batches[:1] if options.one_step_only else batches:
        names = [state.name_of(node) for node in batch.nodes]
        print("\n".join(names) if options.one_step_only else ",".join(names))
        if options.print_moves:
            for number, primary, secondary in batch.moves:
                places = [state.name_of(node) for node in (primary, secondary) if node != NOWHERE]
                print("  " + " ".join([state.instances[number].name, *places]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    return program.run("hroller", arguments, plan_reboots)
