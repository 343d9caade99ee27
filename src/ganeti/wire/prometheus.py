# SPDX-License-Identifier: BSD-2-Clause
"""Metrics in Prometheus' text format (version 0.0.4)."""

from collections.abc import Iterable, Iterator, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"

Labels = Mapping[str, str]


def head(name: str, kind: str, meaning: str) -> list[str]:
    """The lines before those of a metric: what it means, in one line, and its type."""
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]


def line(name: str, labels: Labels, value: float | str) -> str:
    """One value; the signs that would end a label are escaped."""
    words = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{words}}} {value}" if words else f"{name} {value}"


def family(name: str, kind: str, meaning: str, values: Iterable[tuple[Labels, float]]) -> list[str]:
    """All lines of a metric."""
    return [*head(name, kind, meaning), *(line(name, labels, value) for labels, value in values)]


class Histogram:
    """Counts of durations up to some bounds."""

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        self._sum_s = 0.0

    def add(self, seconds: float) -> None:
        self._sum_s += seconds
        index = next((index for index, bound_s in enumerate(self._bounds_s) if seconds <= bound_s), -1)
        self._counts[index] += 1

    def lines(self, name: str, labels: Labels) -> Iterator[str]:
        seen = 0
        for bound_s, count in zip((*self._bounds_s, float("inf")), self._counts, strict=True):
            seen += count
            bound = "+Inf" if bound_s == float("inf") else f"{bound_s:g}"
            yield line(f"{name}_bucket", {**labels, "le": bound}, seen)
        yield line(f"{name}_sum", labels, f"{self._sum_s:.6f}")
        yield line(f"{name}_count", labels, seen)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
