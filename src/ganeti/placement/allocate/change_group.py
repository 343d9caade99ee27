# SPDX-License-Identifier: BSD-2-Clause
"""Moving instances to other groups: the group as for a new one, then the nodes (S1.28-S1.32; spec: htools, 10)."""

from collections.abc import Sequence

from ganeti.model.templates import traits_of
from ganeti.placement.allocate.choose_group import Search, choose_among
from ganeti.placement.allocate.evacuate import Report, Stuck, find_instances, move_instance
from ganeti.placement.allocate.moves import online_targets
from ganeti.placement.kernel.searches import checked_nodes, failing_nodes
from ganeti.placement.kernel.state import ClusterState
from ganeti.placement.request.known_names import unknown_element
from ganeti.placement.request.terms import Allocate, ChangeGroup, EvacuationMode, Moves, Options

NO_GROUP_LEFT = "no groups for evacuation: the instances are in every group they may go to"
"""Why an instance cannot leave its group; the program hail has 3.1's words instead, which show every group whole."""


def change_group(state: ClusterState, request: ChangeGroup, options: Options) -> Moves:
    """Move each instance, on the result of the last, to one of the target groups."""
    numbers = find_instances(state, request.instances)
    own = {state.group_of[state.primary_of[number]] for number in numbers}
    asked = _asked_for(state, request.target_groups)
    targets = [group for group in asked if group not in own and state.group_members(group)]
    report = Report()
    for number in numbers:
        refused = request.unsuitable.get(state.instances[number].name, ())
        try:
            suitable = [group for group in targets if state.groups[group].uuid not in refused]
            group = _best_group(state, number, suitable, options)
            nodes, members = online_targets(state, group), state.group_members(group)
            opcodes = move_instance(state, number, nodes, members, EvacuationMode.ALL, options)
        except Stuck as reason:
            report.failed.append((state.instances[number].name, str(reason)))
            continue
        report.add(state, number, opcodes)
    return report.moves()


def _asked_for(state: ClusterState, names: Sequence[str]) -> list[int]:
    """The groups of *names*, in the order of the cluster: of equal ones the later wins, however they are named."""
    known = {group.uuid: number for number, group in enumerate(state.groups)}
    known |= {group.name: number for number, group in enumerate(state.groups)}
    for name in names:
        if name not in known:
            raise unknown_element(name)
    return sorted({known[name] for name in names}) if names else list(range(len(state.groups)))


def _checked(state: ClusterState, targets: list[int], options: Options) -> list[int] | None:
    """The nodes whose failure must be absorbed; None for all that *options* ask for.

    Where errors that are there do not matter, these are the nodes of *targets* that could lose each of their nodes
    before. The group that is left is not asked: until the end of the search the instance is counted there as well.
    """
    if options.existing_errors_fail or not options.capacity_checks:
        return None
    able = [group for group in targets if len(online_targets(state, group)) > 1]
    nodes = [node for group in able for node in state.group_members(group)]
    asked = checked_nodes(state, nodes, options.lost_nodes_fail)
    unable = {state.group_of[node] for node in failing_nodes(state, asked, state.everyone())}
    return [node for node in asked if state.group_of[node] not in unable]


def _best_group(state: ClusterState, number: int, targets: list[int], options: Options) -> int:
    """The group that would take the instance best if it were new; it still counts where it is."""
    if not targets:
        raise Stuck(NO_GROUP_LEFT)
    instance = state.instances[number]
    traits = traits_of(instance.template)
    nodes = 2 if traits is not None and traits.has_secondary else 1
    search = Search(Allocate(instance, nodes), options, state.everyone(), checked=_checked(state, targets, options))
    chosen, texts = choose_among(state, search, targets)
    if chosen is None:
        raise Stuck(", ".join(texts))
    return chosen.group
