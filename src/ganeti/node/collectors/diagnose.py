# SPDX-License-Identifier: BSD-2-Clause
"""Whether the node's hardware is well, by a command of its administrator (S4.3-S4.14).

What is not as it must be, the command or what it prints, counts as a node that is well: the reason stands in the
details, and no node is taken out of service by a mistake.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ganeti.node.collectors.interface import Node, Sample, collector
from ganeti.node.collectors.probes import Diagnosed
from ganeti.node.collectors.report import STATUS
from ganeti.wire.confd import sign
from ganeti.wire.diagnose_report import OK, STATUSES, RefusedReport, read_object
from ganeti.wire.prometheus import GAUGE

NAME, CATEGORY = "diagnose", "node"
LARGEST_OUTPUT_BYTES = 64 * 1024
TIMEOUT_S = 60.0


def well(details: Any = None) -> dict[str, Any]:
    """The object of a node that is well; *details* says why nothing else is known."""
    return {"status": OK} if details is None else {"status": OK, "details": details}


def read(output: bytes) -> Diagnosed:
    """What a command has printed; the object of a node that is well, with the reason, for what breaks the contract."""
    try:
        return Diagnosed(read_object(output))
    except RefusedReport as refusal:
        return refused(str(refusal))


def refused(fault: str) -> Diagnosed:
    """A command that may not run, or that says what nobody understands."""
    return Diagnosed(well(fault), fault)


def signed(found: dict[str, Any], node: str, key: bytes, now_s: float | None = None) -> dict[str, str]:
    """The object with the node's name and the time, signed by the cluster's key: who acts believes this (S4.14)."""
    now = time.time() if now_s is None else now_s
    message = json.dumps({"node": node, "time": now, "diagnose": found}, sort_keys=True)
    return sign(message, str(int(now)), key)


def _signature(node: Node, data: Any) -> Mapping[str, Any]:
    return {"signed": signed(data, node.name, node.key())} if isinstance(data, dict) else {}


def _samples(data: Any) -> Iterator[Sample]:
    for status in STATUSES:
        yield Sample("ganeti_node_diagnose", {"status": status}, data["status"] == status)


@collector(
    *(NAME, CATEGORY, STATUS),
    paced=True,
    beside=_signature,
    metrics={"ganeti_node_diagnose": (GAUGE, "1 for what the node's diagnose command says.")},
    samples=_samples,
)
async def _collect(node: Node) -> Any:
    name = node.cluster.settings.diagnose_command
    if not name:
        return well()
    told = await node.probes.diagnosed(name)
    node.note_refusal(told.fault)
    return told.original
