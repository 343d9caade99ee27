# SPDX-License-Identifier: BSD-2-Clause
"""The official SDK of OpenTelemetry as this product uses it: spans that have ended, sent over OTLP and HTTP.

No provider and no processor of the SDK: those keep threads, and do work in each child process between its fork and its
program.
"""

from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from ganeti.base.version import RELEASE
from ganeti.system.spans import Collector, Span
from ganeti.wire.traceparent import Place

_KINDS = {"internal": SpanKind.INTERNAL, "server": SpanKind.SERVER, "client": SpanKind.CLIENT}
_SCOPE = InstrumentationScope("ganeti", RELEASE)


class Exporter:
    """Sends spans of one service to one collector."""

    def __init__(self, service: str, wanted: Collector) -> None:
        self._resource = Resource.create({"service.name": service, "service.version": RELEASE})
        address = wanted.endpoint.rstrip("/") + "/v1/traces"
        self._sender = OTLPSpanExporter(endpoint=address, headers=wanted.headers, timeout=int(wanted.timeout_s))

    def send(self, spans: Sequence[Span]) -> None:
        """Blocks until the collector has them, or until its timeout; the SDK logs what went wrong."""
        self._sender.export([self._readable(span) for span in spans])

    def close(self) -> None:
        self._sender.shutdown()  # type: ignore[no-untyped-call]

    def _readable(self, span: Span) -> ReadableSpan:
        return ReadableSpan(
            name=span.name,
            context=_context(span.place, is_remote=False),
            parent=None if span.parent is None else _context(span.parent, is_remote=True),
            resource=self._resource,
            attributes=dict(span.attributes),
            kind=_KINDS[span.kind],
            status=Status(StatusCode.UNSET) if span.fault is None else Status(StatusCode.ERROR, span.fault),
            start_time=span.begun_ns,
            end_time=max(span.begun_ns, span.ended_ns),
            instrumentation_scope=_SCOPE,
        )


def _context(place: Place, *, is_remote: bool) -> SpanContext:
    return SpanContext(place.trace_id, place.span_id, is_remote, TraceFlags(TraceFlags.SAMPLED))
