# SPDX-License-Identifier: BSD-2-Clause
"""``hcheck``: what is wrong with a cluster, and whether balancing would mend it (spec: htools, 12)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ganeti.tools.htools.haskell.figures import fixed
from ganeti.tools.htools.printing import report, standing
from ganeti.tools.htools.programs import program

if TYPE_CHECKING:
    from ganeti.placement.kernel.state import ClusterState
    from ganeti.tools.htools.command_line.options import Options
    from ganeti.tools.htools.loading.sources import Loaded

PREFIX = "HCHECK"
_CHECKS = (
    ("N1_FAIL", "Nodes not N+1 happy"),
    ("CONFLICT_TAGS", "Nodes with conflicting instances"),
    ("OFFLINE_PRI", "Instances having the primary node offline"),
    ("OFFLINE_SEC", "Instances having a secondary node offline"),
)
_CAPACITY_CHECK = ("GN1_FAIL", "Nodes not directly evacuateable")
_SCORE = ("SCORE", "Group score")
_NEED = ("NEED_REBALANCE", "Cluster is not healthy")
EXIT_UNHEALTHY = 1


@dataclass(frozen=True)
class _Counts:
    """What the checks found: per group number the counts and the score, and the sums (none without groups)."""

    groups: dict[int, tuple[list[int], float]]

    @property
    def sums(self) -> list[int]:
        return [sum(column) for column in zip(*(counts for counts, _ in self.groups.values()), strict=True)]


def check_cluster(options: "Options") -> int:
    """Load, check, and check again after balancing if something is wrong; gives the exit status."""
    from ganeti.tools.htools.loading.sources import load

    loaded = load(options)
    state = loaded.state()
    before = _count(options, state)
    needed = any(before.sums)
    if options.machine_readable:
        for number, group in enumerate(state.groups):
            print(f"{PREFIX}_GROUP_UUID_{number}={report.shell_word(group.uuid)}")
    elif options.verbosity > 0:
        print(_verdict(options, needed))
    _show(options, state, before, needed, initial=True)
    after = before
    if needed and options.simulation:
        _simulate(options, loaded, state)
        after = _count(options, state)
    if options.machine_readable or after is not before:
        # Whether balancing was needed is said again, not whether it still is: so does 3.1, and exit status 1 agrees.
        _show(options, state, after, needed, initial=False)
    if options.machine_readable:
        print(f"{PREFIX}_OK=1")
    return EXIT_UNHEALTHY if needed and options.simulation else 0


def _verdict(options: "Options", needed: bool) -> str:
    if not options.simulation:
        return "Running in no-simulation mode."
    return "Cluster needs rebalancing." if needed else "No need to rebalance cluster, no problems found."


# counting


def _count(options: "Options", state: "ClusterState") -> _Counts:
    groups = {}
    for group in standing.groups_with_nodes(state):
        members = standing.members_of(state, group)
        groups[group] = (_group_counts(options, state, members), standing.score(state, members))
    return _Counts(groups)


def _group_counts(options: "Options", state: "ClusterState", members: list[int]) -> list[int]:
    views = [state.view(node) for node in members]
    offline = [view for view in views if view.node.unavailable]
    counts = [
        len(standing.bad_nodes(state, members)),
        sum(1 for view in views if view.tag_conflicts),
        sum(len(view.real_primaries) for view in offline),
        len(offline),
    ]
    if options.capacity_checks:
        from ganeti.placement.kernel.searches import nodes_failing

        counts.append(len(nodes_failing(state, members)))
    return counts


def _simulate(options: "Options", loaded: "Loaded", state: "ClusterState") -> None:
    """Balance every group, as hbal would."""
    from ganeti.placement.balance.steps import balance

    wishes = report.balance_options(options)
    for group in standing.groups_with_nodes(state):
        for _ in balance(state, standing.members_of(state, group), loaded.movable, wishes):
            pass


# showing


def _show(options: "Options", state: "ClusterState", counts: _Counts, needed: bool, *, initial: bool) -> None:
    checks = [*_CHECKS, _CAPACITY_CHECK] if options.capacity_checks else list(_CHECKS)
    if options.machine_readable:
        _print_keys([key for key, _ in checks], counts, needed, "INIT" if initial else "FINAL")
    elif options.verbosity > 0:
        _print_sentences([words for _, words in checks], state, counts, needed, initial)


def _print_keys(keys: list[str], counts: _Counts, needed: bool, phase: str) -> None:
    for group, (found, score) in counts.groups.items():
        for key, value in zip([*keys, _SCORE[0]], [*map(str, found), fixed(score, 8)], strict=True):
            print(f"{PREFIX}_{phase}_GROUP_{group}_{key}={value}")
    for key, value in _paired([*keys, _NEED[0]], [*map(str, counts.sums), str(int(needed))]):
        print(f"{PREFIX}_{phase}_CLUSTER_{key}={value}")


def _print_sentences(words: list[str], state: "ClusterState", counts: _Counts, needed: bool, initial: bool) -> None:
    phase = "initially" if initial else "after rebalancing"
    for group, (found, score) in counts.groups.items():
        print(f"\nStatistics for group {state.groups[group].name} {phase}")
        for sentence, value in zip([*words, _SCORE[1]], [*map(str, found), fixed(score, 8)], strict=True):
            print(f"    {sentence}: {value}")
    print(f"\nCluster statistics {phase}")
    for sentence, value in _paired([*words, _NEED[1]], [*map(str, counts.sums), str(needed)]):
        print(f"    {sentence}: {value}")


def _paired(names: list[str], values: list[str]) -> Iterator[tuple[str, str]]:
    """Names with values. Of a cluster without nodes there are no sums; like 3.1, the first name gets the last value."""
    return zip(names, values, strict=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    return program.run("hcheck", arguments, check_cluster)
