# SPDX-License-Identifier: BSD-2-Clause
"""The work of harep, done by the maintenance daemon where that is wanted: the same tags, the same jobs (S4.35)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from ganeti.base.errors import ParameterError
from ganeti.master.maintenance import repair_tags
from ganeti.master.maintenance.breakage import broken
from ganeti.master.maintenance.incidents import GONE, secondary_of
from ganeti.master.maintenance.repair_tags import Repair, State
from ganeti.master.maintenance.task import InstanceRepair, Task
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView
from ganeti.wire.job_file import FINAL_STATUSES, SUCCESS

TagChange = tuple[str, list[str], list[str]]
"""UUID of an instance, tags that are added, tags that are taken away."""


def repairs(view: ConfigView, untouched: Collection[str], now_s: float) -> list[InstanceRepair]:
    """What instances need that are on none of the nodes *untouched* (uuids) in the way of something else.

    An instance that waits for a repair, or of which one has failed, is left alone.
    """
    offline = {node.name for node in view.nodes() if node.offline or node.drained}
    found = []
    for instance in view.instances():
        secondary = secondary_of(view, instance)
        if instance.forthcoming or instance.primary_node in untouched or secondary in untouched:
            continue
        state = state_of(instance)
        policy = repair_tags.policy(_levels(view, instance), now_s)
        if state is None or state.is_pending or state.has_failed or not policy.allowed:
            continue
        names = [view.node(uuid).name if uuid else "" for uuid in (instance.primary_node, secondary)]
        need = broken(instance.name, view.disk_template(instance), names[0], names[1], offline)
        if need is not None:
            found.append(_repair(instance, policy.allowed, *need, offline))
    return [each for each in found if each is not None]


def _repair(
    instance: Instance, allowed: str, kind: str, opcodes: list[dict[str, object]], offline: set[str]
) -> InstanceRepair | None:
    if repair_tags.TYPES.index(kind) > repair_tags.TYPES.index(allowed):
        state = state_of(instance)
        told = state is not None and state.latest is not None and state.latest.result == repair_tags.NO_PERMISSION
        return None if told else InstanceRepair(instance.uuid, kind, None)
    why = f"{instance.name} has a node that is offline: {kind}, as its tags allow"
    return InstanceRepair(instance.uuid, kind, Task((), instance.name, why, [opcodes], (instance.name,)))


def begun(
    view: ConfigView, repair: InstanceRepair, jobs: list[int], new_id: Callable[[], str], now_s: float
) -> TagChange:
    """The tags of an instance whose repair was submitted, was refused by the queue, or is not allowed."""
    if repair.task is None:
        result = repair_tags.NO_PERMISSION
    else:
        result = "" if jobs else repair_tags.FAILURE
    new = Repair(repair.kind, new_id(), int(now_s), result, jobs)
    return _tagged(view.instance(repair.instance), new)


def ended(view: ConfigView, jobs: Mapping[int, str], now_s: float) -> list[TagChange]:
    """The tags of instances whose repair has ended; *jobs* has the status of every job that a tag names."""
    found = []
    for instance, repair in _pending(view):
        statuses = [jobs.get(job, "") for job in repair.jobs]
        if all(status == GONE or status in FINAL_STATUSES for status in statuses):
            well = all(status == SUCCESS for status in statuses)
            result = repair_tags.SUCCESS if well else repair_tags.FAILURE
            found.append(_tagged(instance, repair_tags.ended(repair, result, now_s)))
    return found


def awaited(view: ConfigView) -> list[int]:
    """The jobs of repairs that tags call pending."""
    return [job for _, repair in _pending(view) for job in repair.jobs]


def _pending(view: ConfigView) -> Iterator[tuple[Instance, Repair]]:
    """Repairs that tags call pending and that are the daemon's: all where it repairs instances, or else those of its
    last round. The others are harep's, which changes their tags itself.
    """
    own = view.maintenance
    for instance in view.instances():
        state = state_of(instance)
        if state is None or not state.is_pending or state.latest is None:
            continue
        if own.repair_instances or (state.latest.jobs and set(state.latest.jobs) <= set(own.jobs)):
            yield instance, state.latest


def state_of(instance: Instance) -> State | None:
    """Where an instance stands by its tags; None where they contradict each other: a person has to look."""
    if not any(tag.startswith(repair_tags.PREFIX) for tag in instance.tags):
        return State()
    try:
        return repair_tags.state(instance.name, instance.tags)
    except ParameterError:
        return None


def _tagged(instance: Instance, repair: Repair) -> TagChange:
    state = state_of(instance) or State()
    return instance.uuid, [repair.tag], [tag for tag in state.tags if tag != repair.tag]


def _levels(view: ConfigView, instance: Instance) -> Iterable[Iterable[str]]:
    group = view.group(view.node(instance.primary_node).group)
    return instance.tags, group.tags, view.cluster.tags
