# SPDX-License-Identifier: BSD-2-Clause
"""Measured CPU load from the nodes' monitoring daemons, or a file of their reports (spec: htools, 1; protocols, 5).

Either every node answers, or nothing of it is used: instances whose load is known would be compared with others whose
load is only supposed.
"""

import http.client
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ganeti.placement.cluster import Instance, Node
from ganeti.placement.reading import Fields
from ganeti.placement.request import RequestError
from ganeti.tools.htools.failures import ToolError, read_text
from ganeti.tools.htools.json_mistakes import parsed
from ganeti.tools.htools.options import Options
from ganeti.tools.htools.quoting import quoted

PORT = 1815
CPU, XEN_CPU = "cpu-avg-load", "xen-cpu-avg-load"
_TIMEOUT_S = 5
_AT_ONCE = 32
_OK = 200
Reports = dict[str, dict[str, Any]]
"""By node: data of each collector."""


def cpu_loads(nodes: Sequence[Node], instances: Sequence[Instance], options: Options) -> list[float] | None:
    """CPU load of each instance, or None if not everybody told; raises `ToolError` if the options want everything.

    Says on standard error what is missing.
    """
    collector = XEN_CPU if options.mond_xen else CPU
    names = [node.name for node in nodes]
    reports = _read_file(options.mond_data) if options.mond_data is not None else _ask(names, collector)
    told = [_understood(collector, reports.get(name, {}).get(collector)) for name in names]
    if None not in told:
        return _of_domains(told, instances) if options.mond_xen else _of_nodes(told, nodes, instances)
    print(f"Didn't receive an answer by all MonDs, {collector}'s data will be ignored.", file=sys.stderr)
    if options.exit_on_missing_mond_data:
        raise ToolError("Not all required data available")
    return None


def _understood(collector: str, data: Any) -> Any:
    """The part of a report that counts: total load of a node, or load by instance; None if it is not that."""
    if not isinstance(data, dict):
        return None
    if collector == XEN_CPU:
        return data if all(_is_number(value) for value in data.values()) else None
    complete = _is_number(data.get("cpu_number")) and isinstance(data.get("cpus"), list)
    return float(data["cpu_total"]) if complete and _is_number(data.get("cpu_total")) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _of_nodes(totals: Sequence[float], nodes: Sequence[Node], instances: Sequence[Instance]) -> list[float]:
    """Share the load of each node among its primary instances by their vcpus; the node's own CPUs take a share."""
    used = {node.name: node.node_cpus for node in nodes}
    for instance in instances:
        if not instance.forthcoming:
            used[instance.primary] += instance.counted_vcpus
    total = {node.name: load for node, load in zip(nodes, totals, strict=True)}
    return [
        total[instance.primary] / used[instance.primary] * instance.vcpus if used[instance.primary] else 0.0
        for instance in instances
    ]


def _of_domains(told: Sequence[Mapping[str, float]], instances: Sequence[Instance]) -> list[float] | None:
    by_name: dict[str, float] = {}
    for loads in told:
        by_name = {**loads, **by_name}
    unknown = [instance.name for instance in instances if instance.name not in by_name]
    if unknown:
        print(f"No CPU information available for {quoted(unknown)}", file=sys.stderr)
        return None
    return [float(by_name[instance.name]) for instance in instances]


def _read_file(path: str) -> Reports:
    try:
        found = [_read_entry(entry) for entry in parsed(read_text(path), "Parsing MonD's answer", list)]
    except RequestError as error:
        raise ToolError(f"can't parse MonD data: {error}") from None
    return dict(found)


def _read_entry(entry: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(entry, dict):
        raise RequestError("Parsing MonD's answer: Unable to read JSObject")
    name = Fields("Parsing node's name", entry).get("node", str)
    what = "Parsing node's reports"
    data = {}
    for item in Fields(what, entry).get("reports", list):
        report = Fields(f"{what}: key 'reports'", item)
        collector = report.get("name", str)
        for key in ("version", "format_version", "timestamp", "category", "kind", "data"):
            report.get(key, object)
        data[collector] = report.get("data", object)
    return name, data


def _ask(names: Sequence[str], collector: str) -> Reports:
    reports: Reports = {}
    with ThreadPoolExecutor(_AT_ONCE) as askers:
        for name, answer in zip(names, askers.map(lambda name: _get(name, collector), names), strict=True):
            if answer is None:
                print(f"Failed to contact node's {name} MonD for DC {collector}", file=sys.stderr)
            else:
                reports[name] = {collector: answer.get("data")}
    return reports


def _get(name: str, collector: str) -> dict[str, Any] | None:
    """The report of one node's collector; None if there is none."""
    connection = http.client.HTTPConnection(name, PORT, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", f"/1/report/default/{collector}")
        answer = connection.getresponse()
        found = json.loads(answer.read()) if answer.status == _OK else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return found if isinstance(found, dict) else None
