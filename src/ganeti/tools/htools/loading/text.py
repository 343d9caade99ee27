# SPDX-License-Identifier: BSD-2-Clause
"""The text format of a cluster: sections of lines, fields apart by ``|`` (spec: htools, 1).

Reading is strict, with the words of 3.1 for what is wrong; `write` gives every column, and what it wrote is read back
as the same cluster.
"""

from collections.abc import Callable, Iterator, Sequence

from ganeti.base.errors import ParameterError
from ganeti.model.templates import TEMPLATES
from ganeti.placement.cluster.picture import AllocPolicy, Cluster, Disk, Group, Instance, Node, Status
from ganeti.placement.cluster.policy import BUILT_IN_POLICY, Policy, Spec
from ganeti.tools.htools.haskell import numerals
from ganeti.tools.htools.haskell.figures import fixed, shown
from ganeti.tools.htools.haskell.quoting import quote, quoted

SECTIONS = 4
_GROUP_FIELDS, _NODE_FIELDS, _INSTANCE_FIELDS, _POLICY_FIELDS = 4, 9, 10, 6
_NODE_DEFAULTS = ("1", "", "N", "0", "1", "1.0")
_INSTANCE_DEFAULTS = ("1", "-", "N")
_ALLOCATION = {policy.value: policy for policy in AllocPolicy}
_STATUSES = {status.value: status for status in Status}
_YES_OR_NO = {"Y": True, "N": False}
_SPEC_FIELDS = ("memsize", "cpucount", "disksize", "diskcount", "niccount", "spindleuse")
_OFFLINE = "offline"


class TextError(ParameterError):
    """The text is no cluster; the message is the sentence for the user."""


def read(text: str) -> tuple[Cluster, list[str]]:
    """Read a cluster and the names of its masters (one, if the file is right); raises `TextError`."""
    sections = _sections(text)
    if len(sections) < SECTIONS:
        raise TextError(f"Invalid format of the input file: {len(sections)} sections instead of {SECTIONS} or more")
    groups = [_read_group(line) for line in sections[0]]
    uuids = {group.uuid for group in groups}
    nodes = [_read_node(line, uuids) for line in sections[1]]
    names = {node.name for node in nodes}
    instances = [_read_instance(line, names) for line in sections[2]]
    policy = BUILT_IN_POLICY
    for line in sections[SECTIONS] if len(sections) > SECTIONS else ():
        owner, found = _read_policy(line)
        if not owner:
            policy = found
        else:
            groups = _with_policy(groups, owner, found)
    lines = (line.split("|") for line in sections[1])
    masters = [fields[0] for fields in lines if fields[7] == "M" and _is_known(fields)]
    return Cluster(nodes=nodes, instances=instances, groups=groups, tags=sections[3], policy=policy), masters


def _sections(text: str) -> list[list[str]]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    sections: list[list[str]] = [[]] if lines else []
    for line in lines:
        if line:
            sections[-1].append(line)
        else:
            sections.append([])
    return sections


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def _read_group(line: str) -> Group:
    fields = line.split("|")
    if len(fields) < _GROUP_FIELDS:
        raise TextError(f"Invalid/incomplete group data: '{quoted(fields)}'")
    name, uuid, allocation, tags = fields[:_GROUP_FIELDS]
    if allocation not in _ALLOCATION:
        raise TextError(f"Invalid string value for type AllocPolicy: {quote(allocation)}")
    networks = fields[_GROUP_FIELDS] if len(fields) > _GROUP_FIELDS else ""
    return Group(
        uuid=uuid, name=name, alloc_policy=_ALLOCATION[allocation], networks=_words(networks), tags=_words(tags)
    )


def _read_node(line: str, groups: set[str]) -> Node:
    fields = line.split("|")
    given = len(fields)
    if given < _NODE_FIELDS:
        raise TextError(f"Invalid/incomplete node data: '{quoted(fields)}'")
    fields += _NODE_DEFAULTS[given - _NODE_FIELDS :]
    name, group = fields[0], fields[8]
    if group not in groups:
        raise TextError(f"Unknown group '{group}' for node {name}")
    if not _is_known(fields):
        return Node(name=name, group=group, unavailable=_OFFLINE, spindles=0)
    try:
        sizes = _sizes(fields[1:7])
        node_cpus = numerals.integer(fields[13])
        spindles = numerals.integer(fields[9])
        cpu_speed = numerals.real(fields[14])
        free_spindles = numerals.integer(fields[12])
    except numerals.Unreadable as error:
        raise TextError(f"{name}: {error}") from None
    if fields[11] not in _YES_OR_NO:
        raise TextError(f"Invalid exclusive_storage value for node '{name}': {fields[11]}")
    return Node(
        name=name,
        group=group,
        total_memory_mib=sizes[0],
        node_memory_mib=int(sizes[1]),
        free_memory_mib=int(sizes[2]),
        total_disk_mib=sizes[3],
        free_disk_mib=int(sizes[4]),
        total_cpus=sizes[5],
        node_cpus=node_cpus,
        unavailable=_OFFLINE if fields[7] == "Y" else "",
        spindles=spindles,
        free_spindles=free_spindles,
        exclusive_storage=_YES_OR_NO[fields[11]],
        cpu_speed=cpu_speed,
        tags=_words(fields[10]),
    )


def _is_known(fields: Sequence[str]) -> bool:
    """Whether a node's size is known; else it counts as offline, whatever its flag says."""
    return "?" not in fields[1:7]


_SIZE_READERS: tuple[Callable[[str], float], ...] = (
    numerals.real,
    numerals.integer,
    numerals.integer,
    numerals.real,
    numerals.integer,
    numerals.real,
)


def _sizes(fields: Sequence[str]) -> list[float]:
    return [read(field) for read, field in zip(_SIZE_READERS, fields, strict=True)]


def _read_instance(line: str, nodes: set[str]) -> Instance:
    fields = line.split("|")
    given = len(fields)
    if given < _INSTANCE_FIELDS:
        raise TextError(f"Invalid/incomplete instance data: '{quoted(fields)}'")
    fields += _INSTANCE_DEFAULTS[given - _INSTANCE_FIELDS :]
    name, memory, disk, cpus, status, balance, primary, secondary, template, tags, use, spindles, forthcoming = fields[
        :13
    ]
    if primary not in nodes:
        raise TextError(f"Unknown node '{primary}' for instance {name}")
    if secondary and secondary not in nodes:
        raise TextError(f"Unknown node '{secondary}' for instance {name}")
    try:
        memory_mib, disk_mib, vcpus = numerals.integer(memory), numerals.integer(disk), numerals.integer(cpus)
        _check_words(name, status, balance, template)
        spindle_use = numerals.integer(use)
        disk_spindles = None if spindles == "-" else numerals.integer(spindles)
    except numerals.Unreadable as error:
        raise TextError(f"{name}: {error}") from None
    if forthcoming not in _YES_OR_NO:
        raise TextError(f"Invalid forthcoming value '{forthcoming}' for instance {name}")
    if primary == secondary and TEMPLATES[template].has_secondary:
        raise TextError(f"Instance {name} has same primary and secondary node - {primary}")
    return Instance(
        name=name,
        memory_mib=memory_mib,
        disk_mib=disk_mib,
        vcpus=vcpus,
        template=template,
        primary=primary,
        secondary=secondary,
        disks=(Disk(disk_mib, disk_spindles),),
        status=_STATUSES[status],
        auto_balance=_YES_OR_NO[balance],
        spindle_use=spindle_use,
        forthcoming=_YES_OR_NO[forthcoming],
        tags=_words(tags),
    )


def _check_words(name: str, status: str, balance: str, template: str) -> None:
    if status not in _STATUSES:
        raise TextError(f"Invalid string value for type InstanceStatus: {quote(status)}")
    if balance not in _YES_OR_NO:
        raise TextError(f"Invalid auto_balance value '{balance}' for instance {name}")
    if template not in TEMPLATES:
        raise TextError(f"Instance {name}: Invalid string value for type DiskTemplate: {quote(template)}")


def _read_policy(line: str) -> tuple[str, Policy]:
    fields = line.split("|")
    if len(fields) < _POLICY_FIELDS:
        raise TextError(f"Invalid ipolicy data: '{quoted(fields)}'")
    owner, standard, ranges, templates, vcpu_ratio, spindle_ratio = fields[:_POLICY_FIELDS]
    read_standard = _read_spec(f"{owner}/stdspec", standard)
    read_ranges = tuple(_read_ranges(owner, ranges))
    for template in _words(templates):
        if template not in TEMPLATES:
            raise TextError(f"Invalid string value for type DiskTemplate: {quote(template)}")
    return owner, Policy(
        standard=read_standard,
        ranges=read_ranges,
        templates=_words(templates),
        vcpu_ratio=_read_ratio(f"{owner}/vcpu_ratio", vcpu_ratio),
        spindle_ratio=_read_ratio(f"{owner}/spindle_ratio", spindle_ratio),
    )


def _read_ranges(owner: str, text: str) -> Iterator[tuple[Spec, Spec]]:
    specs = text.split(";") if text else []
    if len(specs) % 2:
        raise TextError(f"Odd number of min/max specs for {owner}")
    for minimum, maximum in zip(specs[::2], specs[1::2], strict=True):
        yield _read_spec(f"{owner}/minspec", minimum), _read_spec(f"{owner}/maxspec", maximum)


def _read_spec(what: str, text: str) -> Spec:
    parts = _words(text)
    if len(parts) < len(_SPEC_FIELDS):
        raise TextError(f"Invalid ispec data for {what}: {quoted(parts)}")
    values = []
    for field, part in zip(_SPEC_FIELDS, parts, strict=False):
        try:
            values.append(numerals.integer(part))
        except numerals.Unreadable as error:
            raise TextError(f"{what}/{field}: {error}") from None
    return Spec(*values)


def _read_ratio(what: str, text: str) -> float:
    try:
        return numerals.real(text)
    except numerals.Unreadable as error:
        raise TextError(f"{what}: {error}") from None


def _with_policy(groups: Sequence[Group], owner: str, policy: Policy) -> list[Group]:
    if sum(group.name == owner for group in groups) != 1:
        raise TextError(f"Wrong number of elems found with name {owner}")
    return [
        Group(group.uuid, group.name, group.alloc_policy, policy, group.networks, group.tags)
        if group.name == owner
        else group
        for group in groups
    ]


def write(cluster: Cluster, masters: Sequence[str] = ()) -> str:
    """The text of *cluster*, every column written out, policies for the cluster and each group."""
    sections = [
        "".join(_group_line(group) for group in cluster.groups),
        "".join(_node_line(node, node.name in masters) for node in cluster.nodes),
        "".join(_instance_line(instance) for instance in cluster.instances),
        "".join(f"{tag}\n" for tag in cluster.tags),
        _policy_line("", cluster.policy) + "".join(_policy_line(group.name, group.policy) for group in cluster.groups),
    ]
    return "\n".join(sections)


def _group_line(group: Group) -> str:
    tags, networks = ",".join(group.tags), ",".join(group.networks)
    return f"{group.name}|{group.uuid}|{group.alloc_policy.value}|{tags}|{networks}\n"


def _node_line(node: Node, master: bool) -> str:
    flag = "Y" if node.unavailable else "M" if master else "N"
    return (
        f"{node.name}|{fixed(node.total_memory_mib, 0)}|{node.node_memory_mib}|{node.free_memory_mib}|"
        f"{fixed(node.total_disk_mib, 0)}|{node.free_disk_mib}|{fixed(node.total_cpus, 0)}|{flag}|{node.group}|"
        f"{node.spindles}|{','.join(node.tags)}|{'Y' if node.exclusive_storage else 'N'}|{node.free_spindles}|"
        f"{node.node_cpus}|{_plain(node.cpu_speed)}\n"
    )


def _instance_line(instance: Instance) -> str:
    spindles = instance.total_spindles
    return (
        f"{instance.name}|{instance.memory_mib}|{instance.disk_mib}|{instance.vcpus}|{instance.status.value}|"
        f"{'Y' if instance.auto_balance else 'N'}|{instance.primary}|{instance.secondary}|{instance.template}|"
        f"{','.join(instance.tags)}|{instance.spindle_use}|{'-' if spindles is None else spindles}|"
        f"{'Y' if instance.forthcoming else 'N'}\n"
    )


def _policy_line(owner: str, policy: Policy) -> str:
    ranges = ";".join(_spec_text(spec) for pair in policy.ranges for spec in pair)
    ratios = f"{shown(policy.vcpu_ratio)}|{shown(policy.spindle_ratio)}"
    return f"{owner}|{_spec_text(policy.standard)}|{ranges}|{','.join(policy.templates)}|{ratios}\n"


def _spec_text(spec: Spec) -> str:
    return f"{spec.memory_mib},{spec.cpus},{spec.disk_mib},{spec.disks},{spec.nics},{spec.spindle_use}"


def _plain(value: float) -> str:
    """All digits of *value* without an exponent."""
    words = shown(value)
    if "e" not in words:
        return words
    from decimal import Decimal

    plain = f"{Decimal(repr(value)):f}"
    return plain if "." in plain else f"{plain}.0"
