# SPDX-License-Identifier: BSD-2-Clause
"""Fields of providers of external storage (rapi, section 4): asked by a job, since the nodes have to look."""

from dataclasses import dataclass
from typing import Any

from ganeti.base.natural import natural_key
from ganeti.master.query.fields import OTHER, TEXT, Field, Resource, table
from ganeti.model.node_calls.storage import ExtstorageDiagnose, ProviderStatus
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask_many


@dataclass(frozen=True)
class ProviderRow:
    """What all nodes that answered say of a provider."""

    name: str
    nodes: dict[str, list[ProviderStatus]]
    """By UUID of the node; the first of several definitions counts."""
    view: ConfigView

    @property
    def node_status(self) -> dict[str, list[list[Any]]]:
        """By name of the node: [path, usable, fault, parameters] of each definition."""
        return {
            self.view.node(uuid).name: [[each.path, not each.fault, each.fault, each.parameters] for each in found]
            for uuid, found in self.nodes.items()
        }

    @property
    def group_status(self) -> dict[str, bool]:
        """By name of the group: whether all its nodes that have answered can use it."""
        status: dict[str, bool] = {}
        for uuid, found in self.nodes.items():
            group = self.view.group(self.view.node(uuid).group).name
            status[group] = status.get(group, True) and _usable(found)
        return status

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Those that all nodes know, where all can use it; in the order of the first node."""
        if not all(map(_usable, self.nodes.values())):
            return []
        first, *others = [found[0].parameters for found in self.nodes.values()]
        return [each for each in first if all(each in other for other in others)]


def _usable(found: list[ProviderStatus]) -> bool:
    return bool(found) and not found[0].fault


async def provider_rows(ctx: OperationContext) -> list[ProviderRow]:
    """One row for each name, in natural order; nodes that do not answer are warned of."""
    view = ctx.config.view()
    nodes = [node.uuid for node in view.nodes() if node.vm_capable and not node.offline]
    given: dict[str, list[ProviderStatus]] = {}
    for answer in await ask_many(ctx.nodes, nodes, ExtstorageDiagnose()):
        if answer.error is not None:
            ctx.log.warning(f"No word about external storage: {answer.error}")
        else:
            given[answer.node_uuid] = answer.value
    names = sorted({each.name for found in given.values() for each in found}, key=natural_key)
    return [
        ProviderRow(name, {uuid: [each for each in found if each.name == name] for uuid, found in given.items()}, view)
        for name in names
    ]


EXTERNAL_STORAGE = Resource(
    "extstorage",
    "name",
    table(
        [
            Field("name", "Name", TEXT, "Name of the provider", lambda row: row.name),
            Field("node_status", "NodeStatus", OTHER, "What each node says of it", lambda row: row.node_status),
            Field(
                "nodegroup_status",
                "NodegroupStatus",
                OTHER,
                "Whether all nodes of each group can use it",
                lambda row: row.group_status,
            ),
            Field(
                "parameters",
                "Parameters",
                OTHER,
                "Parameters it takes: name and help of each",
                lambda row: row.parameters,
            ),
        ]
    ),
    "Provider",
    rows_by_job=provider_rows,
    asks_nodes=True,
)
