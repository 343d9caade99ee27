# SPDX-License-Identifier: BSD-2-Clause
"""Spans of OpenTelemetry: whether they are wanted, what they are, and where they go.

They are made from notes once something has ended, so that nothing waits for them; the SDK is only loaded then, and only
where ``/etc/ganeti/tracing.json`` names a collector.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from ganeti.base.errors import UNREADABLE_JSON
from ganeti.base.paths import Paths
from ganeti.system.files import plain_file
from ganeti.system.spans import Collector, Span

if TYPE_CHECKING:
    from ganeti.system.span_export import Exporter

_log = logging.getLogger(__name__)
WAITING_MAX: Final = 4096
TOGETHER_MAX: Final = 512


def collector(paths: Paths) -> Collector | None:
    """Give where spans go; None where nobody wants them, and where the file is wrong, which the log says."""
    try:
        with open(paths.tracing_file, "rb", opener=plain_file) as file:
            return msgspec.json.decode(file.read(), type=Collector)
    except FileNotFoundError:
        return None
    except (OSError, *UNREADABLE_JSON) as err:
        _log.error("nothing is traced: %s: %s", paths.tracing_file, err)
        return None


class Tracing:
    """Sends the spans of one process; the file is looked at each time."""

    def __init__(self, service: str, paths: Paths) -> None:
        self._service = service
        self._paths = paths
        self._exporter: tuple[Collector, Exporter] | None = None
        self._waiting: deque[Span] = deque(maxlen=WAITING_MAX)
        self._sending: asyncio.Future[None] | None = None

    def is_wanted(self) -> bool:
        return collector(self._paths) is not None

    def send_soon(self, spans: Sequence[Span]) -> None:
        """Have spans sent by a thread, one request to the collector after the other, so that a slow one gets more spans
        with each; what it is too slow for is left out, the oldest first."""
        self._waiting.extend(spans)
        if self._sending is None and self._waiting:
            self._sending = asyncio.get_running_loop().run_in_executor(None, self._send_waiting)
            self._sending.add_done_callback(self._sent)

    def send(self, spans: Sequence[Span]) -> None:
        """Send spans, and wait until they are there; the first time it takes a while to load what does so. Faults are
        logged."""
        if (wanted := collector(self._paths)) is None or not spans:
            return
        try:
            self._ready(wanted).send(spans)
        except ImportError as err:
            _log.error("nothing is traced: %s; install the extra 'tracing' of the package", err)

    async def close(self) -> None:
        """Wait until what was handed over has been sent, or for the collector's timeout."""
        if self._sending is not None:
            wanted = collector(self._paths)
            await asyncio.wait([self._sending], timeout=0.0 if wanted is None else wanted.timeout_s)
        if self._exporter is not None:
            self._exporter[1].close()

    def _send_waiting(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), TOGETHER_MAX))]
            self.send(batch)

    def _sent(self, sending: "asyncio.Future[None]") -> None:
        self._sending = None
        if not sending.cancelled() and (error := sending.exception()) is not None:
            _log.error("spans could not be sent: %s", error)
        if self._waiting:
            self.send_soon([])

    def _ready(self, wanted: Collector) -> "Exporter":
        if self._exporter is None or self._exporter[0] != wanted:
            from ganeti.system.span_export import Exporter

            self._exporter = wanted, Exporter(self._service, wanted)
        return self._exporter[1]
