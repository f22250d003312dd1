"""The trace context of callers and deliveries, if OpenTelemetry is installed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .worker.job import Job

try:
    from opentelemetry import trace
except ImportError:
    trace = None  # type: ignore[assignment]

ATTRIBUTE = "traceparent"
"""The attribute of a job that has the context of its producer."""


def is_available() -> bool:
    """Whether OpenTelemetry is installed."""
    return trace is not None


def current_traceparent() -> str | None:
    """The context of the running span as a header `traceparent`. `None` if the span is not sampled."""
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid or not context.trace_flags.sampled:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def tracer() -> Any:
    """The tracer of workers."""
    return trace.get_tracer("tidegate", __version__)


def delivery_span(tracer: Any, job: Job) -> AbstractContextManager[Any]:
    """The span of a handler: a child of the delivery, with a link to the producer.

    It is a link and not a parent, since a job may run days later.
    """
    delivery, producer = _context(job.traceparent), _context(job.attributes.get(ATTRIBUTE))
    parent = None
    if delivery is not None:
        parent = trace.set_span_in_context(trace.NonRecordingSpan(delivery))
    span: AbstractContextManager[Any] = tracer.start_as_current_span(
        f"process {job.queue}",
        context=parent,
        kind=trace.SpanKind.CONSUMER,
        links=[trace.Link(producer)] if producer is not None else (),
        attributes={
            "messaging.system": "tidegate",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": job.queue,
            "messaging.message.id": job.id,
            "messaging.message.delivery_attempt": job.attempt,
        },
    )
    return span


def _context(text: str | None) -> trace.SpanContext | None:
    """The context of a header `traceparent`. A text that is none is ignored: any producer may write it."""
    if text is None:
        return None
    parts = text.split("-")
    if len(parts) < 4 or parts[0] == "ff" or [len(part) for part in parts[:4]] != [2, 32, 16, 2]:
        return None
    try:
        version, trace_id, span_id, flags = (int(part, 16) for part in parts[:4])
    except ValueError:
        return None
    if version == 0 and len(parts) != 4:
        return None
    context = trace.SpanContext(trace_id, span_id, True, trace.TraceFlags(flags))
    return context if context.is_valid else None
