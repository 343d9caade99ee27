# SPDX-License-Identifier: BSD-2-Clause
"""All that can be queried, by name, and the rows that come from the configuration."""

from typing import Any

from ganeti.base.natural import natural_key
from ganeti.master.query.fields import QueryWorld, Resource
from ganeti.master.query.filter_rules import FILTERS, FilterRow
from ganeti.master.query.groups import GROUPS, GroupRow
from ganeti.master.query.instances import InstanceRow, instance_resource
from ganeti.master.query.jobs import JOBS
from ganeti.master.query.locks import LOCKS, lock_rows
from ganeti.master.query.networks import NETWORKS, NetworkRow
from ganeti.master.query.nodes import NODES, NodeRow
from ganeti.model.traits import Catalogue

__all__ = ["build", "config_rows", "lock_rows"]


def build(catalogue: Catalogue) -> dict[str, Resource]:
    """Every resource LuxiD answers for; some fields come from what the drivers have."""
    found = [NODES, instance_resource(catalogue), GROUPS, NETWORKS, JOBS, LOCKS, FILTERS]
    return {resource.name: resource for resource in found}


def config_rows(what: str, world: QueryWorld) -> list[Any]:
    """The rows of a resource that is stored, in natural order of their names."""
    if what == "filter":
        return [FilterRow(rule) for rule in sorted(world.view.filters(), key=lambda rule: (rule.priority, rule.uuid))]
    objects, row = _STORED[what]
    return [row(item, world) for item in sorted(objects(world), key=lambda item: natural_key(item.name))]


_STORED: dict[str, Any] = {
    "node": (lambda world: world.view.nodes(), NodeRow),
    "instance": (lambda world: world.view.instances(), InstanceRow),
    "group": (lambda world: world.view.groups(), GroupRow),
    "network": (lambda world: world.view.networks(), NetworkRow),
}
