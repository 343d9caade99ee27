# SPDX-License-Identifier: BSD-2-Clause
"""One request for nodes looked at node by node: what excludes each, and what would admit it.

Works on the plain values of nodes, so it costs nothing until somebody asks why.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from ganeti.model.templates import traits_of
from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.lack import (
    NODE,
    REDUNDANCY_NOW,
    Change,
    Lack,
    at_least,
    at_most,
)
from ganeti.placement.cluster.picture import AllocPolicy, Group, Instance
from ganeti.placement.kernel.searches import checked_nodes, failing_nodes
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.terms import Allocate, Options
from ganeti.placement.why.absorption import Absorption, Failure
from ganeti.placement.why.excluding import Excluding, Fixed, is_known
from ganeti.placement.why.policy import Window, policy_lacks
from ganeti.placement.why.remedies import Judgement, Spot, judge
from ganeti.placement.why.room import (
    PRIMARY,
    SECONDARY,
    Limit,
    Room,
    primary_limits,
    room_of,
    secondary_limits,
    view_without,
)
from ganeti.placement.why.tallies import Tallies, failures_of
from ganeti.placement.why.tallying import tally
from ganeti.placement.why.trials import Trials


class Question:
    """Where an instance may go. *group* is the number of the group asked for, `NOWHERE` for any."""

    def __init__(self, state: ClusterState, request: Allocate, options: Options, group: int = NOWHERE) -> None:
        self.state = state
        self.request = request
        self.options = options
        self.instance: Instance = request.instance
        self.group = group if request.group else NOWHERE
        self.forced = options.ignore_soft_errors
        self.forced_secondary = False
        self.paired = request.required_nodes == 2
        self.restrict = request.restrict_to if options.restrict_to is None else options.restrict_to
        numbers = {described.uuid: number for number, described in enumerate(state.groups)}
        self.group_of = [numbers[node.group] for node in state.nodes]
        self._rooms: dict[int, Room] = {}
        self._after: dict[int, tuple[Room, tuple[Instance, ...]]] = {}
        self._policies: dict[tuple[int, bool], list[tuple[list[Lack], Window]]] = {}
        self._redundant: dict[int, bool] = {}
        self._exact: dict[int, bool] = {}
        self._failing: dict[int, list[int]] = {}
        self._shortages: dict[int, list[tuple[int, Fixed]]] = {}
        self.excluding = Excluding(state, request, self.group, self.restrict)

    # what is known of nodes

    def room(self, number: int) -> Room:
        if number not in self._rooms:
            self._rooms[number] = room_of(self.state.view(number), number)
        return self._rooms[number]

    def group_at(self, number: int) -> Group:
        return self.state.groups[self.group_of[number]]

    @cached_property
    def absorption(self) -> Absorption:
        """What failures ask of the nodes."""
        names = [node.name for node in self.state.nodes]
        return Absorption(self.failures, names, [not node.unavailable for node in self.state.nodes])

    @cached_property
    def trials(self) -> Trials:
        """What failures tried say beyond that, for the nodes asked about first."""
        return Trials(self)

    @cached_property
    def failures(self) -> list[Failure]:
        """What the failure of another node asks of each, by node number."""
        return failures_of(self.state)

    @cached_property
    def tallies(self) -> Tallies:
        """All nodes and pairs in numbers; with a *primary* that was chosen, those of its group as its secondary."""
        return self.tallied(NOWHERE)

    def tallied(self, primary: int) -> Tallies:
        return tally(self, primary)

    def redundant(self, group: int) -> bool:
        """Whether redundancy is asked for when the instance goes to *group*, once that may be chosen.

        It is not where every node that may be chosen has exclusive storage.
        """
        if group not in self._redundant:
            allowed = {group} if self.request.group else self.open_groups | {group}
            nodes = [node for node, own in zip(self.state.nodes, self.group_of, strict=True) if own in allowed]
            dedicated = all(node.exclusive_storage for node in nodes)
            self._redundant[group] = self.options.capacity_checks and not dedicated
        return self._redundant[group]

    @cached_property
    def open_groups(self) -> set[int]:
        """Numbers of the groups an instance may go to."""
        if self.group != NOWHERE:
            return {self.group}
        unallocable = AllocPolicy.UNALLOCABLE
        return {n for n, described in enumerate(self.state.groups) if described.alloc_policy != unallocable}

    def exact(self, group: int) -> bool:
        """Whether redundancy is judged to the last MiB by sums when the instance goes to *group*."""
        if group not in self._exact:
            traits = traits_of(self.instance.template)
            mirrored = traits is not None and traits.has_secondary and self.paired
            quick = mirrored and not self._migration_tags()
            quick = quick and all(self.failures[number].quick for number in self.members(group))
            self._exact[group] = quick or not self.redundant(group)
        return self._exact[group]

    # failures of nodes that run what has no second node: only a trial tells

    def members(self, group: int) -> list[int]:
        """The nodes whose failure must be absorbed when the instance goes to *group*."""
        return self.members_of(group) if self.request.group else self.state.everyone()

    def checked(self, group: int) -> Sequence[int]:
        """Those of the members whose failure counts."""
        return checked_nodes(self.state, self.members(group), self.options.lost_nodes_fail)

    def failing_now(self, group: int) -> list[int]:
        """Nodes whose failure cannot be absorbed even without the instance."""
        if group not in self._failing:
            self._failing[group] = failing_nodes(self.state, self.checked(group), self.members(group))
        return self._failing[group]

    def failing_with(
        self, instance: Instance, nodes: tuple[int, ...], checked: Sequence[int] | None = None
    ) -> list[int]:
        """Nodes (of those *checked*, ascending; or of all) whose failure could not be absorbed with it on *nodes*."""
        members = self.members(self.group_of[nodes[0]])
        mark = self.state.mark()
        try:
            self.state.add_instance(instance, *nodes)
            checked = checked_nodes(self.state, members, self.options.lost_nodes_fail) if checked is None else checked
            return failing_nodes(self.state, checked, members)
        finally:
            self.state.rollback(mark)

    def _migration_tags(self) -> bool:
        return bool(self.state.rules.migration)

    def members_of(self, group: int) -> list[int]:
        return [number for number, own in enumerate(self.group_of) if own == group]

    # what excludes a node whatever it has free

    def fixed(self, number: int) -> list[Fixed]:
        return self.excluding.of(number)

    def known(self, number: int) -> bool:
        return is_known(self.state.nodes[number])

    # failures that could not be absorbed as things are

    @cached_property
    def unabsorbed_now(self) -> list[Fixed]:
        """All of them that keep the instance out, each with what would have to be freed."""
        groups = [own for own in self.open_groups if self.redundant(own)]
        return [fixed for _, fixed in self.present(groups[0])] if groups else []

    def elsewhere(self, numbers: tuple[int, ...]) -> list[Fixed]:
        """Those for lack of room on other nodes than *numbers*, whose own limits tell; all if one is unknown."""
        own = self.group_of[numbers[0]]
        if not self.redundant(own):
            return []
        told = numbers if all(self.known(number) for number in numbers) else ()
        return [fixed for node, fixed in self.present(own) if node not in told]

    def present(self, group: int) -> list[tuple[int, Fixed]]:
        """The node that has too little room (NOWHERE if that is not one) with the lack and its cure."""
        if group not in self._shortages:
            self._shortages[group] = list(self._find_present(group))
        return self._shortages[group]

    def _find_present(self, group: int) -> Iterator[tuple[int, Fixed]]:
        shortages = self.absorption.shortages
        for shortage in shortages:
            if self.request.group and self.group_of[shortage.node] != group:
                continue
            if not (self.options.lost_nodes_fail or self.state.online[shortage.failing]):
                continue
            name, failing = self.room(shortage.node).name, self.room(shortage.failing).name
            words = (
                f"the failure of {failing} could not be absorbed even without the instance: {name} would have to find "
                f"{at_least(shortage.needed_mib)} of {shortage.resource}, {at_most(shortage.free_mib)} are free"
            )
            lack = Lack(REDUNDANCY_NOW, words, FailMode.FailN1, shortage.needed_mib, shortage.free_mib, "MiB", name)
            missing = shortage.missing_mib
            share = missing / max(1, self.instance.memory_mib)
            yield shortage.node, (lack, Change(NODE, shortage.resource, name, missing, REDUNDANCY_NOW, share))
        if not self.exact(group) and not shortages and (unabsorbed := self.failing_now(group)):
            words = f"even without the instance {self.unabsorbed(unabsorbed)}"
            name = self.room(unabsorbed[0]).name
            yield NOWHERE, (Lack(REDUNDANCY_NOW, words, FailMode.FailN1, "", name), None)

    def unabsorbed(self, failing: list[int], *, primary: int = NOWHERE) -> str:
        """Which failure could not be absorbed, and what its instances would need beside what there is.

        *primary* is the node on which the new instance would run.
        """
        node, new_mib = self.room(failing[0]), self.instance.memory_mib if self.instance.uses_memory else 0
        sizes = [instance.memory_mib for instance in node.primaries if instance.uses_memory]
        sizes += [new_mib] if primary == node.number else []
        others = [n for n in self.members_of(self.group_of[failing[0]]) if n != failing[0]]
        free_on = {n: self.failures[n].free_memory_mib - (new_mib if n == primary else 0) for n in others}
        roomiest = max(others, key=free_on.__getitem__, default=None)
        count = "1 instance needs" if len(sizes) == 1 else f"{len(sizes)} instances need"
        words = f"the failure of {node.name} could not be absorbed: "
        if roomiest is None:
            return f"{words}its group has no other node"
        if max(sizes, default=0) < free_on[roomiest] and sum(sizes) < sum(max(0, mib) for mib in free_on.values()):
            whose = "its 1 instance finds" if len(sizes) == 1 else f"its {len(sizes)} instances find"
            return f"{words}{whose} no place on the other nodes, by the policy or for want of disk"
        free = sum(max(0, mib) for mib in free_on.values())
        largest = f", the largest {at_least(max(sizes))}" if len(sizes) > 1 else ""
        return (
            f"{words}its {count} {at_least(sum(sizes))} of memory{largest}; {at_most(free)} are free elsewhere, "
            f"at most {at_most(free_on[roomiest])} ({self.state.nodes[roomiest].name})"
        )

    # verdicts

    def policy(self, number: int) -> list[tuple[list[Lack], Window]]:
        return self.policy_of(self.group_of[number], self.state.nodes[number].exclusive_storage)

    def policy_of(self, group: int, exclusive: bool) -> list[tuple[list[Lack], Window]]:
        if (group, exclusive) not in self._policies:
            policy = self.state.groups[group].policy
            self._policies[group, exclusive] = policy_lacks(policy, self.instance, exclusive)
        return self._policies[group, exclusive]

    def spot(self, number: int, role: str, primary: int = NOWHERE) -> Spot:
        """*number* in *role*; of a secondary *primary* is the other node."""
        room = self.room(number)
        after, leaving = room, tuple[Instance, ...]()
        if role == PRIMARY and not self.forced:
            after, leaving = self._without_holders(number)
        elif role == SECONDARY and primary != NOWHERE:
            after = self._without_mirrors(number, primary)
        present = tuple(self._limits(room, role, primary))
        limits = present if after is room else tuple(self._limits(after, role, primary))
        forced = (self.forced and role == PRIMARY) or self.forced_secondary
        return Spot(after, role, present, limits, self.group_at(number), primary, forced, leaving)

    def _without_holders(self, number: int) -> tuple[Room, tuple[Instance, ...]]:
        """The node after those left that share an exclusion tag with the instance."""
        if number not in self._after:
            room = self.room(number)
            holders = [] if self.instance.forthcoming else room.holders(self.instance)
            if holders:
                room = room_of(view_without(self.state.view(number), holders), number)
            self._after[number] = room, tuple(holders)
        return self._after[number]

    def _without_mirrors(self, number: int, primary: int) -> Room:
        """A secondary, without its part of the instances that have to leave the primary."""
        room, leaving = self.room(number), () if self.forced else self._without_holders(primary)[1]
        gone = {instance.name for instance in leaving if instance.secondary == room.name}
        if not gone:
            return room
        view = self.state.view(number)
        staying = [pair for pair in view.secondaries if pair[0].name not in gone]
        return room_of(replace(view, secondaries=staying, judged_failing=None), number)

    def _limits(self, room: Room, role: str, primary: int) -> Iterator[Limit]:
        instance = self.instance
        memory = instance.memory_mib if instance.uses_memory else 0
        absorption = self.absorption if self.redundant(self.group_of[room.number]) else None
        if role == PRIMARY:
            yield from primary_limits(room, instance, forced=self.forced)
            if absorption is not None:
                yield from absorption.primary_limits(room, memory)
        else:
            yield from secondary_limits(room, instance, primary, forced=self.forced_secondary)
            if absorption is not None:
                yield from absorption.secondary_limits(room, primary, memory)

    def alone(self, number: int, role: str = PRIMARY) -> Judgement:
        """One node in a role; for a secondary without regard to its primary, so no more than it would be with one."""
        fixed = [*self.fixed(number), *self.elsewhere((number,))]
        if not self.known(number):
            return _unknown(fixed)
        return judge(self.instance, [self.spot(number, role)], self.policy(number), fixed)

    def pair(self, primary: int, secondary: int) -> Judgement:
        """Two nodes of one group together."""
        fixed = list(dict.fromkeys([*self.fixed(primary), *self.fixed(secondary)]))
        fixed += self.elsewhere((primary, secondary))
        if not (self.known(primary) and self.known(secondary)):
            return _unknown(fixed)
        spots = [self.spot(primary, PRIMARY), self.spot(secondary, SECONDARY, primary)]
        return judge(self.instance, spots, self.policy(primary), fixed)


def _unknown(fixed: list[Fixed]) -> Judgement:
    return Judgement(tuple(lack for lack, _ in fixed), (tuple(change for _, change in fixed if change),))
