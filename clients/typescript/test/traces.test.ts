import assert from "node:assert/strict";
import { test } from "node:test";

import { context, propagation, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";

import { Worker } from "../dist/index.js";
import { FakeTidegate } from "../dist/testing/index.js";

test("a publish stores its span, and a handler runs in a span that links to it", async () => {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  trace.setGlobalTracerProvider(provider);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  const fake = new FakeTidegate();
  const client = fake.client();
  const traced: string[] = [];
  const worker = new Worker(client).handle("q", () => {
    traced.push(trace.getActiveSpan()?.spanContext().traceId ?? "");
    throw new Error("boom");
  });

  const publisher = provider.getTracer("test").startSpan("publish");
  await context.with(trace.setSpan(context.active(), publisher), () => client.publish("q", 1));
  publisher.end();
  await fake.runDue(worker);

  const { traceId, spanId } = publisher.spanContext();
  assert.equal(fake.jobs("q")[0]?.attributes["traceparent"], `00-${traceId}-${spanId}-01`);
  const span = exporter.getFinishedSpans().find((it) => it.name === "process q");
  assert.deepEqual(span?.links.map((link) => link.context.spanId), [spanId]);
  assert.equal(span?.spanContext().traceId, traced[0]);
  assert.notEqual(traced[0], traceId);
  assert.equal(span?.attributes["messaging.destination.name"], "q");
  assert.equal(span?.status.message, "boom");
});
