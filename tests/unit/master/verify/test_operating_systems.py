# SPDX-License-Identifier: BSD-2-Clause
"""What is said of OS definitions that are not the same on all nodes."""

from __future__ import annotations

import json
from pathlib import Path

from ganeti.master.verify.nodes import NodeReport, operating_systems
from ganeti.model.configuration import Configuration
from ganeti.model.node_calls.operating_systems import OsStatus
from ganeti.model.node_calls.verify import NodeFindings

GOLDEN = Path(__file__).resolve().parents[3] / "golden/config/config-3.1.json"


def test_parameters_that_differ_in_their_descriptions_alone_are_shown_with_them() -> None:
    nodes = Configuration.from_plain(json.loads(GOLDEN.read_text())).nodes()[:2]
    told = ("in MiB", "in GiB")
    found = [
        OsStatus(name="debian", path="/os/debian", valid=True, api_versions=[20], parameters=[("size", text)])
        for text in told
    ]
    reports = [NodeReport(node, NodeFindings(oslist=[one])) for node, one in zip(nodes, found, strict=True)]
    [finding] = operating_systems(reports)
    assert finding.message == (
        f"OS debian for parameters differs from reference node {nodes[0].name}: [size: in GiB] vs. [size: in MiB]"
    )
