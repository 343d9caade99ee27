# SPDX-License-Identifier: BSD-2-Clause
"""The cluster before and after an allocator's answer, as ``-p`` and ``-S`` of hail show it (spec: htools, 10)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ganeti.model.templates import PAIRED, TEMPLATES
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.terms import (
    Allocate,
    AllocateSecondary,
    Answer,
    Moves,
    MultiAllocate,
    MultiPlacement,
    Placement,
    Relocate,
    Request,
)
from ganeti.tools.htools.loading.sources import Loaded
from ganeti.tools.htools.printing import report
from ganeti.tools.htools.printing.request_record import is_dedicated, named_group

_NEW = -1
"""What 3.1 calls the one new instance by number, which puts it before all others."""
_BEFORE, _AFTER = ("pre-ialloc", "before iallocator run"), ("post-ialloc", "after iallocator run")
Called = dict[int, int]
"""By our numbers those of 3.1, in their order."""


class AllocatorStates:
    """Shows the cluster of *loaded* before and after *request*, which was read from *wanted*."""

    def __init__(self, loaded: Loaded, request: Request, wanted: Mapping[str, Any]) -> None:
        self._loaded, self._request, self._named = loaded, request, named_group(wanted)
        self._state: ClusterState = loaded.state()

    def show_before(self) -> None:
        self._show("Initial", _BEFORE, self._state.everyone(), self._called())

    def show_after(self, found: Answer) -> None:
        """Change the state as the answer says, and show it; raises `OSError`."""
        called = self._apply(found)
        self._show("Final", _AFTER, self._nodes_left(found), called)

    def _called(self) -> Called:
        return {number: number for number in range(len(self._state.instances))}

    def _show(self, when: str, parts: tuple[str, str], nodes: Sequence[int], called: Called) -> None:
        """Show and save *nodes*.

        Instances on nodes that are not shown cannot be written: the text would name nodes that it does not have.
        """
        state, loaded, shown = self._state, self._loaded, {NOWHERE, *nodes}
        fields = loaded.options.print_nodes
        if fields is not None:
            from ganeti.tools.htools.printing.tables import node_table

            first = loaded.options.first_number
            report.complain("", f"{when} cluster status:")
            report.complain(node_table(state, nodes, fields, loaded.alias_of, first=first, called=called))
        written = [n for n in called if state.primary_of[n] in shown and state.secondary_of[n] in shown]
        report.save_state(loaded.options, state, loaded, parts, (nodes, written))

    def _nodes_left(self, found: Answer) -> Sequence[int]:
        """The nodes that 3.1 has left: of the groups that something new was placed in, if it compared no groups.

        That is where a group is named, and where what is lost decides. All nodes, if nothing new was placed.
        """
        chosen: list[str] = []
        if isinstance(self._request, Allocate | MultiAllocate) and (
            self._named is not None or is_dedicated(self._loaded.cluster, self._request, None)
        ):
            match found:
                case Placement():
                    chosen = list(found.nodes)
                case MultiPlacement():
                    chosen = [node for _, nodes in found.placed for node in nodes]
        state = self._state
        groups = {state.group_of[number] for number in self._numbers(chosen)}
        return [number for number in state.everyone() if not groups or state.group_of[number] in groups]

    def _apply(self, found: Answer) -> Called:
        """Change the state as the answer says; gives what the instances are called by number then."""
        state, request, before = self._state, self._request, self._called()
        match found:
            case MultiPlacement():
                wanted = request.requests if isinstance(request, MultiAllocate) else ()
                by_name = {one.instance.name: one.instance for one in wanted}
                for name, nodes in found.placed:
                    state.add_instance(by_name[name], *self._numbers(nodes))
            case Moves():
                numbers = {instance.name: number for number, instance in enumerate(state.instances)}
                for name, _, nodes in found.moved:
                    state.move(numbers[name], *self._numbers(nodes))
            case Placement() if isinstance(request, Allocate):
                return {state.add_instance(request.instance, *self._numbers(found.nodes)): _NEW} | before
            case Placement() if isinstance(request, AllocateSecondary):
                old, new = self._mirror(request.name, found.nodes[0])
                return {new if number == old else number: number for number in before}
            case Placement() if isinstance(request, Relocate):
                self._relocate(request.name, found.nodes[0])
        return self._called()

    def _mirror(self, name: str, secondary: str) -> tuple[int, int]:
        """Give an instance that has none a secondary; its old number, at no node now, and its new one."""
        state, number = self._state, self._number_of(name)
        primary = state.primary_of[number]
        state.move(number, NOWHERE)
        mirrored = replace(state.instances[number], template=PAIRED)
        return number, state.add_instance(mirrored, primary, state.node_number[secondary])

    def _relocate(self, name: str, target: str) -> None:
        """Give an instance its new node: the secondary if its disks are mirrored."""
        state, number = self._state, self._number_of(name)
        node = state.node_number[target]
        if TEMPLATES[state.instances[number].template].has_secondary:
            state.move(number, state.primary_of[number], node)
        else:
            state.move(number, node)

    def _number_of(self, name: str) -> int:
        return next(number for number, instance in enumerate(self._state.instances) if instance.name == name)

    def _numbers(self, nodes: Iterable[str]) -> list[int]:
        return [self._state.node_number[node] for node in nodes]
