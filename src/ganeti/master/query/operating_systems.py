# SPDX-License-Identifier: BSD-2-Clause
"""Fields of operating systems (rapi, section 4): asked by a job, since the nodes have to look."""

from dataclasses import dataclass
from typing import Any, Protocol

from ganeti.master.query.fields import BOOL, OTHER, TEXT, Field, Resource, table
from ganeti.model.objects import Cluster


class OsSummary(Protocol):
    """What all nodes say about an OS, as OP_OS_DIAGNOSE brings it together."""

    name: str

    @property
    def valid(self) -> bool: ...

    @property
    def trusted(self) -> bool: ...

    @property
    def variants(self) -> list[str]: ...

    @property
    def parameters(self) -> list[list[str]]: ...

    @property
    def api_versions(self) -> list[int]: ...

    def node_status(self) -> dict[str, list[list[Any]]]: ...


@dataclass(frozen=True)
class OsRow:
    os: OsSummary
    cluster: Cluster

    @property
    def variants(self) -> list[str]:
        unwanted = {*self.cluster.hidden_os, *self.cluster.blacklisted_os}
        return [variant for variant in self.os.variants if f"{self.os.name}+{variant}" not in unwanted]


OPERATING_SYSTEMS = Resource(
    "os",
    "name",
    table(
        [
            Field("name", "Name", TEXT, "Operating system name", lambda row: row.os.name),
            Field("valid", "Valid", BOOL, "Whether all nodes have it, usable", lambda row: row.os.valid),
            Field("hidden", "Hidden", BOOL, "Whether it is hidden", lambda row: row.os.name in row.cluster.hidden_os),
            Field(
                "blacklisted",
                "Blacklisted",
                BOOL,
                "Whether it is blacklisted",
                lambda row: row.os.name in row.cluster.blacklisted_os,
            ),
            Field("variants", "Variants", OTHER, "Variants", lambda row: row.variants),
            Field("api_versions", "ApiVersions", OTHER, "API versions", lambda row: row.os.api_versions),
            Field("parameters", "Parameters", OTHER, "Parameters", lambda row: row.os.parameters),
            Field("node_status", "NodeStatus", OTHER, "What each node says", lambda row: row.os.node_status()),
            Field(
                "os_hvp",
                "OsHypervisorParams",
                OTHER,
                "Hypervisor parameters of the OS",
                lambda row: row.cluster.os_hvp.get(row.os.name, {}),
            ),
            Field(
                "osparams",
                "OsParameters",
                OTHER,
                "Parameters of the OS",
                lambda row: row.cluster.osparams.get(row.os.name, {}),
            ),
            Field("trusted", "Trusted", BOOL, "Whether its scripts may run unconfined", lambda row: row.os.trusted),
        ]
    ),
    "OS",
)
