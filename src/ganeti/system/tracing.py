# SPDX-License-Identifier: BSD-2-Clause
"""Spans of OpenTelemetry: whether they are wanted, what they are, and where they go.

They are made from notes once something has ended, so that nothing waits for them; the SDK is only loaded then, and only
where ``/etc/ganeti/tracing.json`` names a collector.
"""

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ganeti.base.paths import Paths
from ganeti.system.spans import Collector, Span

if TYPE_CHECKING:
    from ganeti.system.span_export import Exporter

_log = logging.getLogger(__name__)


def collector(paths: Paths) -> Collector | None:
    """Give where spans go; None where nobody wants them, and where the file is wrong, which the log says."""
    try:
        with open(paths.tracing_file, "rb") as file:
            return msgspec.json.decode(file.read(), type=Collector)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as err:
        _log.error("nothing is traced: %s: %s", paths.tracing_file, err)
        return None


class Tracing:
    """Sends the spans of one daemon, in a thread; the file is looked at each time."""

    def __init__(self, service: str, paths: Paths) -> None:
        self._service = service
        self._paths = paths
        self._exporter: tuple[Collector, Exporter] | None = None
        self._lock = threading.Lock()

    def is_wanted(self) -> bool:
        return collector(self._paths) is not None

    def send(self, spans: Sequence[Span]) -> None:
        """Hand spans to whatever sends them; the first time it takes a while to load that. Faults are logged."""
        if (wanted := collector(self._paths)) is None or not spans:
            return
        try:
            with self._lock:
                self._ready(wanted).take(spans)
        except ImportError as err:
            _log.error("nothing is traced: %s; install the extra 'tracing' of the package", err)

    def close(self) -> None:
        """Wait until what was taken has been sent, or for the collector's timeout."""
        if self._exporter is not None:
            wanted, exporter = self._exporter
            exporter.close(wanted.timeout_s)
            self._exporter = None

    def _ready(self, wanted: Collector) -> "Exporter":
        if self._exporter is None or self._exporter[0] != wanted:
            from ganeti.system.span_export import Exporter

            self._exporter = wanted, Exporter(self._service, wanted)
        return self._exporter[1]
