/**
 * OpenTelemetry, if the program has it: the optional package `@opentelemetry/api`.
 *
 * A publish stores the span of its caller in the attribute `traceparent`. A handler runs in a span of its own, whose
 * parent is the delivery if the server traces it, and which links to the span of the publish.
 */

import { createRequire } from "node:module";

import { VERSION } from "./version.js";

/** The parts of `@opentelemetry/api` that are used. Its types are no dependency of this package. */
interface OpenTelemetry {
  readonly context: { active(): object; with<T>(context: object, body: () => T): T };
  readonly propagation: {
    inject(context: object, carrier: Record<string, string>): void;
    extract(context: object, carrier: Record<string, string>): object;
  };
  readonly trace: {
    getTracer(name: string, version: string): { startSpan(name: string, options: object, context: object): Span };
    getSpanContext(context: object): object | undefined;
    setSpan(context: object, span: Span): object;
  };
  readonly ROOT_CONTEXT: object;
  readonly SpanKind: { readonly CONSUMER: number };
  readonly SpanStatusCode: { readonly ERROR: number };
}

interface Span {
  end(): void;
  setStatus(status: { code: number; message: string }): void;
}

const api = load();

function load(): OpenTelemetry | undefined {
  try {
    return createRequire(import.meta.url)("@opentelemetry/api") as OpenTelemetry;
  } catch {
    return undefined;
  }
}

/** The trace parent of the running span; `undefined` if there is none, or it is not sampled. */
export function injectTraceParent(): string | undefined {
  if (api === undefined) {
    return undefined;
  }
  const carrier: Record<string, string> = {};
  api.propagation.inject(api.context.active(), carrier);
  const traceParent = carrier["traceparent"];
  return traceParent !== undefined && isSampled(traceParent) ? traceParent : undefined;
}

/** The last part of a trace parent has the flags, of which the lowest bit says that the span is recorded. */
function isSampled(traceParent: string): boolean {
  return (Number.parseInt(traceParent.slice(-2), 16) & 1) === 1;
}

/** The parts of a job that its span shows. */
export interface TracedJob {
  readonly id: string;
  readonly queue: string;
  readonly attempt: number;
  readonly traceParent: string | undefined;
  readonly attributes: Readonly<Record<string, string>>;
}

/** Runs a handler in a span. Returns the failure text of its outcome to the span. */
export async function inSpan<T>(
  job: TracedJob,
  body: () => Promise<T>,
  failureOf: (outcome: T) => string | undefined,
): Promise<T> {
  if (api === undefined) {
    return body();
  }
  const { trace, context, SpanKind, SpanStatusCode } = api;
  const parent = contextOf(job.traceParent);
  const tracer = trace.getTracer("tidegate", VERSION);
  const span = tracer.startSpan(`process ${job.queue}`, { kind: SpanKind.CONSUMER, attributes: spanAttributes(job), links: links(job) }, parent);
  try {
    const outcome = await context.with(trace.setSpan(parent, span), body);
    const failure = failureOf(outcome);
    if (failure !== undefined) {
      span.setStatus({ code: SpanStatusCode.ERROR, message: failure });
    }
    return outcome;
  } finally {
    span.end();
  }
}

function contextOf(traceParent: string | undefined): object {
  const { ROOT_CONTEXT, propagation } = api as OpenTelemetry;
  return traceParent === undefined ? ROOT_CONTEXT : propagation.extract(ROOT_CONTEXT, { traceparent: traceParent });
}

/** A link and not a parent: a job may run days after its publish. */
function links(job: TracedJob): object[] {
  const publisher = (api as OpenTelemetry).trace.getSpanContext(contextOf(job.attributes["traceparent"]));
  return publisher === undefined ? [] : [{ context: publisher }];
}

function spanAttributes(job: TracedJob): Record<string, string | number> {
  return {
    "messaging.system": "tidegate",
    "messaging.operation.name": "process",
    "messaging.operation.type": "process",
    "messaging.destination.name": job.queue,
    "messaging.message.id": job.id,
    "messaging.message.delivery_attempt": job.attempt,
  };
}
