# SPDX-License-Identifier: BSD-2-Clause
"""A state that follows its cluster: what changed is changed in the kernel, and the rest is not read again.

Afterwards everything is as if the cluster had been read anew, but for the numbers of instances. For clusters whose
instances stand in the order of their names.
"""

from collections.abc import Iterable, Sequence

from ganeti.base.errors import ExecutionError, ParameterError
from ganeti.placement.cluster.picture import Instance, Node
from ganeti.placement.definition.score import disk_floor_mib
from ganeti.placement.kernel import calls as kernel
from ganeti.placement.kernel.state import NOWHERE, ClusterState


class Renewal:
    """Of one state; between two calls of `follow` only what a mark takes back may be done to it."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._library = kernel.library()
        self._numbers = {instance.name: number for number, instance in enumerate(state.instances)}
        self._touched: dict[int, None] = {}

    def follow(self, gone: Iterable[str], come: Sequence[Instance], nodes: Iterable[Node]) -> None:
        """Take out the instances of the names *gone*, put in those that have *come*, and renew *nodes*.

        An instance that changed goes and comes. A node's name, group, tags and kind of storage must be those of before.
        Raises `ParameterError` for numbers beyond 64 bits, `ExecutionError` without memory; then the state is of no use
        any more.
        """
        self._touched.clear()
        try:
            for name in gone:
                if name in self._numbers:
                    self._take_out(self._numbers.pop(name))
            for instance in come:
                self._put_in(instance)
            for node in nodes:
                self._renew(node)
            for number in self._touched:
                if number != NOWHERE:
                    self._count_anew(number)
        except (OverflowError, ValueError) as err:
            raise ParameterError(f"A number of the cluster data is beyond reason: {err}") from err

    def _take_out(self, number: int) -> None:
        """The last instance gets the number of the one that goes."""
        state, last = self._state, len(self._state.instances) - 1
        for instance in (number, last):
            self._touch(state.primary_of[instance], state.secondary_of[instance])
        if self._library.kernel_move(state.handle, number, NOWHERE, NOWHERE) < 0:
            raise ExecutionError("There is no memory left to take an instance out: give the machine more, or ask again")
        self._library.kernel_drop(state.handle, number)
        state.instances[number] = state.instances[last]
        state.primary_of[number] = state.primary_of[last]
        state.secondary_of[number] = state.secondary_of[last]
        del state.instances[last], state.primary_of[last], state.secondary_of[last]
        state.fewest_instances = min(state.fewest_instances, last)
        if number < last:
            self._numbers[state.instances[number].name] = number
        state.renewed.append(number)

    def _put_in(self, instance: Instance) -> None:
        state = self._state
        primary = state.node_number[instance.primary]
        secondary = state.node_number[instance.secondary] if instance.secondary else NOWHERE
        self._numbers[instance.name] = number = state.add_instance(instance, primary, secondary)
        state.instances[number] = instance
        state.renewed.append(number)
        self._touch(primary, secondary)

    def _renew(self, node: Node) -> None:
        state = self._state
        number = state.node_number[node.name]
        state.nodes = (*state.nodes[:number], node, *state.nodes[number + 1 :])
        state.online[number] = not node.unavailable
        state.low_disk[number] = disk_floor_mib(state.min_disk_ratio, node.total_disk_mib)
        self._touch(number)

    def _touch(self, *nodes: int) -> None:
        self._touched.update(dict.fromkeys(nodes))

    def _count_anew(self, number: int) -> None:
        state = self._state
        named = [(state.instances[own].name, own) for own in state.listed(number)]
        named += [(state.instances[own].name, ~own) for own in state.listed(number, secondary=True)]
        whole, broken = state.node_numbers(number)
        roles = kernel.shorts([role for _, role in sorted(named, key=lambda one: one[0])])
        state.extra_memory[number] = self._library.kernel_renew_node(
            state.handle,
            number,
            kernel.wholes(whole),
            kernel.numbers(broken),
            state.nodes[number].node_cpus,
            roles,
            len(named),
            state.n1_by_report,
        )
