# SPDX-License-Identifier: BSD-2-Clause
"""A request and the groups of a cluster the way 3.1 dumps them: for ``hail -v``, and where no group is left."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from ganeti.model.templates import TEMPLATES
from ganeti.placement.allocate.change_group import NO_GROUP_LEFT
from ganeti.placement.cluster.picture import AllocPolicy, Cluster, Disk, Group, Instance
from ganeti.placement.cluster.tags import TagRules, read_rules
from ganeti.placement.request.capacity import Capacity
from ganeti.placement.request.terms import (
    Allocate,
    AllocateSecondary,
    Answer,
    ChangeGroup,
    EvacuationMode,
    Moves,
    MultiAllocate,
    MultiEvacuate,
    NodeEvacuate,
    Relocate,
    Request,
)
from ganeti.tools.htools.haskell.figures import shown
from ganeti.tools.htools.haskell.quoting import quote, quoted
from ganeti.tools.htools.printing.opening import policy_record, template_word

_MODES = {
    EvacuationMode.PRIMARY_ONLY: "ChangePrimary",
    EvacuationMode.SECONDARY_ONLY: "ChangeSecondary",
    EvacuationMode.ALL: "ChangeAll",
}
_POLICIES = {
    AllocPolicy.PREFERRED: "AllocPreferred",
    AllocPolicy.LAST_RESORT: "AllocLastResort",
    AllocPolicy.UNALLOCABLE: "AllocUnallocable",
}
_NIC_MODES = {"bridged": "Bridged", "routed": "Routed", "openvswitch": "OpenVSwitch"}
_LOADS = ("cpuWeight", "memWeight", "dskWeight", "netWeight")


def request_record(cluster: Cluster, request: Request, wanted: Mapping[str, Any]) -> str:
    """Dump *request*, which was read from *wanted*: of that the network cards, which placement does not know."""
    instances = [instance.name for instance in cluster.instances]
    rules, group = read_rules(cluster.tags), named_group(wanted)
    match request:
        case Allocate():
            restricted = "Nothing" if request.restrict_to is None else f"(Just {quoted(request.restrict_to)})"
            return f"Allocate ({_new(request, wanted, rules)}) ({_details(request, group)}) {restricted}"
        case MultiAllocate():
            pairs = zip(request.requests, wanted["instances"], strict=True)
            records = [f"({_new(one, data, rules)},{_details(one, group)})" for one, data in pairs]
            return f"MultiAllocate [{','.join(records)}]"
        case Relocate():
            leaving = _numbers(request.relocate_from, [node.name for node in cluster.nodes])
            return f"Relocate {instances.index(request.name)} {_argument(request.required_nodes)} {leaving}"
        case AllocateSecondary():
            return f"AllocateSecondary {instances.index(request.name)}"
        case NodeEvacuate():
            return f"NodeEvacuate {_numbers(request.instances, instances)} {_MODES[request.mode]}"
        case MultiEvacuate():
            return f"MultiEvacuate {_numbers(request.nodes, [node.name for node in cluster.nodes])}"
        case ChangeGroup():
            targets = ",".join(str(_group_numbers(cluster)[name]) for name in request.target_groups)
            return f"ChangeGroup {_numbers(request.instances, instances)} [{targets}]"
        case Capacity():
            return f"Capacity {quoted(request.groups)}"
    assert_never(request)


def named_group(wanted: Mapping[str, Any]) -> str | None:
    """The group that the request names, be it by nothing or as a list of letters; None where it names none."""
    name = wanted.get("group_name")
    return None if name is None else "".join(name)


def is_dedicated(cluster: Cluster, request: Request, named: str | None) -> bool:
    """Whether new instances are placed by what is lost: all nodes they may go to have exclusive storage, or none is."""
    if not isinstance(request, Allocate | MultiAllocate):
        return False
    groups = {group.uuid for group in cluster.groups if group.alloc_policy != AllocPolicy.UNALLOCABLE}
    if named is not None and (isinstance(request, Allocate) or request.requests):
        groups = {group.uuid for group in cluster.groups if named in (group.name, group.uuid)}
    return all(node.exclusive_storage for node in cluster.nodes if node.group in groups)


def with_records(cluster: Cluster, request: Request, found: Answer) -> Answer:
    """The answer with 3.1's words for an instance that no group is left for."""
    if not isinstance(request, ChangeGroup) or not isinstance(found, Moves):
        return found
    reasons = {NO_GROUP_LEFT: _no_group_left(cluster, request)}
    return replace(found, failed=tuple((name, reasons.get(text, text)) for name, text in found.failed))


def _no_group_left(cluster: Cluster, request: ChangeGroup) -> str:
    """The sentence with the groups allowed and, whole, all groups that have nodes."""
    group_of = {node.name: node.group for node in cluster.nodes}
    own = {group_of[instance.primary] for instance in cluster.instances if instance.name in request.instances}
    names = request.target_groups or [group.uuid for group in cluster.groups]
    asked = [_group_numbers(cluster)[name] for name in names]
    allowed = ",".join(str(number) for number in asked if cluster.groups[number].uuid not in own)
    numbered = [(n, group) for n, group in enumerate(cluster.groups) if group.uuid in group_of.values()]
    records = ",".join(group_record(number, group) for number, group in numbered)
    return f"no groups for evacuation: allowed groups was Just [{allowed}], all groups: [{records}]"


def _group_numbers(cluster: Cluster) -> dict[str, int]:
    """By UUID and by name."""
    numbers = {group.uuid: number for number, group in enumerate(cluster.groups)}
    return numbers | {group.name: number for number, group in enumerate(cluster.groups)}


def group_record(number: int, group: Group) -> str:
    return record(
        "Group",
        name=quote(group.name),
        uuid=quote(group.uuid),
        idx=number,
        allocPolicy=_POLICIES[group.alloc_policy],
        networks=quoted(group.networks),
        iPolicy=policy_record(group.policy),
        allTags=quoted(group.tags),
    )


@dataclass(frozen=True)
class Numbered:
    """What an instance and its nodes are called by number: of a new one, as 3.1 has it before it is placed."""

    instance: int = -1
    primary: int = 0
    secondary: int = 0


def instance_record(
    instance: Instance,
    numbers: Numbered,
    rules: TagRules,
    *,
    alias: str,
    status: str = "Running",
    repairs: str = "ArNotEnabled",
    movable: bool = True,
    location_score: int = 0,
    cards: Iterable[Mapping[str, Any]] = (),
) -> str:
    """One instance; *status* and *repairs* are 3.1's words, *cards* the network cards as the message has them.

    Only what may be *movable* is so if its template lets it be moved.
    """
    exclusive, desired = rules.exclusion_of(instance.tags), sorted(rules.desired_of(instance.tags))
    return record(
        "Instance",
        name=quote(instance.name),
        alias=quote(alias),
        mem=instance.memory_mib,
        dsk=instance.disk_mib,
        disks=f"[{','.join(map(_disk, instance.disks))}]",
        vcpus=instance.vcpus,
        runSt=status,
        pNode=numbers.primary,
        sNode=numbers.secondary,
        idx=numbers.instance,
        util=load_record(instance.load),
        movable=movable and TEMPLATES[instance.template].movable,
        autoBalance=instance.auto_balance,
        diskTemplate=template_word(instance.template),
        spindleUse=instance.spindle_use,
        allTags=quoted(instance.tags),
        exclTags=quoted(tag for tag in instance.tags if tag in exclusive),
        dsrdLocTags=f"fromList {quoted(desired)}",
        locationScore=location_score,
        arPolicy=repairs,
        nics=f"[{','.join(map(_nic, cards))}]",
        forthcoming=instance.forthcoming,
    )


def _new(request: Allocate, wanted: Mapping[str, Any], rules: TagRules) -> str:
    instance = request.instance
    return instance_record(instance, Numbered(), rules, alias=instance.name, cards=wanted.get("nics") or ())


def _details(request: Allocate, named: str | None) -> str:
    group = "Nothing" if named is None else f"(Just {quote(named)})"
    return f"AllocDetails {_argument(request.required_nodes)} {group}"


def _disk(disk: Disk) -> str:
    spindles = "Nothing" if disk.spindles is None else f"Just {_argument(disk.spindles)}"
    return record("Disk", dskSize=disk.size_mib, dskSpindles=spindles)


def _nic(data: Mapping[str, Any]) -> str:
    texts = {key: _perhaps(data.get(key)) for key in ("mac", "ip", "link", "bridge", "network")}
    mode = data.get("mode")
    texts["mode"] = "Nothing" if mode is None else f"Just {_NIC_MODES.get(mode, mode)}"
    return record("Nic", **{key: texts[key] for key in ("mac", "ip", "mode", "link", "bridge", "network")})


def load_record(load: Sequence[float]) -> str:
    """Load of CPU, memory, disk and network."""
    return record("DynUtil", **{key: shown(value) for key, value in zip(_LOADS, load, strict=True)})


def record(kind: str, **fields: object) -> str:
    """A record the way 3.1 shows it: its kind, and its fields by name."""
    return f"{kind} {{{', '.join(f'{key} = {value}' for key, value in fields.items())}}}"


def _perhaps(text: Any) -> str:
    return "Nothing" if text is None else f"Just {quote(text)}"


def _argument(number: int) -> str:
    """A number behind a word, where a sign would be read as a subtraction."""
    return f"({number})" if number < 0 else str(number)


def _numbers(names: Iterable[str], known: Sequence[str]) -> str:
    return f"[{','.join(str(known.index(name)) for name in names)}]"
