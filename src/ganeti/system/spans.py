# SPDX-License-Identifier: BSD-2-Clause
"""What a span of OpenTelemetry says, and where spans go."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from ganeti.wire.traceparent import Place


class Collector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where spans go: an endpoint of OTLP over HTTP, such as ``http://127.0.0.1:4318``."""

    endpoint: str
    headers: dict[str, str] = {}
    timeout_s: float = 5.0


@dataclass(frozen=True)
class Span:
    """Something that has ended; times are nanoseconds since the epoch."""

    name: str
    place: Place
    parent: Place | None
    begun_ns: int
    ended_ns: int
    attributes: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    fault: str | None = None
    """What went wrong."""
    kind: Literal["internal", "server", "client"] = "internal"
