# SPDX-License-Identifier: BSD-2-Clause
"""What the remote API has answered, counted for `/metrics`."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from ganeti.wire.prometheus import COUNTER, HISTOGRAM, Histogram, head, line

_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class RequestCounts:
    """What this process has answered: how long it took, by method and route, and with which status."""

    def __init__(self) -> None:
        self._latency: dict[tuple[str, str], Histogram] = {}
        self._statuses: Counter[tuple[str, str, int]] = Counter()

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        found = self._latency.get((method, route))
        if found is None:
            found = self._latency[method, route] = Histogram(_BUCKETS_S)
        found.add(seconds)
        self._statuses[method, route, status] += 1

    def lines(self) -> Iterable[str]:
        yield from head("ganeti_api_request_seconds", HISTOGRAM, "how long requests took, by route")
        for (method, route), histogram in sorted(self._latency.items()):
            yield from histogram.lines("ganeti_api_request_seconds", {"method": method, "route": route})
        yield from head("ganeti_api_requests_total", COUNTER, "requests that were answered, by route and status")
        for (method, route, status), count in sorted(self._statuses.items()):
            labels = {"method": method, "route": route, "status": str(status)}
            yield line("ganeti_api_requests_total", labels, count)
