# SPDX-License-Identifier: BSD-2-Clause
"""What keeps an instance off a node, in plain Python, one node at a time (spec: htools, 4).

The order matters: the first check that fails gives the failure mode and the sentence. ``trial`` is the fast form for
all nodes at once, and is tested against this module.
"""

from ganeti.model.templates import traits_of
from ganeti.placement.cluster.failure import FailMode, Refusal
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.definition.score import NodeView, ratio, uses_node_disk


def refuse_primary(view: NodeView, instance: Instance, *, forced: bool = False) -> Refusal | None:
    """Why *view* cannot become the primary of *instance*, or None; *forced* skips the soft limits."""
    if forced and instance.forthcoming:  # there is nothing yet that would not fit
        return None
    if not instance.forthcoming:
        refusal = _refuse_primary_now(view, instance, forced)
        if refusal is not None:
            return refusal
        if forced:
            return None
    return _refuse_primary_forthcoming(view, instance)


def _refuse_primary_now(view: NodeView, instance: Instance, forced: bool) -> Refusal | None:
    memory = instance.memory_mib if instance.uses_memory else 0
    left = view.free_memory_mib - memory
    if left <= 0:
        return Refusal(FailMode.FailMem, _needs(memory, "of memory", view.free_memory_mib))
    refusal = _refuse_disk(view, instance, forced)
    if refusal is not None or forced:
        return refusal
    if left <= view.reserved_memory_mib and not view.fails_n1:
        return Refusal(
            FailMode.FailMem,
            f"needs {memory} MiB of memory, {view.available_memory_mib} free beside the {view.reserved_memory_mib} "
            "kept for the failure of another node",
        )
    cpus = view.used_cpus() + instance.counted_vcpus
    if ratio(cpus, view.node.total_cpus) > view.most_vcpu_ratio:
        return Refusal(
            FailMode.FailCPU,
            f"needs {instance.counted_vcpus} vcpus, {view.used_cpus()} of {_cpu_limit(view)} allowed are in use",
        )
    shared = sorted(tag for tag in view.rules.exclusion_of(instance.tags) if view.exclusion_counts[tag])
    if shared:
        return Refusal(FailMode.FailTags, f"has an instance with the same exclusion tag {shared[0]}")
    return None


def _needs(needed_mib: int, what: str, free_mib: int) -> str:
    rest = ", and some must stay free" if needed_mib == free_mib else ""
    return f"needs {needed_mib} MiB {what}, {free_mib} free{rest}"


def _cpu_limit(view: NodeView) -> str:
    return f"{view.most_vcpu_ratio * view.node.total_cpus:g}"


def _refuse_disk(view: NodeView, instance: Instance, forced: bool, *, hard_disk: bool = True) -> Refusal | None:
    if not uses_node_disk(instance):
        return None
    left = view.free_disk_mib - instance.disk_mib
    if left <= 0 and hard_disk:
        return Refusal(FailMode.FailDisk, _needs(instance.disk_mib, "of disk", view.free_disk_mib))
    if not forced and left < view.low_disk_mib:
        return Refusal(
            FailMode.FailDisk,
            f"needs {instance.disk_mib} MiB of disk beside a floor of {view.low_disk_mib}, {view.free_disk_mib} free",
        )
    if view.node.exclusive_storage:
        refusal = _refuse_spindles(instance, view.free_spindles, "free")
        if refusal is not None:
            return refusal
    if not forced and _spindles_after(view, instance, False) > view.high_spindles:
        return Refusal(
            FailMode.FailDisk,
            f"needs {instance.spindle_use} spindle uses, "
            f"{view.instance_spindles()} of {view.high_spindles:g} are taken",
        )
    return None


def _refuse_spindles(instance: Instance, free: int, words: str) -> Refusal | None:
    needed = instance.total_spindles
    if needed is None:
        return Refusal(
            FailMode.FailSpindles, "has exclusive storage, and the instance's disks do not name their spindles"
        )
    if needed > free:
        return Refusal(FailMode.FailSpindles, f"needs {needed} spindles, {free} {words}")
    return None


def _spindles_after(view: NodeView, instance: Instance, forthcoming: bool) -> int:
    added = 0 if view.node.exclusive_storage else instance.spindle_use
    return view.instance_spindles(forthcoming=forthcoming) + added


def _refuse_forthcoming_disk(view: NodeView, instance: Instance) -> Refusal | None:
    if not uses_node_disk(instance):
        return None
    left = view.forthcoming_free_disk_mib - instance.disk_mib
    if left <= 0 or left < view.low_disk_mib:
        return Refusal(
            FailMode.FailDisk,
            f"needs {instance.disk_mib} MiB of disk, {view.forthcoming_free_disk_mib} free after what is promised",
        )
    if view.node.exclusive_storage:
        refusal = _refuse_spindles(instance, view.forthcoming_free_spindles, "free after what is promised")
        if refusal is not None:
            return refusal
    if _spindles_after(view, instance, True) > view.high_spindles:
        return Refusal(
            FailMode.FailDisk,
            f"needs {instance.spindle_use} spindle uses, {view.instance_spindles(forthcoming=True)} of "
            f"{view.high_spindles:g} are taken or promised",
        )
    return None


def _refuse_primary_forthcoming(view: NodeView, instance: Instance) -> Refusal | None:
    free = view.forthcoming_free_memory_mib
    if free - instance.memory_mib <= 0:
        return Refusal(
            FailMode.FailMem, f"needs {instance.memory_mib} MiB of memory, {free} free after what is promised"
        )
    refusal = _refuse_forthcoming_disk(view, instance)
    if refusal is not None:
        return refusal
    cpus = view.used_cpus(forthcoming=True)
    if ratio(cpus + instance.counted_vcpus, view.node.total_cpus) > view.most_vcpu_ratio:
        return Refusal(
            FailMode.FailCPU,
            f"needs {instance.counted_vcpus} vcpus, {cpus} of {_cpu_limit(view)} allowed are in use or promised",
        )
    return None


def refuse_secondary(
    view: NodeView, instance: Instance, primary: int, *, forced: bool = False, ignore_disk: bool = False
) -> Refusal | None:
    """Why *view* cannot become the secondary of *instance* whose primary is node number *primary*, or None.

    *ignore_disk* waives the free-disk limit for an instance whose old primary is offline.
    """
    traits = traits_of(instance.template)
    if traits is None or not traits.has_secondary:
        return Refusal(FailMode.FailDisk, f"disk template {instance.template} has no secondary node")
    if forced and instance.forthcoming:
        return None
    if not instance.forthcoming:
        refusal = _refuse_disk(view, instance, forced, hard_disk=not ignore_disk)
        if refusal is not None or forced:
            return refusal
        refusal = _refuse_reserve(view, instance, primary)
        if refusal is not None:
            return refusal
    needed, free = instance.claimed_memory_mib, view.forthcoming_free_memory_mib
    if needed >= free:
        return Refusal(FailMode.FailMem, f"needs {needed} MiB of memory in reserve, {free} free after what is promised")
    return _refuse_forthcoming_disk(view, instance)


def _refuse_reserve(view: NodeView, instance: Instance, primary: int) -> Refusal | None:
    needed = instance.reserved_memory_mib
    if needed >= view.free_memory_mib:
        return Refusal(FailMode.FailMem, f"needs {needed} MiB of memory in reserve, {view.free_memory_mib} free")
    reserved = max(view.reserved_memory_mib, view.peers.get(primary, 0) + needed)
    if view.free_memory_mib <= reserved and not view.fails_n1:
        return Refusal(
            FailMode.FailMem,
            f"needs {reserved} MiB of memory in reserve for the failure of the primary, {view.free_memory_mib} free",
        )
    return None
