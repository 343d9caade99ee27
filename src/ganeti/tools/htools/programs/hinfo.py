# SPDX-License-Identifier: BSD-2-Clause
"""``hinfo``: what a cluster looks like, without touching it (spec: htools, 12)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ganeti.tools.htools.haskell.figures import fixed
from ganeti.tools.htools.printing import opening, report, standing
from ganeti.tools.htools.printing.tables import coefficient_table, group_table, instance_table, node_table
from ganeti.tools.htools.programs import program

if TYPE_CHECKING:
    from ganeti.placement.kernel.state import ClusterState
    from ganeti.tools.htools.command_line.options import Options
    from ganeti.tools.htools.loading.sources import Loaded, Source

LOUD, DETAILED = 2, 3
"""Verbosities from which on more is said; 1 is the usual one."""


def show_cluster(options: "Options") -> int:
    """Load and describe the cluster; gives the exit status."""
    from ganeti.tools.htools.loading.sources import load

    loaded = load(options, lambda source: _tell_of_tags(options, source))
    _tell_what_was_loaded(options, loaded)
    state = loaded.state()
    if options.verbosity >= LOUD:
        print("Node group information:")
        print(group_table([_group_row(state, group) for group in standing.groups_with_nodes(state)]), end="")
    everyone = state.everyone()
    print(f"Cluster is N+1 {'unhappy' if standing.bad_nodes(state, everyone) else 'happy'}")
    if options.print_instances:
        report.complain("", "Instances instance map:")
        report.complain(instance_table(state, range(len(state.instances))), end="")
    if options.print_nodes is not None:
        report.complain("", "Cluster status:")
        report.complain(node_table(state, everyone, options.print_nodes, loaded.alias_of))
    print("Cluster coefficients:")
    print(coefficient_table(standing.components(state, everyone)), end="")
    print(f"Cluster score: {fixed(standing.score(state, everyone), 8)}")
    return 0


def _tell_of_tags(options: "Options", source: "Source") -> None:
    print(opening.tags_line(source.cluster.tags))
    if options.verbosity >= DETAILED:
        print(opening.policy_line(source.cluster.policy))


def _tell_what_was_loaded(options: "Options", loaded: "Loaded") -> None:
    cluster, loud = loaded.cluster, options.verbosity >= LOUD
    if loud and not cluster.instances:
        print("Cluster is empty.")
    counts = (
        _counted(len(cluster.nodes), "node"),
        _counted(len(cluster.instances), "instance"),
        _counted(len(cluster.groups), "node group"),
    )
    print(f"Loaded {', '.join(counts)}")
    if options.verbosity >= DETAILED and loaded.suffix:
        print(opening.suffix_line(loaded.suffix))
    if loaded.split:
        print("Found instances belonging to multiple node groups:")
        report.complain(*(f"  {name}" for name in loaded.split))
    elif loud:
        print("No split instances found")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _group_row(state: "ClusterState", group: int) -> tuple[str, int, int, int, int, bool, float]:
    members = standing.members_of(state, group)
    bad = standing.bad_nodes(state, members)
    return (
        state.groups[group].name,
        len(members),
        len(standing.instances_of(state, members)),
        len(bad),
        standing.instances_on(state, bad),
        not bad,
        standing.score(state, members),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    return program.run("hinfo", arguments, show_cluster)
