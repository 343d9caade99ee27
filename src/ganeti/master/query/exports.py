# SPDX-License-Identifier: BSD-2-Clause
"""Fields of exports (rapi, section 4): the copies of instances that nodes keep."""

from dataclasses import dataclass

from ganeti.master.query.fields import TEXT, Field, Resource, table


@dataclass(frozen=True)
class ExportRow:
    node: str
    export: str | None
    """Name of the exported instance; None for a node that does not answer."""


EXPORTS = Resource(
    "export",
    "export",
    table(
        [
            Field("node", "Node", TEXT, "Node that keeps the export", lambda row: row.node),
            Field("export", "Export", TEXT, "Name of the exported instance", lambda row: row.export),
        ]
    ),
    "Export",
    rows=lambda world: [],  # no operation makes exports yet
)
