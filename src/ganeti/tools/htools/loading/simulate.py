# SPDX-License-Identifier: BSD-2-Clause
"""Empty clusters described on the command line: ``--simulate policy,nodes,disk,ram,cpu[,spindles[,exclusive]]``."""

from collections.abc import Sequence

from ganeti.base.errors import ParameterError
from ganeti.placement.cluster.picture import AllocPolicy, Cluster, Group, Node
from ganeti.tools.htools.command_line.option_values import BadValue, size_mib
from ganeti.tools.htools.haskell import numerals

_POLICIES = {
    "p": AllocPolicy.PREFERRED,
    "a": AllocPolicy.LAST_RESORT,
    "u": AllocPolicy.UNALLOCABLE,
    **{policy.value: policy for policy in AllocPolicy},
}
_EXCLUSIVE = {"True": True, "False": False}
_DEFAULTS = ("1", "False")
_LEAST_FIELDS, _MOST_FIELDS = 5, 7


class SpecificationError(ParameterError):
    """The description makes no sense; the message is the sentence for the user."""


def read(specifications: Sequence[str]) -> tuple[Cluster, list[str]]:
    """Build the cluster, a group for each description, and name its master; raises `SpecificationError`."""
    groups, nodes = [], []
    for number, specification in enumerate(specifications, 1):
        group, members = _read_group(specification, number)
        groups.append(group)
        nodes.extend(members)
    return Cluster(nodes=nodes, groups=groups), [node.name for node in nodes[:1]]


def _read_group(specification: str, number: int) -> tuple[Group, list[Node]]:
    fields = specification.split(",") if specification else []
    if not _LEAST_FIELDS <= len(fields) <= _MOST_FIELDS:
        raise SpecificationError(
            "Invalid cluster specification, expected 6 comma-separated sections (allocation policy, node count, disk"
            f" size, memory size, number of CPUs, spindles) but got {len(fields)}: '{specification}'"
        )
    policy, count, disk, memory, cpus, spindles, exclusive = [*fields, *_DEFAULTS[len(fields) - _LEAST_FIELDS :]]
    group = Group(uuid=f"fake-uuid-{number:02d}", name=f"group-{number:02d}", alloc_policy=_policy(policy))
    nodes = _integer("node count", count)
    try:
        disk_mib, memory_mib = size_mib(disk, "disk size"), size_mib(memory, "memory size")
    except BadValue as error:
        raise SpecificationError(str(error)) from None
    total_cpus, total_spindles = _integer("cpu count", cpus), _integer("spindles", spindles)
    if exclusive.strip() not in _EXCLUSIVE:
        raise SpecificationError(f"exclusive storage: cannot parse string '{exclusive}'")
    return group, [
        Node(
            name=f"node-{number:02d}-{index:03d}",
            group=group.uuid,
            total_memory_mib=float(memory_mib),
            free_memory_mib=memory_mib,
            total_disk_mib=float(disk_mib),
            free_disk_mib=disk_mib,
            total_cpus=float(total_cpus),
            node_cpus=1,
            spindles=total_spindles,
            exclusive_storage=_EXCLUSIVE[exclusive.strip()],
        )
        for index in range(1, nodes + 1)
    ]


def _integer(what: str, text: str) -> int:
    try:
        return numerals.integer(text)
    except numerals.Unreadable as error:
        raise SpecificationError(f"{what}: {error}") from None


def _policy(text: str) -> AllocPolicy:
    if text in _POLICIES:
        return _POLICIES[text]
    raise SpecificationError(
        f"Invalid string value for type AllocPolicy: \"{text}\"; Cannot parse AllocPolicy abbreviation '{text}'"
    )
