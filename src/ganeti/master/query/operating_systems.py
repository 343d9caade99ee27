# SPDX-License-Identifier: BSD-2-Clause
"""Fields of operating systems (rapi, section 4): asked by a job, since the nodes have to look."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ganeti.base.natural import natural_key
from ganeti.master.query.fields import BOOL, OTHER, TEXT, Field, Resource, table
from ganeti.model.node_calls.operating_systems import OsDiagnose, OsStatus
from ganeti.model.objects import Cluster, Node
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import NodeAnswer, ask_many


@dataclass
class OsSummary:
    """What all nodes say about an OS."""

    name: str
    nodes: dict[str, list[OsStatus]] = field(default_factory=dict)
    """By the uuid of the node; the first of several definitions counts."""

    def _counting(self) -> list[OsStatus]:
        return [found[0] for found in self.nodes.values() if found]

    @property
    def valid(self) -> bool:
        return all(self.nodes.values()) and all(found.valid for found in self._counting())

    @property
    def variants(self) -> list[str]:
        return [name for name in self._common("variants") if isinstance(name, str)]

    @property
    def parameters(self) -> list[list[str]]:
        return [list(parameter) for parameter in self._common("parameters")]

    @property
    def api_versions(self) -> list[int]:
        return self._common("api_versions")

    @property
    def trusted(self) -> bool:
        return all(found.trusted for found in self._counting())

    def _common(self, key: str) -> list[Any]:
        """What all nodes have, in the order of the first."""
        if not self.valid:
            return []
        first, *others = self._counting()
        return [item for item in getattr(first, key) if all(item in getattr(other, key) for other in others)]

    def node_status(self) -> dict[str, list[list[Any]]]:
        """By node: [path, valid, message, variants, parameters, API versions, trusted] of each definition."""
        return {node: [_in_a_row(status) for status in found] for node, found in self.nodes.items()}


def _in_a_row(status: OsStatus) -> list[Any]:
    parameters = [list(parameter) for parameter in status.parameters]
    return [
        *(status.path, status.valid, status.message, status.variants),
        *(parameters, status.api_versions, status.trusted),
    ]


def summarize(answers: list[NodeAnswer]) -> dict[str, OsSummary]:
    """Bring the nodes' answers together, by name of the OS; nodes without an answer do not count."""
    given = [answer for answer in answers if answer.error is None]
    names = sorted({found.name for answer in given for found in answer.value if found.name}, key=natural_key)
    return {
        name: OsSummary(
            name,
            {answer.node_uuid: [found for found in answer.value if found.name == name] for answer in given},
        )
        for name in names
    }


@dataclass(frozen=True)
class OsRow:
    os: OsSummary
    cluster: Cluster

    @property
    def variants(self) -> list[str]:
        unwanted = {*self.cluster.hidden_os, *self.cluster.blacklisted_os}
        return [variant for variant in self.os.variants if f"{self.os.name}+{variant}" not in unwanted]

    @property
    def hidden(self) -> bool:
        """One of which no variant is left has no name by which it can be installed."""
        return self.os.name in self.cluster.hidden_os or bool(self.os.variants and not self.variants)


async def ask_nodes(ctx: OperationContext, nodes: Iterable[Node]) -> list[NodeAnswer]:
    """What each of *nodes* that can run instances says of its definitions."""
    asked = [node.uuid for node in nodes if node.vm_capable and not node.offline]
    return await ask_many(ctx.nodes, asked, OsDiagnose())


def os_rows(answers: list[NodeAnswer], cluster: Cluster) -> list[OsRow]:
    """One row for each name, in natural order."""
    return [OsRow(summary, cluster) for summary in summarize(answers).values()]


async def _rows_by_job(ctx: OperationContext) -> list[OsRow]:
    return os_rows(await ask_nodes(ctx, ctx.config.view().nodes()), ctx.config.view().cluster)


OPERATING_SYSTEMS = Resource(
    "os",
    "name",
    table(
        [
            Field("name", "Name", TEXT, "Name of the operating system", lambda row: row.os.name),
            Field("valid", "Valid", BOOL, "All nodes can install it", lambda row: row.os.valid),
            Field("hidden", "Hidden", BOOL, "Left out of lists", lambda row: row.hidden),
            Field(
                "blacklisted",
                "Blacklisted",
                BOOL,
                "Refused for new instances",
                lambda row: row.os.name in row.cluster.blacklisted_os,
            ),
            Field("variants", "Variants", OTHER, "Variants that all nodes have", lambda row: row.variants),
            Field(
                "api_versions",
                "ApiVersions",
                OTHER,
                "Versions of the script interface that all nodes support",
                lambda row: row.os.api_versions,
            ),
            Field(
                "parameters",
                "Parameters",
                OTHER,
                "Parameters it takes: name and help of each",
                lambda row: row.os.parameters,
            ),
            Field("node_status", "NodeStatus", OTHER, "What each node says of it", lambda row: row.os.node_status()),
            Field(
                "os_hvp",
                "OsHypervisorParams",
                OTHER,
                "Hypervisor parameters set for it on the cluster",
                lambda row: row.cluster.os_hvp.get(row.os.name, {}),
            ),
            Field(
                "osparams",
                "OsParameters",
                OTHER,
                "Its parameters set on the cluster",
                lambda row: row.cluster.osparams.get(row.os.name, {}),
            ),
            Field("trusted", "Trusted", BOOL, "Its scripts may run without confinement", lambda row: row.os.trusted),
        ]
    ),
    "OS",
    rows_by_job=_rows_by_job,
    asks_nodes=True,
)
