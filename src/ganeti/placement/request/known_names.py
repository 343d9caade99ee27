# SPDX-License-Identifier: BSD-2-Clause
"""Whether what a request names is there (spec: htools, 10), asked before anything else is done.

The name of the group of an allocation is not asked about: that is an answer, not a mistake in the request.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Any

from ganeti.placement.cluster.picture import Cluster
from ganeti.placement.request.terms import (
    AllocateSecondary,
    ChangeGroup,
    MultiEvacuate,
    NodeEvacuate,
    Relocate,
    Request,
    RequestError,
)


def unknown_instance(name: str) -> RequestError:
    """The words of 3.1 for the one instance of a request."""
    return RequestError(f"Unknown instance '{name}'")


def unknown_element(name: str) -> RequestError:
    """The words of 3.1 for one of several names of a request."""
    return RequestError(f"Wrong number of elems found with name {name}")


def require_instances(cluster: Cluster, wanted: Mapping[str, Any]) -> None:
    """Raise `RequestError` where a request names an instance that there is not: 3.1 reads no further then."""
    kind, name, names = wanted.get("type"), wanted.get("name"), wanted.get("instances")
    if kind in ("relocate", "allocate-secondary") and isinstance(name, str):
        _require_instance(cluster, name)
    several = names if kind in ("node-evacuate", "change-group") and isinstance(names, list) else []
    if all(isinstance(one, str) for one in several):
        _require(several, {instance.name for instance in cluster.instances})


def require_known(cluster: Cluster, request: Request) -> None:
    """Raise `RequestError` for the first name in *request* that *cluster* does not have."""
    match request:
        case Relocate():
            _require_instance(cluster, request.name)
            _require(request.relocate_from, {node.name for node in cluster.nodes})
        case AllocateSecondary():
            _require_instance(cluster, request.name)
        case NodeEvacuate():
            _require(request.instances, {instance.name for instance in cluster.instances})
        case MultiEvacuate():
            _require(request.nodes, {node.name for node in cluster.nodes})
        case ChangeGroup():
            _require(request.instances, {instance.name for instance in cluster.instances})
            _require(request.target_groups, {name for group in cluster.groups for name in (group.uuid, group.name)})


def _require_instance(cluster: Cluster, name: str) -> None:
    if all(instance.name != name for instance in cluster.instances):
        raise unknown_instance(name)


def _require(names: Iterable[str], known: Container[str]) -> None:
    for name in names:
        if name not in known:
            raise unknown_element(name)
