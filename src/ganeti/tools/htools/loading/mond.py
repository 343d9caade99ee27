# SPDX-License-Identifier: BSD-2-Clause
"""Measured CPU load from the nodes' monitoring daemons, or a file of their reports (spec: htools, 1; protocols, 5).

Either every node answers, or nothing of it is used: instances whose load is known would be compared with others whose
load is only supposed.
"""

import http.client
import math
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from ganeti.placement.cluster.picture import Instance, Node
from ganeti.placement.definition.score import ratio
from ganeti.placement.request.fields import Fields, wrapped
from ganeti.placement.request.terms import RequestError
from ganeti.tools.htools.command_line.options import Options
from ganeti.tools.htools.haskell.failures import ToolError, read_text
from ganeti.tools.htools.haskell.json_mistakes import fraction_of, parsed, shown, shown_number
from ganeti.tools.htools.haskell.quoting import quoted

PORT = 1815
CPU, XEN_CPU = "cpu-avg-load", "xen-cpu-avg-load"
_TIMEOUT_S = 5
_AT_ONCE = 32
_LEAST_ERROR = 400
_CATEGORIES = ("storage", "instance", "daemon", "hypervisor", "node")
"""3.0 does not know ``node``, whose one collector came later."""
_KINDS = (0, 1)
Reports = dict[str, dict[str, Any]]
"""By node: data of each collector."""


class CpuLoads(NamedTuple):
    """CPU load of each instance, and of each node as it was measured there; None: what its instances add up to."""

    instances: Sequence[float]
    nodes: Sequence[float | None]


def cpu_loads(nodes: Sequence[Node], instances: Sequence[Instance], options: Options) -> CpuLoads | None:
    """What was measured, or None if not everybody told; raises `ToolError` if the options want everything.

    Says on standard error what is missing.
    """
    collector = XEN_CPU if options.mond_xen else CPU
    names = [node.name for node in nodes]
    reports = _read_file(options.mond_data) if options.mond_data is not None else None
    if options.ignore_utilization:
        return None
    if reports is None:
        reports = _ask(names, collector)
    told = [_understood(collector, reports.get(name, {}).get(collector)) for name in names]
    if None in told:
        print(f"Didn't receive an answer by all MonDs, {collector}'s data will be ignored.", file=sys.stderr)
        found = None
    elif options.mond_xen:
        found = _of_domains(told, nodes, instances)
    else:
        found = CpuLoads(_of_nodes(told, nodes, instances), told)
    if found is None and options.exit_on_missing_mond_data:
        raise ToolError("Not all required data available")
    return found


def _understood(collector: str, data: Any) -> Any:
    """The part of a report that counts: total load of a node, or load by instance; None if it is not that."""
    if not isinstance(data, dict):
        return None
    if collector == XEN_CPU:
        return {name: _real(value) for name, value in data.items()} if all(map(_is_number, data.values())) else None
    cpus: Any = data.get("cpus")
    complete = _is_number(data.get("cpu_number")) and isinstance(cpus, list) and all(map(_is_number, cpus))
    return _real(data["cpu_total"]) if complete and _is_number(data.get("cpu_total")) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _real(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _of_nodes(totals: Sequence[float], nodes: Sequence[Node], instances: Sequence[Instance]) -> list[float]:
    """Share the load of each node among its primary instances by their vcpus; the node's own CPUs take a share.

    Where nobody is counted for any, no number comes out: such an instance stays where it is, as with 3.0.
    """
    used = {node.name: node.node_cpus for node in nodes}
    for instance in instances:
        if not instance.forthcoming:
            used[instance.primary] += instance.counted_vcpus
    total = {node.name: load for node, load in zip(nodes, totals, strict=True)}
    return [ratio(total[instance.primary], used[instance.primary]) * instance.vcpus for instance in instances]


def _of_domains(
    told: Sequence[Mapping[str, float]], nodes: Sequence[Node], instances: Sequence[Instance]
) -> CpuLoads | None:
    by_name: dict[str, float] = {}
    for loads in told:
        by_name = {**loads, **by_name}
    unknown = [instance.name for instance in instances if instance.name not in by_name]
    if unknown:
        print(f"No CPU information available for {quoted(unknown)}", file=sys.stderr)
        return None
    return CpuLoads([by_name[instance.name] for instance in instances], [None] * len(nodes))


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
    data: dict[str, Any] = {}
    for item in Fields(what, entry).get("reports", list):
        collector, told = _read_report(Fields(f"{what}: key 'reports'", item, inner=True))
        data.setdefault(collector, told)
    return name, data


def _read_report(report: Fields) -> tuple[str, Any]:
    """Name of the collector and what it says; everything else of a report must make sense, too."""
    name = report.get("name", str)
    if not isinstance(version := report.get("version", object), str):
        raise _senseless(report, "version", "DCVersion", f"JSON value {shown(version)}")
    for key, word in (("format_version", "Int"), ("timestamp", "Integer")):
        if not _is_number(report.get(key, object)):
            raise RequestError(f"{report.what}: Can't parse value for '{key}': Unable to read {word}")
    category, kind = report.get("category", object, None), report.get("kind", object)
    if category is not None and category not in _CATEGORIES:
        what = f"category name {category}" if isinstance(category, str) else f"JSON value {shown(category)}"
        raise _senseless(report, "category", "DCCategory", what)
    if not _is_number(kind) or kind not in _KINDS:
        raise _senseless(report, "kind", "DCKind", f"JSON value {_shown_kind(kind)}")
    return name, report.get("data", object)


def _shown_kind(kind: Any) -> str:
    if not _is_number(kind):
        return shown(kind)
    whole, parts = fraction_of(kind)
    return str(wrapped(whole)) if parts == 1 else shown_number(kind)


def _senseless(report: Fields, key: str, kind: str, what: str) -> RequestError:
    return RequestError(f"{report.what}: Can't parse value for '{key}': Invalid {what} for type {kind}")


def _ask(names: Sequence[str], collector: str) -> Reports:
    reports: Reports = {}
    with ThreadPoolExecutor(_AT_ONCE) as askers:
        for name, answer in zip(names, askers.map(lambda name: _get(name, collector), names), strict=True):
            if answer is None:
                print(f"Failed to contact node's {name} MonD for DC {collector}", file=sys.stderr)
            else:
                reports[name] = {collector: _told(answer)}
    return reports


def _get(name: str, collector: str) -> str | None:
    """What one node answers; None if it does not, or says that there is no such report."""
    connection = http.client.HTTPConnection(name, PORT, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", f"/1/report/default/{collector}")
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return text if answer.status < _LEAST_ERROR else None


def _told(answer: str) -> Any:
    """The data of a report; None if it cannot be read, which is not told apart from a report without any."""
    try:
        return _read_report(Fields("", parsed(answer, "", dict)))[1]
    except RequestError:
        return None
