# SPDX-License-Identifier: BSD-2-Clause
"""`/metrics`: the cluster for Prometheus, in its text format (version 0.0.4)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ganeti.rapi.reading import Luxi, ask
from ganeti.rapi.v3.group_capacity import GroupCapacity
from ganeti.rapi.v3.request_counts import RequestCounts
from ganeti.rapi.v3.route import Answer, Services, Turn, route, scope
from ganeti.system.http_server import HttpReply
from ganeti.wire.prometheus import CONTENT_TYPE, GAUGE, HISTOGRAM, Histogram, family, head

_JOB_BUCKETS_S: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)
_JOB_STATES: Final = ("queued", "waiting", "canceling", "running", "success", "error", "canceled")
_MIB: Final = 1024 * 1024
_NODE_AMOUNTS: Final = {
    "mtotal": ("node_memory_total_bytes", _MIB),
    "mfree": ("node_memory_free_bytes", _MIB),
    "dtotal": ("node_disk_total_bytes", _MIB),
    "dfree": ("node_disk_free_bytes", _MIB),
    "ctotal": ("node_cpus", 1),
    "pinst_cnt": ("node_primary_instances", 1),
    "sinst_cnt": ("node_secondary_instances", 1),
}


@route(
    *("GET", "/metrics", "metrics", "The cluster for Prometheus"),
    access=scope("metrics"),
    tag="metrics",
    answers={200: Answer("metrics", None, "text/plain")},
    takes_any_argument=True,
)
async def _metrics(services: Services, turn: Turn) -> HttpReply:
    listeners = services.fan.listeners if services.fan is not None else 0
    text = await page(services.luxi, services.counts, services.capacity, listeners)
    return HttpReply(200, text.encode(), CONTENT_TYPE)


async def page(luxi: Luxi, counts: RequestCounts, capacity: GroupCapacity, listeners: int) -> str:
    """Give the whole page; raises what LuxiD answers."""
    lines = [
        *_gauge("cluster_info", "1 with the name of the cluster and its version", [(await _cluster(luxi), 1)]),
        *await _nodes(luxi),
        *await _instances(luxi),
        *await _groups(luxi, capacity),
        *await _jobs(luxi),
        *await _locks(luxi),
        *_gauge("api_event_listeners", "listeners on /3/events", [({}, listeners)]),
        *counts.lines(),
    ]
    return "\n".join(lines) + "\n"


async def _cluster(luxi: Luxi) -> dict[str, str]:
    found = await ask(luxi, "QueryClusterInfo")
    return {"name": str(found["name"]), "master": str(found["master"]), "version": str(found["software_version"])}


async def _nodes(luxi: Luxi) -> list[str]:
    fields = ["name", "role", "group", *_NODE_AMOUNTS]
    rows = [dict(zip(fields, row, strict=True)) for row in await ask(luxi, "QueryNodes", [], fields, False)]
    lines = _gauge("node_info", "1 with role and group", [(_of_node(row, "role", "group"), 1) for row in rows])
    for field, (name, factor) in _NODE_AMOUNTS.items():
        known = [(_of_node(row), row[field] * factor) for row in rows if isinstance(row[field], int | float)]
        lines += _gauge(name, f"field {field} of the node list", known)
    return lines


def _of_node(row: Mapping[str, Any], *more: str) -> dict[str, str]:
    return {"node": row["name"], **{name: str(row[name]) for name in more}}


async def _instances(luxi: Luxi) -> list[str]:
    fields = ["name", "status", "pnode", "be/maxmem", "be/vcpus", "disk_usage", "backup.made", "backup.proved"]
    rows = [dict(zip(fields, row, strict=True)) for row in await ask(luxi, "QueryInstances", [], fields, False)]
    states = Counter(str(row["status"]) for row in rows)
    lines = _gauge("instances", "instances by status", [({"status": name}, states[name]) for name in sorted(states)])
    for field, name, factor in (
        ("be/maxmem", "instance_memory_bytes", _MIB),
        ("be/vcpus", "instance_cpus", 1),
        ("disk_usage", "instance_disk_bytes", _MIB),
        ("backup.made", "instance_backup_made_timestamp_seconds", 1),
        ("backup.proved", "instance_backup_proved_timestamp_seconds", 1),
    ):
        known = [
            ({"instance": row["name"], "node": str(row["pnode"])}, row[field] * factor)
            for row in rows
            if isinstance(row[field], int | float)
        ]
        lines += _gauge(name, f"field {field} of the instance list", known)
    running = [({"instance": row["name"]}, int(row["status"] == "running")) for row in rows]
    return lines + _gauge("instance_running", "1 for one that runs as it should", running)


async def _groups(luxi: Luxi, capacity: GroupCapacity) -> list[str]:
    rows = await ask(luxi, "QueryGroups", [], ["name", "node_cnt", "pinst_cnt", "uuid"], False)
    counts, counted = capacity.rows({row[3]: row[0] for row in rows})
    return [
        *_gauge("group_nodes", "nodes of the group", [({"group": row[0]}, row[1]) for row in rows]),
        *_gauge("group_instances", "instances of the group", [({"group": row[0]}, row[2]) for row in rows]),
        *_gauge("group_capacity_instances", "more instances of this size that fit, largest first", counts),
        *_gauge("group_capacity_counted_timestamp_seconds", "when that was counted", counted),
    ]


async def _jobs(luxi: Luxi) -> list[str]:
    rows = await ask(luxi, "QueryJobs", None, ["status", "received_ts", "start_ts", "end_ts"])
    states = Counter(str(row[0]) for row in rows)
    lines = _gauge(
        "jobs", "jobs that are not archived, by state", [({"status": name}, states[name]) for name in _JOB_STATES]
    )
    for name, meaning, begin, end in (
        ("ganeti_job_wait_seconds", "from submission to start, of jobs that are not archived", 1, 2),
        ("ganeti_job_run_seconds", "from start to end, of jobs that are not archived", 2, 3),
    ):
        histogram = Histogram(_JOB_BUCKETS_S)
        for row in rows:
            if row[begin] and row[end]:
                histogram.add(max(0.0, _seconds(row[end]) - _seconds(row[begin])))
        lines += [*head(name, HISTOGRAM, meaning), *histogram.lines(name, {})]
    return lines


def _seconds(stamp: list[int]) -> float:
    return stamp[0] + stamp[1] / 1e6


async def _locks(luxi: Luxi) -> list[str]:
    answer = await ask(luxi, "Query", "lock", ["name", "mode", "pending"], None)
    held: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for (_, name), (_, mode), (_, pending) in answer["data"]:
        level = str(name).partition("/")[0]
        held[level] += bool(mode)
        waiting[level] += len(pending or ())
    told = sorted(held.keys() | waiting.keys())
    return [
        *_gauge("locks_held", "locks that are held, by level", [({"level": level}, held[level]) for level in told]),
        *_gauge("locks_waited", "requests that wait, by level", [({"level": level}, waiting[level]) for level in told]),
    ]


def _gauge(name: str, meaning: str, values: Iterable[tuple[Mapping[str, str], float]]) -> list[str]:
    return family(f"ganeti_{name}", GAUGE, meaning, values)
