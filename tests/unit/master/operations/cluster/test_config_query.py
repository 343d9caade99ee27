# SPDX-License-Identifier: BSD-2-Clause
"""Values of the cluster by a job."""

from __future__ import annotations

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operations.cluster.config_query import QueryConfigValues
from ganeti.ports.context import Switches


def test_values_come_in_the_order_asked_and_others_are_refused() -> None:
    ctx = FakeContext(configuration(), catalogue())
    ctx.switches = lambda: Switches(drained=True)  # type: ignore[attr-defined]
    names = ["drain_flag", "master_node", "cluster_name", "watcher_pause"]
    assert run(QueryConfigValues(output_fields=names), ctx) == [True, "node1", "cluster", None]
    assert run(QueryConfigValues(output_fields=["name", "os_api_version", "tags", "ssh_key_type"]), ctx) == [
        "cluster",
        20,
        [],
        "rsa",
    ]
    with pytest.raises(PrerequisiteError, match="no value 'moon' of the cluster: there are cluster_name"):
        run(QueryConfigValues(output_fields=["moon"]), ctx)
