# SPDX-License-Identifier: BSD-2-Clause
"""The cluster that placement changes move by move: names here, numbers in the compiled kernel.

Numbers of nodes, instances and groups follow the order of the input. Invariant: after every change the values the
kernel has of a node equal what ``definition`` says of its lists.
"""

import ctypes
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ganeti.base.errors import NO_MEMORY, ExecutionError, ParameterError
from ganeti.model.templates import traits_of
from ganeti.placement.cluster.picture import Cluster, Group, Instance, Node
from ganeti.placement.cluster.tags import TagRules, read_rules
from ganeti.placement.definition.score import COMPONENTS, NodeView, disk_floor_mib, most_vcpu_ratio
from ganeti.placement.kernel import calls as kernel

NOWHERE = -1
_MIRRORED, _STARTS_ELSEWHERE, _LOST = 0, 1, 2
_NO_NODE_HAS_IT = 0
_MOST_FORMS = 512
_NO_MEMORY = "There is no memory left to move instances about: give the machine more, or ask again"
_KernelForm = tuple[Instance, ctypes.Array[ctypes.c_int64], ctypes.Array[ctypes.c_double], ctypes.Array[ctypes.c_int32]]


class ClusterState:
    """Nodes and instances by number.

    Raises `ParameterError` for numbers beyond 64 bits, `ExecutionError` without memory.

    *n1_by_report*: until something changes on a node, whether it fails N+1 is judged by the free memory it reported, as
    3.0 does; otherwise by what is known of its instances, which needs one MiB more to pass.
    Names must exist: `KeyError` for a node or group that does not (readers check before).
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        exclusion_prefixes: Iterable[str] = (),
        min_disk_ratio: float = 0.0,
        max_cpu_ratio: float | None = None,
        n1_by_report: bool = True,
    ) -> None:
        self.nodes = tuple(cluster.nodes)
        self.groups = tuple(cluster.groups)
        self.policy = cluster.policy
        self.rules: TagRules = read_rules(cluster.tags, exclusion_prefixes)
        self.node_number = {node.name: number for number, node in enumerate(self.nodes)}
        group_number = {group.uuid: number for number, group in enumerate(self.groups)}
        self.group_of = [group_number[node.group] for node in self.nodes]
        self._members: list[list[int]] = [[] for _ in self.groups]
        for number, group in enumerate(self.group_of):
            self._members[group].append(number)
        self.online = [not node.unavailable for node in self.nodes]
        self.vcpu_ratio = [
            self.groups[group].policy.vcpu_ratio if max_cpu_ratio is None else max_cpu_ratio for group in self.group_of
        ]
        self.spindle_ratio = [self.groups[group].policy.spindle_ratio for group in self.group_of]
        self.instances: list[Instance] = list(cluster.instances)
        self.fewest_instances = 0
        """How few there were since `lost_policies` last looked: those before are the same ones, or `renewed`."""
        self.primary_of = [self._number_of(instance.primary) for instance in self.instances]
        self.secondary_of = [self._number_of(instance.secondary) for instance in self.instances]
        self.renewed: list[int] = []
        """Numbers of instances that came in place of others (``renewal``), in the order of time."""
        self._number_by_name: dict[str, int] = {}
        self._indexed = 0, 0
        """How many of the instances, and of those that were renewed, are in the index of names."""
        self._log: list[tuple[int, int, int]] = []
        self._kernel_forms: dict[int, _KernelForm] = {}
        """By identity, which holds as long as the instance is kept with it."""
        self._marks = 0
        self._tags = _Tags(self.rules, self.nodes, self.instances)
        self._kernel_tags = len(self._tags.exclusion)
        """How many exclusion tags the kernel has room for."""
        self.min_disk_ratio, self.n1_by_report = min_disk_ratio, n1_by_report
        try:
            self.low_disk = [disk_floor_mib(min_disk_ratio, node.total_disk_mib) for node in self.nodes]
            self._handle = self._new_kernel()
            self.extra_memory = self._load()
        except (OverflowError, ValueError) as err:
            raise ParameterError(f"A number of the cluster data is beyond reason: {err}") from err
        for promise in cluster.promised:
            self.add_instance(promise, self._number_of(promise.primary), self._number_of(promise.secondary))

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle:
            self._library.kernel_free(handle)

    def _new_kernel(self) -> int:
        self._library = kernel.library()
        whole, broken = array("q"), array("d")
        self._domains, allowed = self._tags.domains(self.rules, self.nodes)
        for number in range(len(self.nodes)):
            own, ratios = self.node_numbers(number)
            whole.extend(own)
            broken.extend(ratios)
        tags = self._tags
        cpus = kernel.wholes([node.node_cpus for node in self.nodes])
        handle = self._library.kernel_new(
            len(self.nodes),
            kernel.wholes(whole),
            kernel.numbers(broken),
            cpus,
            len(tags.exclusion),
            len(tags.location),
            len(tags.desired),
            len(allowed),
        )
        if not handle:
            raise ExecutionError(NO_MEMORY)
        for number, node in enumerate(self.nodes):
            for tag in self.rules.location_of(node.tags) if tags.location else ():
                self._library.kernel_set_location(handle, number, tags.location[tag])
            for tag in self.rules.location_of(node.tags) & tags.desired.keys():
                self._library.kernel_set_desired(handle, number, tags.desired[tag])
        self._library.kernel_set_domains(handle, kernel.flags(b"".join(allowed)))
        return int(handle)

    def node_numbers(self, number: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """What the kernel wants to know of a node; raises `OverflowError` for what it cannot take."""
        node = self.nodes[number]
        whole = (
            *(self.group_of[number], self.online[number], node.exclusive_storage, self.low_disk[number]),
            *(self._domains[number], node.node_memory_mib, node.free_memory_mib, node.free_disk_mib),
            node.free_spindles,
        )
        ratios = most_vcpu_ratio(self.vcpu_ratio[number]), self.spindle_ratio[number] * node.spindles
        return whole, (
            node.total_memory_mib,
            node.total_disk_mib,
            node.total_cpus,
            node.spindles,
            node.cpu_speed,
            *ratios,
        )

    def _load(self) -> list[int]:
        whole, loads, tags = array("q"), array("d"), array("i")
        for instance in self.instances:
            numbers, own = _described(self._tags, self.rules, instance)
            whole.extend(numbers)
            loads.extend(instance.load)
            tags.extend(own)
        places = array("i", [place for both in zip(self.primary_of, self.secondary_of, strict=True) for place in both])
        extra = kernel.wholes([node.free_memory_mib for node in self.nodes])
        failed = self._library.kernel_load(
            self._handle,
            len(self.instances),
            kernel.wholes(whole),
            kernel.numbers(loads),
            kernel.shorts(tags),
            len(tags),
            kernel.shorts(places),
            self.n1_by_report,
            extra,
        )
        if failed:
            raise ExecutionError(NO_MEMORY)
        for number, node in enumerate(self.nodes):
            if node.cpu_load is not None:
                self._library.kernel_set_cpu_load(self._handle, number, node.cpu_load)
        return list(extra[: len(self.nodes)])

    def _number_of(self, name: str) -> int:
        return self.node_number[name] if name else NOWHERE

    # reading

    @property
    def handle(self) -> int:
        """What calls of the kernel want as their first argument."""
        return self._handle

    def listed(self, node: int, *, secondary: bool = False) -> list[int]:
        """Numbers of the primaries (or secondaries) of *node*, newest first."""
        room = (ctypes.c_int32 * max(1, len(self.instances)))()
        count = self._library.kernel_list(self._handle, node, secondary, room)
        return room[:count]

    def primary_instances(self, node: int) -> list[Instance]:
        """Instances whose primary is *node*, newest first."""
        return [self.instances[number] for number in self.listed(node)]

    def view(self, node: int) -> NodeView:
        """Give *node* as the definition sees it."""
        whole, load = (ctypes.c_int64 * kernel.VALUES)(), (ctypes.c_double * 4)()
        self._library.kernel_values(self._handle, node, whole, load)
        primaries, partner_tags = self.listed(node), []
        if self.rules.location:
            for number in primaries:
                other = self.secondary_of[number]
                partner_tags.append(self.rules.location_of(self.nodes[other].tags) if other != NOWHERE else frozenset())
        return NodeView(
            node=self.nodes[node],
            vcpu_ratio=self.vcpu_ratio[node],
            spindle_ratio=self.spindle_ratio[node],
            low_disk_mib=self.low_disk[node],
            extra_memory_mib=self.extra_memory[node],
            free_disk_mib=whole[2],
            free_spindles=whole[3],
            forthcoming_free_memory_mib=whole[6],
            primaries=[self.instances[number] for number in primaries],
            secondaries=[(self.instances[n], self.primary_of[n]) for n in self.listed(node, secondary=True)],
            primary_location_tags=partner_tags,
            rules=self.rules,
            judged_failing=bool(self._library.kernel_fails(self._handle, node)),
            running_load=(load[0], load[1], load[2], load[3]),
        )

    def name_of(self, node: int) -> str:
        return self.nodes[node].name if node != NOWHERE else ""

    def group_members(self, group: int) -> list[int]:
        """Numbers of the nodes of a group, ascending."""
        return list(self._members[group])

    def everyone(self) -> list[int]:
        return list(range(len(self.nodes)))

    def group_of_instance(self, instance: int) -> Group:
        return self.groups[self.group_of[self.primary_of[instance]]]

    def instance_number(self, name: str) -> int | None:
        """Find an instance by its exact name."""
        count = len(self.instances)
        indexed, renewals = self._indexed
        fresh = [number for number in self.renewed[renewals:] if number < count]
        for number in (*range(min(indexed, count), count), *fresh):
            self._number_by_name[self.instances[number].name] = number
        self._indexed = count, len(self.renewed)
        number = self._number_by_name.get(name, NOWHERE)
        is_there = NOWHERE < number < count and self.instances[number].name == name
        return number if is_there else None

    def score(self, members: Sequence[int]) -> float:
        """The cluster score over the nodes *members*, ascending (spec: htools, 3)."""
        return float(self._library.kernel_score(self._handle, kernel.wholes(members), len(members)))

    def components(self, members: Sequence[int]) -> dict[str, float]:
        """Each component of the score, unweighted, in the order of ``definition.COMPONENTS``."""
        room = (ctypes.c_double * kernel.COMPONENTS)()
        self._library.kernel_components(self._handle, kernel.wholes(members), len(members), room)
        return {component.name: value for component, value in zip(COMPONENTS, room, strict=True)}

    def refuse_primary(self, number: int, node: int, *, forced: bool = False) -> int:
        """The failure mode that keeps an instance from running on a node it is not on; 0 if none does."""
        return int(self._library.kernel_refuse_primary(self._handle, number, node, forced))

    def refuse_secondary(self, number: int, node: int, primary: int, *, forced: bool = False) -> int:
        """The failure mode that keeps a node from being the secondary of an instance on *primary*; 0 if none does."""
        return int(self._library.kernel_refuse_secondary(self._handle, number, node, primary, forced))

    def in_order(self, numbers: Iterable[int]) -> list[int]:
        """Instances in the order of the cluster they were read from."""
        if not self.renewed:
            return sorted(numbers)
        return sorted(numbers, key=lambda number: self.instances[number].name)

    # changing

    def add_instance(self, instance: Instance, primary: int, secondary: int = NOWHERE) -> int:
        """Put a new instance on its nodes (or on none); gives its number. Nothing is checked."""
        _, whole, loads, tags = self._kernel_form(instance)
        number = int(self._library.kernel_add(self._handle, whole, loads, tags, primary, secondary))
        if number < 0:
            raise ExecutionError(_NO_MEMORY)
        names = self.name_of(primary), self.name_of(secondary)
        if (instance.primary, instance.secondary) != names:
            instance = replace(instance, primary=names[0], secondary=names[1])
        self.instances.append(instance)
        self.primary_of.append(primary)
        self.secondary_of.append(secondary)
        self._log.append((number, NOWHERE, NOWHERE))
        return number

    def _kernel_form(self, instance: Instance) -> _KernelForm:
        """What the kernel gets of an instance. It is kept: a reservation is added for each question."""
        known = self._kernel_forms.get(id(instance))
        if known is not None and known[0] is instance:
            return known
        numbers, own = _described(self._tags, self.rules, instance)
        if (wanted := len(self._tags.exclusion)) > self._kernel_tags:
            if self._library.kernel_grow_tags(self._handle, wanted):
                raise ExecutionError(NO_MEMORY)
            self._kernel_tags = wanted
        try:
            whole = kernel.wholes(numbers)
        except OverflowError as err:
            raise ParameterError(f"A number of instance {instance.name} is beyond reason: {err}") from err
        if len(self._kernel_forms) >= _MOST_FORMS:
            self._kernel_forms.clear()
        told = self._kernel_forms[id(instance)] = instance, whole, kernel.numbers(instance.load), kernel.shorts(own)
        return told

    def move(self, number: int, primary: int, secondary: int = NOWHERE) -> None:
        """Give instance *number* these nodes in place of its present ones. Nothing is checked.

        Raises `ExecutionError` without memory, and nothing has changed; so does `add_instance`.
        """
        if self._library.kernel_move(self._handle, number, primary, secondary) < 0:
            raise ExecutionError(_NO_MEMORY)
        self._log.append((number, self.primary_of[number], self.secondary_of[number]))
        self.primary_of[number] = primary
        self.secondary_of[number] = secondary

    def mark(self) -> tuple[int, int, int]:
        """A point to come back to; marks nest, and each is rolled back or settled in turn."""
        if not self._marks:
            self._log.clear()
        self._marks += 1
        return int(self._library.kernel_mark(self._handle)), len(self._log), len(self.instances)

    def undo(self, mark: tuple[int, int, int]) -> None:
        """Undo every change since *mark*, which stays."""
        self.rollback(mark)
        self._marks += 1
        self._library.kernel_mark(self._handle)

    def rollback(self, mark: tuple[int, int, int]) -> None:
        """Undo every change since *mark*, and the mark."""
        place, log, count = mark
        self._library.kernel_rollback(self._handle, place)
        while len(self._log) > log:
            number, primary, secondary = self._log.pop()
            self.primary_of[number] = primary
            self.secondary_of[number] = secondary
        del self.instances[count:], self.primary_of[count:], self.secondary_of[count:]
        self.fewest_instances = min(self.fewest_instances, count)
        self._marks -= 1

    def settle(self, mark: tuple[int, int, int]) -> None:
        """Keep the changes since *mark*; an outer mark can still undo them."""
        self._marks -= 1
        self._library.kernel_settle(self._handle)
        if not self._marks:
            self._log.clear()


def _described(tags: "_Tags", rules: TagRules, instance: Instance) -> tuple[tuple[int, ...], list[int]]:
    """The numbers of an instance as ``describe`` of the kernel wants them, and its tags."""
    traits = traits_of(instance.template)
    exclusion, desired = tags.of(rules, instance)
    spindles = instance.total_spindles
    fate = _LOST
    if traits is not None and traits.has_secondary:
        fate = _MIRRORED
    elif traits is not None and traits.evacuable:
        fate = _STARTS_ELSEWHERE
    numbers = (
        *(instance.memory_mib, instance.disk_mib, instance.counted_vcpus, instance.claimed_memory_mib),
        *(instance.spindle_use, NOWHERE if spindles is None else spindles, fate, instance.uses_memory),
        *(instance.forthcoming, traits is not None and traits.uses_node_disk),
        *(traits is not None and traits.has_secondary, traits is not None and traits.movable),
        *(instance.auto_balance, len(exclusion), len(desired)),
    )
    return numbers, exclusion + desired


class _Tags:
    """Tags that matter, as numbers."""

    def __init__(self, rules: TagRules, nodes: Sequence[Node], instances: Sequence[Instance]) -> None:
        self.exclusion: dict[str, int] = {}
        self.location: dict[str, int] = {}
        self.desired: dict[str, int] = {"": _NO_NODE_HAS_IT}
        for node in nodes if rules.location else ():
            for tag in node.tags:
                if tag in rules.location_of((tag,)):
                    self.location.setdefault(tag, len(self.location))
                    if rules.desired_of((tag,)):
                        self.desired.setdefault(tag, len(self.desired))
        for instance in instances if rules.exclusion else ():
            self.of(rules, instance)

    def of(self, rules: TagRules, instance: Instance) -> tuple[list[int], list[int]]:
        """Numbers of an instance's exclusion tags and desired locations; new exclusion tags get new numbers."""
        if not instance.tags:
            return [], []
        exclusion = [
            self.exclusion.setdefault(tag, len(self.exclusion)) for tag in sorted(rules.exclusion_of(instance.tags))
        ]
        desired = [self.desired.get(tag, _NO_NODE_HAS_IT) for tag in sorted(rules.desired_of(instance.tags))]
        return exclusion, desired

    @staticmethod
    def domains(rules: TagRules, nodes: Sequence[Node]) -> tuple[list[int], list[bytes]]:
        """The migration domain of each node, and per source domain whether each target domain receives it."""
        sets: dict[frozenset[str], int] = {}
        own = [sets.setdefault(rules.migration_of(node.tags) if rules.migration else frozenset(), 0) for node in nodes]
        if not rules.migration:
            return own, [b"\1"]
        for number, tags in enumerate(sets):
            sets[tags] = number
        rows = [bytes(source <= rules.receivable(target) for target in sets) for source in sets]
        return [sets[rules.migration_of(node.tags)] for node in nodes], rows or [b"\1"]
