# SPDX-License-Identifier: BSD-2-Clause
"""Fields of exports (rapi, section 4): the copies of instances that nodes keep."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ganeti.base.natural import natural_key
from ganeti.master.query.collecting import NodeAsker
from ganeti.master.query.fields import NODATA, TEXT, Field, Resource, table
from ganeti.model.node_calls.exports import ExportList
from ganeti.model.view import ConfigView


@dataclass(frozen=True)
class ExportRow:
    node: str
    export: str | None
    """Name of the exported instance; None for a node that does not answer."""


async def export_rows(view: ConfigView, nodes: NodeAsker, names: Sequence[Any] = ()) -> list[ExportRow]:
    """A row for each export on the nodes named, or on all; one without a name for a node that does not answer.

    An unknown node is an error, as in 3.1.
    """
    asked = [view.find_node(str(name)) for name in names] or sorted(
        view.nodes(), key=lambda node: natural_key(node.name)
    )
    online = [node.uuid for node in asked if not node.offline]
    told = {answer.node_uuid: answer for answer in await nodes.ask(online, ExportList())}
    rows = []
    for node in {node.uuid: node for node in asked}.values():
        answer = told.get(node.uuid)
        if answer is None or answer.error is not None:
            rows.append(ExportRow(node.name, None))
        else:
            rows += [ExportRow(node.name, name) for name in answer.value]
    return rows


EXPORTS = Resource(
    "export",
    "node",
    table(
        [
            Field("node", "Node", TEXT, "Node that keeps the export", lambda row: row.node, host_name=True),
            Field("export", "Export", TEXT, "Name of the exported instance", lambda row: row.export or NODATA),
        ]
    ),
    "Node",
    rows_of_nodes=export_rows,
    columns="node export",
    program="gnt-backup",
)
