# SPDX-License-Identifier: BSD-2-Clause
"""From the options of a tool to the cluster it works on (spec: htools, 1).

One back end gives the cluster; then nodes are marked offline, loads set, and the instances told apart that may move.
"""

import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from ganeti.base.errors import ParameterError, TransportError
from ganeti.placement.cluster.picture import Cluster, Instance, Node
from ganeti.placement.definition.score import whole_mib, wrapped
from ganeti.tools.htools.command_line.options import Options
from ganeti.tools.htools.haskell.endless import read_file
from ganeti.tools.htools.haskell.failures import ToolError, UnreadableText, failed_open, read_text
from ganeti.tools.htools.haskell.quoting import quoted
from ganeti.tools.htools.loading import simulate, text, utilization

if TYPE_CHECKING:
    from ganeti.placement.kernel.state import ClusterState

N1_RULE = "HTOOLS_N1"
"""Environment: ``3.1`` judges nodes that nothing has changed on by their instances too, not by what they reported."""
SILENT = 0
"""The one verbosity at which data may be inconsistent without a word: 3.1 speaks again below it."""
_TOLERATED_MEMORY_MIB = 512
_TOLERATED_DISK_MIB = 1024
_OFFLINE = "offline"


@dataclass(frozen=True)
class Source:
    """What a back end gives: the cluster, and the nodes it calls master (one, or none where it does not know)."""

    cluster: Cluster
    masters: Sequence[str] = ()


@dataclass(frozen=True)
class Loaded:
    """The cluster as the options want it; *as_read* is without the nodes that ``-O`` marks offline.

    *movable* says by instance number which may be moved: chosen by the options, and with its nodes in one group.
    *split* names those with nodes in two.
    """

    cluster: Cluster
    as_read: Cluster
    masters: Sequence[str]
    movable: list[bool]
    split: list[str]
    options: Options
    prepare: "Callable[[ClusterState], None]" = lambda state: None
    """What is done to each new state."""

    @property
    def master(self) -> str:
        """The master node's name; empty where the back end does not know it."""
        return self.masters[0] if self.masters else ""

    def state(self) -> "ClusterState":
        """A fresh state of the cluster, with the limits of the options."""
        from ganeti.placement.kernel.state import ClusterState

        state = ClusterState(
            self.cluster,
            exclusion_prefixes=self.options.exclusion_tags or (),
            min_disk_ratio=self.options.min_disk_ratio,
            max_cpu_ratio=self.options.max_cpu_ratio,
            n1_by_report=os.environ.get(N1_RULE) != "3.1",
        )
        self.prepare(state)
        return state

    @cached_property
    def suffix(self) -> str:
        """What is cut from the names that are shown: the end that all of them share; empty if there is none."""
        names = [node.name for node in self.cluster.nodes]
        return common_suffix([*names, *(instance.name for instance in self.cluster.instances)])

    def alias_of(self, name: str) -> str:
        """The name of a node or an instance as it is shown."""
        return name[: -len(self.suffix)] if self.suffix and name.endswith(self.suffix) else name

    @cached_property
    def selected_instances(self) -> list[str]:
        """Names of the instances that may be moved."""
        return [instance.name for instance, may in zip(self.cluster.instances, self.movable, strict=True) if may]


def load(options: Options, tell: Callable[[Source], None] | None = None) -> Loaded:
    """Read the cluster the options name; raises `ParameterError`. Tells of inconsistent data on standard error.

    *tell* is called with what was read before the names of ``-O`` are looked at: what a tool says by then it says even
    where there is no such node.
    """
    _check_one_source(options)
    measured = utilization.read_file(options.utilization_file) if options.utilization_file is not None else {}
    try:
        source = _source(options)
    except (text.TextError, simulate.SpecificationError) as error:
        raise ToolError(f"failed to load data, aborting: {error}") from None
    except OSError as error:
        raise ToolError(f"failed to load data, aborting: {failed_open(error)}") from None
    return prepared(source, options, tell, measured)


def _check_one_source(options: Options) -> None:
    given = [options.rapi or None, options.luxi, options.text_data]
    if sum(value is not None for value in given) > 1:
        raise ToolError("Only one of the rapi, luxi, and data files options should be given.")


def _source(options: Options) -> Source:
    """Ask the one back end; the order of choice is that of 3.1."""
    if options.rapi:
        return _read_rapi(options.rapi, options)
    if options.luxi is not None:
        return _read_luxi(options.luxi, options)
    if options.simulate:
        return Source(*simulate.read(options.simulate))
    if options.text_data is not None:
        return Source(*text.read(read_text(options.text_data)))
    if options.ialloc_source is not None:
        return _read_allocator_input(options.ialloc_source, options)
    raise ToolError("failed to load data, aborting: No backend selected! Exiting.")


def _read_rapi(address: str, options: Options) -> Source:
    from ganeti.tools.htools.loading import rapi

    try:
        cluster, master = rapi.read(address, static_node_memory_mib=options.static_node_memory_mib)
    except ParameterError as error:
        raise ToolError(f"failed to load data, aborting: {error}") from None
    return Source(cluster, [master])


def _read_luxi(path: str, options: Options) -> Source:
    from ganeti.tools.htools.loading import luxi

    try:
        cluster, master = luxi.read(path, static_node_memory_mib=options.static_node_memory_mib)
    except (ParameterError, TransportError) as error:
        raise ToolError(f"failed to load data, aborting: {error}") from None
    return Source(cluster, [master])


def _read_allocator_input(path: str, options: Options) -> Source:
    from ganeti.tools.htools.loading import allocator_input

    data = read_file(path)
    try:
        cluster, _ = allocator_input.read(data, path, static_node_memory_mib=options.static_node_memory_mib)
    except UnreadableText as error:
        raise ToolError(f"failed to load data, aborting: {error}") from None
    return Source(cluster)


def prepared(
    source: Source,
    options: Options,
    tell: Callable[[Source], None] | None = None,
    measured: Mapping[str, utilization.Load] = MappingProxyType({}),
) -> Loaded:
    """What `load` does after reading: loads, offline nodes, movable instances, the check of the data."""
    cluster = _with_loads(source.cluster, options, measured)
    instances = cluster.instances
    selected = _selected([instance.name for instance in instances], options)
    if options.verbosity != SILENT:
        sys.stderr.write("".join(_inconsistencies(cluster.nodes, instances)))
    if tell is not None:
        tell(source)
    nodes = _with_offline(cluster.nodes, options.offline)
    group_of = {node.name: node.group for node in nodes}
    whole = [
        not instance.secondary or group_of[instance.primary] == group_of[instance.secondary] for instance in instances
    ]
    return Loaded(
        cluster=replace(cluster, nodes=nodes),
        as_read=cluster,
        masters=source.masters,
        movable=[chosen and entire for chosen, entire in zip(selected, whole, strict=True)],
        split=[instance.name for instance, entire in zip(instances, whole, strict=True) if not entire],
        options=options,
    )


def _with_loads(cluster: Cluster, options: Options, measured: Mapping[str, utilization.Load]) -> Cluster:
    """The cluster with the load that was measured, or none of it."""
    nodes, instances = cluster.nodes, cluster.instances
    if measured:
        instances = [
            replace(instance, load=measured[instance.name]) if instance.name in measured else instance
            for instance in instances
        ]
    if options.mond:
        from ganeti.tools.htools.loading import mond

        cpu = mond.cpu_loads(nodes, instances, options)
        if cpu is not None:
            pairs = zip(instances, cpu.instances, strict=True)
            instances = [replace(instance, load=(load, *instance.load[1:])) for instance, load in pairs]
            nodes = [replace(node, cpu_load=load) for node, load in zip(nodes, cpu.nodes, strict=True)]
    if options.ignore_utilization:
        instances = [replace(instance, load=utilization.NONE) for instance in instances]
    return replace(cluster, nodes=nodes, instances=instances)


def _selected(names: Sequence[str], options: Options) -> list[bool]:
    """Which instances the options let move, by number."""
    chosen = [find(name, names) for name in options.select_instances or ()]
    excluded = [find(name, names) for name in options.exclude_instances]
    asked = [*(options.select_instances or ()), *options.exclude_instances]
    unknown = [name for name, found in zip(asked, [*chosen, *excluded], strict=True) if found is None]
    if unknown:
        raise ToolError(f"failed to load data, aborting: Unknown instance(s): {quoted(unknown)}")
    kept, left_out = set(chosen) if options.select_instances else set(names), set(excluded)
    return [name in kept and name not in left_out for name in names]


def find(name: str, names: Collection[str]) -> str | None:
    """The one of *names* that *name* means: itself, or the only one that begins with it and a dot."""
    if name in names:
        return name
    matching = [known for known in names if known.startswith(f"{name}.")]
    return matching[0] if len(matching) == 1 else None


def _with_offline(nodes: Sequence[Node], offline: Sequence[str]) -> Sequence[Node]:
    if not offline:
        return nodes
    names = [node.name for node in nodes]
    found = [find(name, names) for name in offline]
    unknown = [name for name, known in zip(offline, found, strict=True) if known is None]
    if unknown:
        raise ToolError(f"wrong node name(s) set as offline: {','.join(unknown[::-1])}\n")
    return [replace(node, unavailable=_OFFLINE) if node.name in found else node for node in nodes]


def _inconsistencies(nodes: Sequence[Node], instances: Iterable[Instance]) -> Iterable[str]:
    """Lines about nodes that miss more memory or disk than their instances explain."""
    number_of = {node.name: number for number, node in enumerate(nodes)}  # of two with one name, the later has them all
    memory, disk = [0] * len(nodes), [0] * len(nodes)
    for instance in instances:
        if instance.forthcoming:
            continue
        primary = number_of[instance.primary]
        disk[primary] += instance.disk_mib
        if instance.uses_memory:
            memory[primary] += instance.memory_mib
        if instance.secondary and instance.secondary != instance.primary:
            disk[number_of[instance.secondary]] += instance.disk_mib
    lines = [
        f"  - node {node.name} is missing {missing_memory} MB ram and {missing_disk // 1024} GB disk\n"
        for number, node in reversed(list(enumerate(nodes)))
        for missing_memory, missing_disk in [_missing(node, memory[number], disk[number])]
        if missing_memory > _TOLERATED_MEMORY_MIB or missing_disk > _TOLERATED_DISK_MIB
    ]
    return ["Warning: cluster has inconsistent data:\n", *lines, "\n"] if lines else []


def _missing(node: Node, memory_mib: int, disk_mib: int) -> tuple[int, int]:
    memory = whole_mib(node.total_memory_mib) - node.node_memory_mib - memory_mib - node.free_memory_mib
    return wrapped(memory), wrapped(whole_mib(node.total_disk_mib) - node.free_disk_mib - disk_mib)


def common_suffix(names: Sequence[str]) -> str:
    """The longest end that all *names* share and that begins with a dot; empty if there is none."""
    if not names:
        return ""
    least, greatest = min(name[::-1] for name in names), max(name[::-1] for name in names)
    shared = 0
    while shared < min(len(least), len(greatest)) and least[shared] == greatest[shared]:
        shared += 1
    _, dot, rest = least[:shared][::-1].partition(".")
    return dot + rest


def write_state(path: str, cluster: Cluster, masters: Sequence[str] = ()) -> None:
    """Write *cluster* in the text format; raises `OSError`."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.write(cluster, masters))
