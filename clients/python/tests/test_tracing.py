"""The trace context of callers and deliveries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tidegate import Job, _tracing
from tidegate.testing import FakeServer

trace = pytest.importorskip("opentelemetry.trace")

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def span(text: str) -> Any:
    context = _tracing._context(text)
    assert context is not None
    return trace.NonRecordingSpan(context)


def test_a_publish_sends_the_context_of_the_caller(fake: FakeServer) -> None:
    with trace.use_span(span(PARENT)):
        fake.client().publish("q", 1)
    fake.client().publish("q", 2, attributes={"a": "b"})
    traced, plain = fake.published("q")
    assert traced.attributes == {"traceparent": PARENT}
    assert plain.attributes == {"a": "b"}


def test_a_span_that_is_not_sampled_is_not_sent(fake: FakeServer) -> None:
    with trace.use_span(span(PARENT[:-1] + "0")):
        fake.client().publish("q", 1)
    assert fake.published("q")[0].attributes == {}


def test_a_handler_runs_in_the_context_of_the_delivery() -> None:
    raw = {"id": "J", "queue": "q", "lease": "J.1.q", "attempt": 1, "traceparent": PARENT}

    async def run() -> str | None:
        with _tracing.delivery_span(_tracing.tracer(), Job(raw)):
            return _tracing.current_traceparent()

    traceparent = asyncio.run(run())
    assert traceparent is not None
    assert traceparent.split("-")[1] == PARENT.split("-")[1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00-1-2-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        PARENT + "-more",
        "ff" + PARENT[2:],
        "00-xaf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ],
)
def test_only_trace_parents_are_read(text: str) -> None:
    assert _tracing._context(text) is None
