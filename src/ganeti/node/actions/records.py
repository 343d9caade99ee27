# SPDX-License-Identifier: BSD-2-Clause
"""The node call that reads the flight recorder."""

import asyncio

from ganeti.model.node_calls.records import FlightRecordRead, Line
from ganeti.node.actions.registry import answers
from ganeti.node.state import NodeState
from ganeti.system import flight_record

MOST = 10_000
"""Lines of one answer."""


@answers(FlightRecordRead)
async def flight_record_read(node: NodeState, asked: FlightRecordRead) -> list[Line]:
    most = max(1, min(asked.most, MOST))
    found = await asyncio.to_thread(flight_record.read, node.paths.log_dir, asked.about, asked.since_s, most)
    return [(noted.at_s, noted.text) for noted in found]
