# SPDX-License-Identifier: BSD-2-Clause
"""Reports as gauges and counters in Prometheus' text format. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from ganeti.node.collectors.interface import Collector, Sample
from ganeti.wire.prometheus import COUNTER, GAUGE, head, line

_UP, _FAILURES, _REFUSED = (
    *("ganeti_collector_up", "ganeti_collector_failures_total", "ganeti_node_diagnose_refused_total"),
)
_OF_ALL = {
    _REFUSED: (COUNTER, "How often the diagnose command was refused, or what it said."),
    _UP: (GAUGE, "1 if the collector has done its work."),
    _FAILURES: (COUNTER, "How often the collector could not do its work."),
}


def metrics(
    collectors: Sequence[Collector],
    reports: Sequence[Mapping[str, Any]],
    failures: Mapping[str, int],
    refused_diagnoses: int = 0,
) -> str:
    """All reports as one page, the metrics of each collector together."""
    by_name = {each.name: each for each in collectors}
    families = {name: about for each in collectors for name, about in each.metrics.items()} | _OF_ALL
    found: dict[str, list[Sample]] = {name: [] for name in families}
    for report in reports:
        name, data = str(report["name"]), report["data"]
        broken = isinstance(data, dict) and "error" in data
        samples = [] if broken else by_name[name].samples(data)
        for sample in [*samples, Sample(_UP, {"collector": name}, 0 if broken else 1)]:
            found[sample.name].append(sample)
    found[_FAILURES] = [Sample(_FAILURES, {"collector": name}, count) for name, count in failures.items()]
    found[_REFUSED] = [Sample(_REFUSED, {}, refused_diagnoses)]
    lines: list[str] = []
    for family, samples in found.items():
        if samples:
            kind, meaning = families[family]
            lines += [*head(family, kind, meaning), *map(_line, samples)]
    return "\n".join(lines) + "\n"


def _line(sample: Sample) -> str:
    is_whole = float(sample.value).is_integer()
    return line(sample.name, sample.labels, int(sample.value) if is_whole else sample.value)
