# SPDX-License-Identifier: BSD-2-Clause
"""What ``hspace`` found, as sentences and as keys for programs (spec: htools, 11)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ganeti.placement.capacity.count import most_likely, runs
from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.definition.score import ratio, whole_mib, wrapped
from ganeti.tools.htools.haskell.figures import fixed, shown
from ganeti.tools.htools.printing import report
from ganeti.tools.htools.printing.spindles import free_spindles, touched_nodes

if TYPE_CHECKING:
    from ganeti.placement.capacity.count import Failures, Room, Size
    from ganeti.placement.cluster.picture import Cluster
    from ganeti.placement.kernel.state import ClusterState
    from ganeti.tools.htools.command_line.options import Options
    from ganeti.tools.htools.loading.sources import Loaded

PREFIX = "HTS"


@dataclass
class Outcome:
    """What one kind of allocation came to: its first size, what it placed on *state*, and why it ended."""

    size: "Size"
    state: "ClusterState"
    placed: "list[Size]"
    numbers: list[int]
    failures: "Failures"


@dataclass
class Work:
    """The cluster at first, and where instances may go; without *room* none may."""

    options: "Options"
    loaded: "Loaded"
    state: "ClusterState"
    template: str
    room: "Room | None"
    found: "dict[str, list[Size]]" = field(default_factory=dict)


@dataclass(frozen=True)
class Totals:
    """Resources of a whole cluster, offline nodes included; sizes are MiB."""

    score: float
    instances: int
    memory_total: float
    memory_free: int
    memory_available: int
    memory_used: int
    memory_overhead: int
    memory_most: int
    disk_total: float
    disk_free: int
    disk_available: int
    disk_used: int
    disk_most: int
    spindles: int
    spindles_free: int
    cpus_used: int
    cpus_by_ratio: float
    vcpus: int


def totals(state: "ClusterState", cluster: "Cluster") -> Totals:
    """Add up the nodes of *state*, which was made of *cluster*."""
    touched = touched_nodes(state, cluster)
    everyone = state.everyone()
    views = [state.view(node) for node in everyone]
    available = [max(0, view.free_disk_mib - view.low_disk_mib) for view in views]
    return Totals(
        score=state.score(everyone),
        instances=sum(1 for instance in state.instances if not instance.forthcoming),
        memory_total=sum(view.node.total_memory_mib for view in views),
        memory_free=sum(view.free_memory_mib for view in views),
        memory_available=sum(view.available_memory_mib for view in views),
        memory_used=sum(view.used_memory_mib for view in views),
        memory_overhead=sum(view.extra_memory_mib + view.node.node_memory_mib for view in views),
        memory_most=max((view.available_memory_mib for view in views), default=0),
        disk_total=sum(view.node.total_disk_mib for view in views),
        disk_free=sum(view.free_disk_mib for view in views),
        disk_available=sum(available),
        disk_used=sum(wrapped(whole_mib(view.node.total_disk_mib) - view.free_disk_mib) for view in views),
        disk_most=max(available, default=0),
        spindles=sum(view.node.spindles for view in views),
        spindles_free=sum(free_spindles(view, number, touched) for number, view in enumerate(views)),
        cpus_used=sum(view.used_cpus() for view in views),
        cpus_by_ratio=_added(ratio(view.used_cpus(), view.vcpu_ratio) for view in views),
        vcpus=sum(_floor(view.vcpu_ratio * view.node.total_cpus) for view in views),
    )


def _floor(value: float) -> int:
    """As in 3.1, what no 64 bits hold is the least number they do."""
    whole = whole_mib(value)
    return wrapped(whole - 1) if value < whole else whole


def _added(values: Iterator[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


# for people


def opening_sentences(work: "Work") -> Iterator[str]:
    """The lines about the cluster as it is."""
    state, first = work.state, totals(work.state, work.loaded.cluster)
    exclusive = any(node.exclusive_storage for node in state.nodes)
    cpus = sum(node.total_cpus for node in state.nodes)
    resources = f"MEM {_whole(first.memory_total)}, DSK {_whole(first.disk_total)}, CPU {_whole(cpus)}"
    spindles = f", SPN {first.spindles}" if exclusive else ""
    yield f"The cluster has {len(state.nodes)} nodes and the following resources:"
    yield f"  {resources}, VCPU {first.vcpus}{spindles}."
    yield f"There are {first.instances or 'no'} initial instances on the cluster."


def sentences(work: "Work", tiered: "Outcome", standard: "Outcome") -> Iterator[str]:
    """The lines about what fits."""
    first, exclusive = totals(work.state, work.loaded.cluster), any(node.exclusive_storage for node in work.state.nodes)
    yield "Tiered (initial size) instance spec is:"
    yield f"  {described(tiered.size, exclusive)}, using disk template '{work.template}'."
    yield "Tiered allocation results:"
    if not tiered.placed:
        yield "  - no instances allocated"
    for size, count in runs(tiered.placed):
        yield f"  - {count:3d} instances of spec {described(size, exclusive)}"
    yield from _quality(work, first, tiered, exclusive)
    yield "Standard (fixed-size) instance spec is:"
    yield f"  {described(standard.size, exclusive)}, using disk template '{work.template}'."
    yield "Normal (fixed-size) allocation results:"
    yield f"  - {len(standard.placed):3d} instances allocated"
    yield from _quality(work, first, standard, exclusive)


def _whole(value: float) -> str:
    return fixed(value, 0)


def described(size: "Size", exclusive: bool) -> str:
    """A size in words; spindles only where storage is exclusive."""
    spindles = f", SPN {size.spindles}" if exclusive else ""
    return f"MEM {size.memory_mib}, DSK {size.disk_mib}, CPU {size.vcpus}{spindles}"


def _quality(work: "Work", first: Totals, outcome: "Outcome", exclusive: bool) -> Iterator[str]:
    final = totals(outcome.state, work.loaded.cluster)
    yield f"  - most likely failure reason: {most_likely(outcome.failures).name}"
    yield f"  - initial cluster score: {fixed(first.score, 8)}"
    yield f"  -   final cluster score: {fixed(final.score, 8)}"
    used = [("memory", _memory_share(final)), ("disk", _disk_share(final)), ("vcpu", _cpu_share(final))]
    if exclusive:
        used.append(("spindles", _spindle_share(final)))
    width = max(len(name) for name, _ in used)
    for name, share in used:
        yield f"  - {name:>{width}} usage efficiency: {fixed(share * 100, 2):>5}%"


def _memory_share(found: Totals) -> float:
    return ratio(found.memory_used, found.memory_total)


def _disk_share(found: Totals) -> float:
    return ratio(found.disk_used, found.disk_total)


def _cpu_share(found: Totals) -> float:
    return ratio(found.cpus_used, found.vcpus)


def _spindle_share(found: Totals) -> float:
    return ratio(found.spindles - found.spindles_free, found.spindles)


# for programs


def opening_lines(work: "Work") -> Iterator[str]:
    """``KEY=value`` for each figure of the cluster as it is."""
    yield from map(_line, _opening_keys(work))


def machine_lines(work: "Work", tiered: "Outcome", standard: "Outcome") -> Iterator[str]:
    """``KEY=value`` for each figure of what fits, ``HTS_OK=1`` last."""
    yield from map(_line, _keys(work, tiered, standard))
    yield f"{PREFIX}_OK=1"


def _line(figure: tuple[str, str]) -> str:
    return f"{PREFIX}_{figure[0]}={report.shell_word(figure[1])}"


def _opening_keys(work: "Work") -> Iterator[tuple[str, str]]:
    state, first = work.state, totals(work.state, work.loaded.cluster)
    cpus = sum(node.total_cpus for node in state.nodes)
    yield "CLUSTER_MEM", _whole(first.memory_total)
    yield "CLUSTER_DSK", _whole(first.disk_total)
    yield "CLUSTER_CPU", _whole(cpus)
    yield "CLUSTER_VCPU", str(first.vcpus)
    yield "CLUSTER_SPN", str(first.spindles)
    yield "CLUSTER_NODES", str(len(state.nodes))
    yield from _statistics("INI", first)


def _keys(work: "Work", tiered: "Outcome", standard: "Outcome") -> Iterator[tuple[str, str]]:
    states = (work.state, tiered.state, standard.state)
    first, after_tiered, final = (totals(state, work.loaded.cluster) for state in states)
    cpus = sum(node.total_cpus for node in work.state.nodes)
    yield from _spec("TSPEC_INI", tiered.size, work)
    yield from _statistics("TRL", after_tiered)
    specs = [f"{s.memory_mib},{s.disk_mib},{s.vcpus},{s.spindles}={count}" for s, count in runs(tiered.placed)]
    yield "TSPEC", " ".join(specs)
    yield from _resources(cpus, first, after_tiered)
    yield from _spec("SPEC", standard.size, work)
    yield from _statistics("FIN", final)
    yield "ALLOC_USAGE", fixed(ratio(first.instances, final.instances), 8)
    yield "ALLOC_INSTANCES", str(len(standard.placed))
    yield "ALLOC_FAIL_REASON", most_likely(standard.failures).name.upper()
    for mode, count in _counts(standard.failures, tried=work.room is not None):
        yield f"ALLOC_{mode.name.upper()}_CNT", str(count)


def _statistics(prefix: str, found: Totals) -> Iterator[tuple[str, str]]:
    values: Sequence[tuple[str, str]] = (
        ("SCORE", fixed(found.score, 8)),
        ("INST_CNT", str(found.instances)),
        ("MEM_FREE", str(found.memory_free)),
        ("MEM_AVAIL", str(found.memory_available)),
        ("MEM_RESVD", str(found.memory_free - found.memory_available)),
        ("MEM_INST", str(found.memory_used)),
        ("MEM_OVERHEAD", str(found.memory_overhead)),
        ("MEM_EFF", fixed(_memory_share(found), 8)),
        ("DSK_FREE", str(found.disk_free)),
        ("DSK_AVAIL", str(found.disk_available)),
        ("DSK_RESVD", str(found.disk_free - found.disk_available)),
        ("DSK_INST", str(found.disk_used)),
        ("DSK_EFF", fixed(_disk_share(found), 8)),
        ("SPN_FREE", str(found.spindles_free)),
        ("SPN_INST", str(found.spindles - found.spindles_free)),
        ("SPN_EFF", fixed(_spindle_share(found), 8)),
        ("CPU_INST", str(found.cpus_used)),
        ("CPU_EFF", fixed(_cpu_share(found), 8)),
        ("MNODE_MEM_AVAIL", str(found.memory_most)),
        ("MNODE_DSK_AVAIL", str(found.disk_most)),
    )
    for key, value in values:
        yield f"{prefix}_{key}", value


def _spec(prefix: str, size: "Size", work: "Work") -> Iterator[tuple[str, str]]:
    from ganeti.model.templates import traits_of

    traits = traits_of(work.template)
    yield f"{prefix}_MEM", str(size.memory_mib)
    yield f"{prefix}_DSK", str(size.disk_mib)
    yield f"{prefix}_CPU", str(size.vcpus)
    yield f"{prefix}_SPN", str(size.spindles)
    yield f"{prefix}_RQN", "2" if traits is not None and traits.has_secondary else "1"
    yield f"{prefix}_DISK_TEMPLATE", work.template


def _resources(cpus: float, first: Totals, final: Totals) -> Iterator[tuple[str, str]]:
    """What was used at first, what the tiered allocation took from the pool, what nothing can use."""
    before = _amounts(first, cpus_by_ratio=first.cpus_by_ratio)
    after = _amounts(final, cpus_by_ratio=final.cpus_by_ratio)
    memory, disk = whole_mib(first.memory_total), whole_mib(first.disk_total)
    whole = {"CPU": first.vcpus, "NPU": cpus, "MEM": memory, "DSK": disk, "SPN": first.spindles}
    for key, value in before.items():
        yield f"KM_USED_{key}", _amount(value)
    for key, value in before.items():
        yield f"KM_POOL_{key}", _amount(after[key] - value)
    for key, value in after.items():
        yield f"KM_UNAV_{key}", _amount(whole[key] - value)


def _amounts(found: Totals, *, cpus_by_ratio: float) -> dict[str, float]:
    spindles = found.spindles - found.spindles_free
    return {
        "CPU": found.cpus_used,
        "NPU": float(cpus_by_ratio),
        "MEM": found.memory_used,
        "DSK": found.disk_used,
        "SPN": spindles,
    }


def _amount(value: float) -> str:
    return shown(value) if isinstance(value, float) else str(wrapped(value))


def _counts(failures: "Failures", *, tried: bool) -> list[tuple[FailMode, int]]:
    """Falling, of equals the first mode first; where nothing was tried only what kept it from being tried."""
    modes = list(FailMode) if tried else [mode for mode in FailMode if failures[mode]]
    return sorted(((mode, failures[mode]) for mode in modes), key=lambda pair: -pair[1])
