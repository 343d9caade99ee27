# SPDX-License-Identifier: BSD-2-Clause
"""One instance tried on every node at once: which check fails first, and the node's metrics if it were there.

The meaning of each check is ``checks.refuse_primary`` and ``checks.refuse_secondary``.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ganeti.placement.cluster import Instance
from ganeti.placement.definition import METRICS, uses_node_disk
from ganeti.placement.failure import FailMode
from ganeti.placement.numpy_state import NOWHERE, Bools, ClusterState, Floats, Ints
from ganeti.placement.policy import refusal_by_policy
from ganeti.placement.templates import traits_of

Codes = npt.NDArray[np.int8]
_ROW = {name: row for row, name in enumerate(METRICS)}


@dataclass(frozen=True)
class Trial:
    """Per node: the failure mode that excludes it (0: it fits) and its metrics with the instance on it."""

    failures: Codes
    metrics: Floats


class _Verdict:
    """Collects failures; the first one of a node stays."""

    def __init__(self, count: int) -> None:
        self.failures: Codes = np.zeros(count, dtype=np.int8)

    def fail(self, where: Bools, mode: FailMode) -> None:
        self.failures[where & (self.failures == 0)] = mode


def _ratio(part: Floats | Ints, whole: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return part / whole


def try_primary(state: ClusterState, instance: Instance, *, forced: bool = False, partner: int = NOWHERE) -> Trial:
    """Try *instance* as a primary of every node; *partner* is the node that is or will be its secondary."""
    verdict = _Verdict(len(state.nodes))
    if not instance.forthcoming:
        _check_primary(state, instance, verdict, forced)
    if instance.forthcoming or not forced:
        _check_primary_forthcoming(state, instance, verdict)
    return Trial(verdict.failures, _primary_metrics(state, instance, partner))


def _check_primary(state: ClusterState, instance: Instance, verdict: _Verdict, forced: bool) -> None:
    left = state.column("free_memory") - (instance.memory_mib if instance.uses_memory else 0)
    verdict.fail(left <= 0, FailMode.FailMem)
    _check_disk(state, instance, verdict, forced)
    if forced:
        return
    verdict.fail((left <= state.column("reserved_memory")) & ~failing_n1(state), FailMode.FailMem)
    cpus = state.column("cpus") + instance.counted_vcpus
    verdict.fail(_ratio(cpus, state.total_cpus) > state.vcpu_ratio, FailMode.FailCPU)
    tags = state.rules.exclusion_of(instance.tags)
    if tags:
        shared = [any(counts[tag] for tag in tags) for counts in state.exclusion_counts]
        verdict.fail(np.array(shared, dtype=np.bool_), FailMode.FailTags)


def failing_n1(state: ClusterState) -> Bools:
    """Nodes that could not take over the instances they are secondary for."""
    return state.column("free_memory") <= state.column("reserved_memory")


def _check_disk(
    state: ClusterState, instance: Instance, verdict: _Verdict, forced: bool, *, hard_disk: bool = True
) -> None:
    if not uses_node_disk(instance):
        return
    left = state.column("free_disk") - instance.disk_mib
    if hard_disk:
        verdict.fail(left <= 0, FailMode.FailDisk)
    if not forced:
        verdict.fail(left < state.low_disk, FailMode.FailDisk)
    _check_spindles(state, instance, verdict, state.column("free_spindles"))
    if not forced:
        _check_spindle_uses(state, instance, verdict, state.column("instance_spindles"))


def _check_spindles(state: ClusterState, instance: Instance, verdict: _Verdict, free: Ints) -> None:
    needed = instance.total_spindles
    short = state.exclusive if needed is None else state.exclusive & (free < needed)
    verdict.fail(short, FailMode.FailSpindles)


def _check_spindle_uses(state: ClusterState, instance: Instance, verdict: _Verdict, used: Ints) -> None:
    after = used + np.where(state.exclusive, 0, instance.spindle_use)
    verdict.fail(after > state.high_spindles, FailMode.FailDisk)


def _check_disk_forthcoming(state: ClusterState, instance: Instance, verdict: _Verdict) -> None:
    if not uses_node_disk(instance):
        return
    left = state.column("free_disk_forthcoming") - instance.disk_mib
    verdict.fail((left <= 0) | (left < state.low_disk), FailMode.FailDisk)
    _check_spindles(state, instance, verdict, state.column("free_spindles_forthcoming"))
    _check_spindle_uses(state, instance, verdict, state.column("instance_spindles_forthcoming"))


def _check_primary_forthcoming(state: ClusterState, instance: Instance, verdict: _Verdict) -> None:
    verdict.fail(state.column("free_memory_forthcoming") - instance.memory_mib <= 0, FailMode.FailMem)
    _check_disk_forthcoming(state, instance, verdict)
    cpus = state.column("cpus_forthcoming") + instance.counted_vcpus
    verdict.fail(_ratio(cpus, state.total_cpus) > state.vcpu_ratio, FailMode.FailCPU)


def _set_disk_metrics(state: ClusterState, instance: Instance, metrics: Floats) -> None:
    """Disk and spindles; on exclusive storage spindles are counted for every template."""
    local = uses_node_disk(instance)
    if not local and not state.exclusive.any():
        return
    for suffix, taken in (("", not instance.forthcoming), ("_forthcoming", True)):
        disk = instance.disk_mib if taken and local else 0
        spindles = instance.total_spindles or 0 if taken else 0
        uses = instance.spindle_use if taken and local else 0
        by_disk = _share(state.column("free_disk" + suffix) - disk, state.total_disk)
        by_spindles = _share(state.column("free_spindles" + suffix) - spindles, state.spindles)
        metrics[_ROW["free_disk" + suffix]] = np.where(state.exclusive, by_spindles, by_disk)
        used = state.column("instance_spindles" + suffix) + np.where(state.exclusive, 0, uses)
        metrics[_ROW["spindles" + suffix]] = _ratio(used, state.high_spindles)


def _share(free: Ints, total: Floats) -> Floats:
    return np.where(total == 0, 1.0, _ratio(free, total))


def _primary_metrics(state: ClusterState, instance: Instance, partner: int) -> Floats:
    metrics = state.metrics.copy()
    free = state.column("free_memory") - (instance.memory_mib if instance.uses_memory else 0)
    metrics[_ROW["free_memory"]] = _ratio(free, state.total_memory)
    after = state.column("free_memory_forthcoming") - instance.memory_mib
    metrics[_ROW["free_memory_forthcoming"]] = _ratio(after, state.total_memory)
    _set_disk_metrics(state, instance, metrics)
    cpus = instance.counted_vcpus
    now = state.column("cpus") + (0 if instance.forthcoming else cpus)
    metrics[_ROW["cpus"]] = _ratio(_ratio(now, state.total_cpus), state.cpu_speed)
    promised = state.column("cpus_forthcoming") + cpus
    metrics[_ROW["cpus_forthcoming"]] = _ratio(_ratio(promised, state.total_cpus), state.cpu_speed)
    for name, load in zip(("load_cpu", "load_memory", "load_disk", "load_net"), instance.load, strict=True):
        metrics[_ROW[name]] += load
    metrics[_ROW["instances"]] += 1
    metrics[_ROW["primaries"]] += 1
    metrics[_ROW["n1"]] = np.where(free <= state.column("reserved_memory"), metrics[_ROW["instances"]], 0)
    _set_tag_metrics(state, instance, partner, metrics)
    return metrics


def _set_tag_metrics(state: ClusterState, instance: Instance, partner: int, metrics: Floats) -> None:
    tags = state.rules.exclusion_of(instance.tags)
    if tags:
        metrics[_ROW["conflicts"]] += [sum(1 for tag in tags if counts[tag]) for counts in state.exclusion_counts]
    desired = state.rules.desired_of(instance.tags)
    if desired:
        metrics[_ROW["location"]] += [len(desired - frozenset(node.tags)) for node in state.nodes]
    if partner != NOWHERE and state.rules.location:
        metrics[_ROW["location"]] += shared_locations(state, partner)


def shared_locations(state: ClusterState, node: int) -> Floats:
    """How many location tags each node has in common with *node*."""
    own = state.rules.location_of(state.nodes[node].tags)
    return np.array([len(own & frozenset(other.tags)) for other in state.nodes], dtype=np.float64)


def try_secondary(
    state: ClusterState, instance: Instance, primary: int, *, forced: bool = False, ignore_disk: bool = False
) -> Trial:
    """Try *instance*, whose primary is node number *primary*, as a secondary of every node."""
    verdict = _Verdict(len(state.nodes))
    traits = traits_of(instance.template)
    if traits is None or not traits.has_secondary:
        verdict.failures[:] = FailMode.FailDisk
        return Trial(verdict.failures, state.metrics.copy())
    reserved = _reserved_after(state, instance, primary)
    if not instance.forthcoming:
        _check_disk(state, instance, verdict, forced, hard_disk=not ignore_disk)
        if not forced:
            free = state.column("free_memory")
            verdict.fail(free <= instance.reserved_memory_mib, FailMode.FailMem)
            verdict.fail((free <= reserved) & ~failing_n1(state), FailMode.FailMem)
    if instance.forthcoming or not forced:
        promised = state.column("free_memory_forthcoming")
        verdict.fail(promised <= instance.reserved_memory_mib, FailMode.FailMem)
        _check_disk_forthcoming(state, instance, verdict)
    return Trial(verdict.failures, _secondary_metrics(state, instance, reserved))


def _reserved_after(state: ClusterState, instance: Instance, primary: int) -> Ints:
    needed = instance.reserved_memory_mib
    kept = np.array([peers.get(primary, 0) for peers in state.peers], dtype=np.int64)
    return np.maximum(state.column("reserved_memory"), kept + needed)


def _secondary_metrics(state: ClusterState, instance: Instance, reserved: Ints) -> Floats:
    metrics = state.metrics.copy()
    _set_disk_metrics(state, instance, metrics)
    metrics[_ROW["reserved_memory"]] = _ratio(reserved, state.total_memory)
    metrics[_ROW["instances"]] += 1
    metrics[_ROW["n1"]] = np.where(state.column("free_memory") <= reserved, metrics[_ROW["instances"]], 0)
    metrics[_ROW["load_disk"]] += instance.load[2]
    return metrics


def policy_failures(state: ClusterState, instance: Instance) -> Codes:
    """Per node the failure mode by which its group's policy refuses *instance*, 0 where it is admitted."""
    known: dict[tuple[int, bool], int] = {}
    codes = np.zeros(len(state.nodes), dtype=np.int8)
    for node, (group, exclusive) in enumerate(zip(state.group_of.tolist(), state.exclusive.tolist(), strict=True)):
        if (group, exclusive) not in known:
            refusal = refusal_by_policy(state.groups[group].policy, instance, exclusive)
            known[group, exclusive] = refusal.mode if refusal else 0
        codes[node] = known[group, exclusive]
    return codes
