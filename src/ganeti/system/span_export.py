# SPDX-License-Identifier: BSD-2-Clause
"""The official SDK of OpenTelemetry as this product uses it: spans with ids of our own, sent over OTLP and HTTP."""

from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from ganeti.base.version import RELEASE
from ganeti.system.spans import Collector, Span
from ganeti.wire.traceparent import Place

_SOON_MS = 1000


class _GivenIds(IdGenerator):
    """Gives the ids of the span that is being made."""

    place = Place(1, 1)

    def generate_span_id(self) -> int:
        return self.place.span_id

    def generate_trace_id(self) -> int:
        return self.place.trace_id


class Exporter:
    """Takes spans that have ended."""

    def __init__(self, service: str, wanted: Collector) -> None:
        self._ids = _GivenIds()
        resource = Resource.create({"service.name": service, "service.version": RELEASE})
        self._provider = TracerProvider(
            sampler=ALWAYS_ON, resource=resource, id_generator=self._ids, shutdown_on_exit=False
        )
        address = wanted.endpoint.rstrip("/") + "/v1/traces"
        sender = OTLPSpanExporter(endpoint=address, headers=wanted.headers, timeout=int(wanted.timeout_s))
        self._provider.add_span_processor(BatchSpanProcessor(sender, schedule_delay_millis=_SOON_MS))
        self._tracer = self._provider.get_tracer("ganeti", RELEASE)

    def take(self, spans: Sequence[Span]) -> None:
        for span in spans:
            self._ids.place = span.place
            kind = trace.SpanKind.SERVER if span.is_request else trace.SpanKind.INTERNAL
            made = self._tracer.start_span(
                span.name, _context(span.parent), kind, dict(span.attributes), start_time=span.begun_ns
            )
            if span.fault is not None:
                made.set_status(trace.Status(trace.StatusCode.ERROR, span.fault))
            made.end(max(span.begun_ns, span.ended_ns))

    def close(self, within_s: float) -> None:
        self._provider.force_flush(int(within_s * 1000))
        self._provider.shutdown()


def _context(parent: Place | None) -> Context:
    if parent is None:
        return Context()
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    above = trace.SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(trace.NonRecordingSpan(above), Context())
