# SPDX-License-Identifier: BSD-2-Clause
"""`/metrics` of the remote API, whole, as Prometheus reads it: with names that hold what would end a label."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.fakes.prometheus_text import read_page

from ganeti.rapi.v3.group_capacity import GroupCapacity
from ganeti.rapi.v3.metrics import page
from ganeti.rapi.v3.request_counts import RequestCounts

ODD = 'a"b\\c\nd<e>'


class Luxi:
    """Objects with odd names, and nodes that do not answer."""

    async def call(self, method: str, *arguments: Any, patience_s: float = 0.0, only_asks: bool = False) -> Any:
        if method == "QueryClusterInfo":
            return {"name": ODD, "master": "node1", "software_version": "3.1.0"}
        if method == "QueryNodes":
            return [["node1", "M", ODD, 4096, None, 10.5, None, 2, 0, 0], ["node2", "O", ODD, *[None] * 7]]
        if method == "QueryInstances":
            return [[ODD, "running", "node1", 128, 1, 0, None, 17], ["web1", "ERROR_down", None, 128, 1, 0, 5, None]]
        if method == "QueryGroups":
            return [[ODD, 2, 1, "uuid"]]
        if method == "QueryJobs":
            return [["success", [1, 0], [2, 5], [3, 0]], ["queued", [1, 0], None, None], [None, None, None, None]]
        if method == "SubmitJob":
            return 7
        if method == "WaitForJobChange":
            sizes = {"ctime": 5.0, "node_groups": {"uuid": {"tspecs": [[128, 1024, 1, 4]]}}}
            return [["success", [sizes]], []]
        assert method == "Query", method
        return {
            "data": [[[0, "node/n1"], [0, "exclusive"], [0, []]], [[0, "instance/a"], [0, None], [0, [["s", [1]]]]]]
        }

    async def raw(self, method: str, *arguments: Any, patience_s: float = 0.0, only_asks: bool = False) -> Any:
        raise AssertionError(method)

    def life(self) -> object:
        return 1


def test_the_page_is_read_whole_by_a_strict_reader() -> None:
    async def pages() -> str:
        luxi, counts = Luxi(), RequestCounts()
        capacity = GroupCapacity(luxi)
        counts.note("GET", "/3/nodes", 200, 0.02)
        counts.note("GET", "/3/nodes", 404, 20.0)
        await page(luxi, counts, capacity, 0)
        assert capacity._work is not None
        await capacity._work
        return await page(luxi, counts, capacity, 3)

    found = read_page(asyncio.run(pages()))
    escaped = 'a\\"b\\\\c\\nd<e>'
    assert found["ganeti_instance_running"].samples["ganeti_instance_running", (("instance", escaped),)] == 1
    assert found["ganeti_api_requests_total"].kind == "counter"
    assert found["ganeti_job_run_seconds"].samples["ganeti_job_run_seconds_count", ()] == 1
    assert list(found["ganeti_group_capacity_instances"].samples.values()) == [4]
