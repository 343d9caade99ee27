# SPDX-License-Identifier: BSD-2-Clause
"""What must always hold in the configuration (protocols, section 14, "Verification on save").

 1. Every object stands under its own uuid; what it names exists: group of a node, primary node and disks of an
    instance, nodes of a disk, networks of NICs and groups, master node of the cluster.
 2. Nothing is promised twice: names of a kind, node addresses, MAC addresses, IP addresses within a network, ports,
    volumes, replication minors; a disk belongs to one instance.
 3. The master is a candidate; a node is at most one of candidate, drained, offline.
 4. Enabled hypervisors and disk templates are not empty, each enabled hypervisor has parameters.
 5. Disks of an instance are called disk/0, disk/1, … in their order; group names do not look like uuids.

`problems_of` checks the objects a change touched, `verify_all` everything; both by the same rules. What only asks for
attention (candidate pool not full) is told by `verify_all` and stops no change.
"""

import re
from collections.abc import Iterable, Iterator

from ganeti.master.config.indexes import Indexes, claims_of, needs_of
from ganeti.master.config.records import ObjectKey
from ganeti.model.objects import (
    KINDS,
    SINGLES,
    Cluster,
    ConfigObject,
    Instance,
    Node,
    NodeGroup,
)
from ganeti.model.view import ConfigView

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
ADMIN_STATES = ("up", "down", "offline")
ALLOC_POLICIES = ("preferred", "last_resort", "unallocable")


def problems_of(config: ConfigView, indexes: Indexes, touched: Iterable[ObjectKey]) -> list[str]:
    """Check objects just put or removed, against an index that has them already."""
    problems: list[str] = []
    related: dict[ObjectKey, None] = {}
    for key in touched:
        obj = config.get(*key)
        if obj is None:
            problems += _still_needed(config, indexes, key)
        else:
            problems += _problems_of_object(config, indexes, key, obj)
        related |= _related(config, indexes, key)
    for key in related:
        if (obj := config.get(*key)) is not None:
            problems += _problems_across(config, key, obj)
    return list(dict.fromkeys(problems))


def hard_problems(config: ConfigView, indexes: Indexes) -> list[str]:
    """All that would make a commit or an import be refused."""
    return problems_of(config, indexes, [(kind, uuid) for kind in KINDS for uuid in config.uuids(kind)])


def verify_all(config: ConfigView) -> list[str]:
    """Check the whole configuration; gives one sentence for each problem."""
    return hard_problems(config, index_all(config)) + list(_shortcomings(config))


def index_all(config: ConfigView) -> Indexes:
    indexes = Indexes()
    for kind in KINDS:
        for uuid in config.uuids(kind):
            if (obj := config.get(kind, uuid)) is not None:
                indexes.put((kind, uuid), obj)
    return indexes


def label(config: ConfigView, key: ObjectKey) -> str:
    """An object as people call it."""
    kind, uuid = key
    noun = KINDS[kind].__name__.lower()
    obj = config.get(kind, uuid)
    return f"{noun} {getattr(obj, 'name', None) or uuid}"


def _problems_of_object(config: ConfigView, indexes: Indexes, key: ObjectKey, obj: ConfigObject) -> Iterator[str]:
    me = label(config, key)
    if key[0] in SINGLES:
        if key[1] != SINGLES[key[0]]:
            yield f"There is a second {key[0]} object, {key[1]}"
    elif getattr(obj, "uuid", key[1]) != key[1]:
        yield f"{me} stands under the key {key[1]} but has the uuid {getattr(obj, 'uuid', '')}"
    for kind, uuid in needs_of(obj):
        if config.get(kind, uuid) is None:
            yield f"{me} refers to {KINDS[kind].__name__.lower()} '{uuid}', which does not exist"
    for claim in claims_of(key[0], obj):
        holders = indexes.holders[claim]
        if sum(holders.values()) > 1:
            names = ", ".join(sorted(label(config, holder) for holder in holders))
            yield f"{claim.what} {claim.value} is used more than once: {names}"
    if isinstance(obj, Cluster):
        yield from _problems_of_cluster(obj)
    elif isinstance(obj, Node):
        yield from _problems_of_node(obj, me)
    elif isinstance(obj, NodeGroup):
        yield from _problems_of_group(obj, me)
    elif isinstance(obj, Instance) and obj.admin_state not in ADMIN_STATES and not obj.forthcoming:
        yield f"{me} has the state '{obj.admin_state}': it must be one of {', '.join(ADMIN_STATES)}"


def _problems_of_cluster(cluster: Cluster) -> Iterator[str]:
    if not cluster.enabled_hypervisors:
        yield "The cluster has no enabled hypervisor"
    for hypervisor in cluster.enabled_hypervisors:
        if hypervisor not in cluster.hvparams:
            yield f"The enabled hypervisor {hypervisor} has no parameters in the cluster"
    if not cluster.enabled_disk_templates:
        yield "The cluster has no enabled disk template"
    if len(set(cluster.enabled_disk_templates)) != len(cluster.enabled_disk_templates):
        yield "The cluster's list of enabled disk templates has duplicates"


def _problems_of_node(node: Node, me: str) -> Iterator[str]:
    roles = [word for word in ("master_candidate", "drained", "offline") if getattr(node, word)]
    if len(roles) > 1:
        yield f"{me} is {' and '.join(roles)} at once: it may be one of them"
    if not node.name:
        yield f"{me} has no name"


def _problems_of_group(group: NodeGroup, me: str) -> Iterator[str]:
    if _UUID.fullmatch(group.name):
        yield f"{me} has a name that looks like a uuid"
    if group.alloc_policy not in ALLOC_POLICIES:
        yield f"{me} has the allocation policy '{group.alloc_policy}': it must be one of {', '.join(ALLOC_POLICIES)}"


def _still_needed(config: ConfigView, indexes: Indexes, key: ObjectKey) -> Iterator[str]:
    if key[0] == "cluster":
        yield "The cluster object cannot be removed"
    needing = sorted(label(config, other) for other in indexes.needed_by.get(key, ()))
    if needing:
        noun = KINDS[key[0]].__name__.lower()
        yield f"{noun} {key[1]} cannot be removed: needed by {', '.join(needing[:5])}{' …' if needing[5:] else ''}"


def _related(config: ConfigView, indexes: Indexes, key: ObjectKey) -> dict[ObjectKey, None]:
    """The objects whose rules reach over to this one: an instance over its disks, the cluster over its master."""
    if key[0] in ("cluster", "instances"):
        return {key: None}
    if key[0] == "disks":
        return {other: None for other in indexes.needed_by.get(key, ()) if other[0] == "instances"}
    if key[0] == "nodes":
        return {other: None for other in indexes.needed_by.get(key, ()) if other[0] == "cluster"}
    return {}


def _problems_across(config: ConfigView, key: ObjectKey, obj: ConfigObject) -> Iterator[str]:
    if isinstance(obj, Cluster):
        master = config.get("nodes", obj.master_node)
        if isinstance(master, Node) and not master.master_candidate:
            yield f"The master node {master.name} is not a master candidate"
    elif isinstance(obj, Instance):
        for index, uuid in enumerate(obj.disks):
            disk = config.get("disks", uuid)
            found = getattr(disk, "iv_name", None)
            if disk is not None and found != f"disk/{index}":
                yield f"{label(config, key)} calls its disk {index} '{found}': it must be 'disk/{index}'"


def _shortcomings(config: ConfigView) -> Iterator[str]:
    """What the administrator should mend, but no change is refused for."""
    nodes = config.nodes()
    candidates = sum(node.master_candidate for node in nodes)
    possible = sum(node.master_capable and not node.drained and not node.offline for node in nodes)
    wanted = min(possible, config.cluster.candidate_pool_size)
    if candidates < wanted:
        yield f"Not enough master candidates: there are {candidates}, there should be {wanted}"
