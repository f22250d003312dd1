/**
 * The requests that the fake answers, as the server does.
 */

import { JSON_TYPE } from "../content.js";
import { elementsOf, memberOf, type Span } from "../json/scan.js";
import { type JsonObject } from "../wire/names.js";
import { parseDuration } from "./durations.js";
import { type FakeBody, type FakeContent, type FakeJob, FakeProblem, type FakeStore, iso } from "./store.js";

/** A request of a client of the fake. */
export interface FakeRequest {
  readonly method: string;
  /** The parts of the path below the namespace, decoded. */
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
  readonly headers: Headers;
  readonly body: Buffer;
}

/** An answer; `undefined` for a request that waits. */
export type FakeAnswer = { readonly status: number; readonly json: unknown } | { readonly status: number; readonly body: FakeBody; readonly id: string };

const ok = (json: unknown): FakeAnswer => ({ status: 200, json });

/** Answers a request that waits for nothing. */
export function answer(store: FakeStore, request: FakeRequest): FakeAnswer {
  const { method, parts } = request;
  const route = `${method} ${parts.length === 1 ? parts[0] : [parts[0], "…", ...parts.slice(2)].join("/")}`;
  const [, queue = "", , job = "", rest = ""] = parts;
  switch (route) {
    case "POST reserve": return reserve(store, request, settleFirst(store, request.body.toString()));
    case "POST ack": return settle(store, request.body.toString(), "ack");
    case "POST fail": return settle(store, request.body.toString(), "fail");
    case "POST touch": return settle(store, request.body.toString(), "touch");
    case "POST release": return settle(store, request.body.toString(), "release");
    case "GET queues/…": return ok(counts(store, queue));
    case "GET queues/…/jobs": return ok({ items: list(store, queue, request.query), next: null });
    case "POST queues/…/jobs": return publish(store, queue, request);
    case "POST queues/…/jobs/call": return call(store, queue, request);
    case "POST queues/…/jobs/batch": return publishBatch(store, queue, request.body.toString());
  }
  if (parts[0] !== "queues" || parts[2] !== "jobs") {
    throw new FakeProblem(501, "not_in_fake", `the fake does not answer ${method} /${parts.join("/")}`);
  }
  return jobAnswer(store, store.get(queue, jobRef(job, request.query)), `${method} ${rest}`.trim(), request);
}

function jobAnswer(store: FakeStore, job: FakeJob, route: string, request: FakeRequest): FakeAnswer {
  switch (route) {
    case "GET": return ok(details(job));
    case "PATCH": return change(store, job, jsonBody(request));
    case "DELETE": return ok(store.cancel(job, request.query.get("running") ?? "refuse"));
    case "GET payload": return { status: 200, body: job.content, id: job.id };
    case "GET result": return resultOf(job);
    case "POST promote": return promote(store, job);
    default: throw new FakeProblem(501, "not_in_fake", `the fake does not answer ${route} of a job`);
  }
}

function jobRef(part: string, query: URLSearchParams): { id?: string; key?: string } {
  if (part === "-") {
    return { key: query.get("key") ?? "" };
  }
  return part.startsWith("key:") ? { key: part.slice(4) } : { id: part };
}

/** The end of a job for a client that waits for its result. */
export function resultOf(job: FakeJob): FakeAnswer {
  if (job.state === "dead") {
    throw new FakeProblem(409, "job_dead", "The job is in the dead letter.");
  }
  if (job.state !== "done") {
    return { status: 202, json: { id: job.id, state: job.state } };
  }
  return job.result === undefined ? { status: 204, json: null } : { status: 200, body: job.result, id: job.id };
}

function jsonBody(request: FakeRequest): JsonObject {
  return JSON.parse(request.body.toString()) as JsonObject;
}

function publish(store: FakeStore, queue: string, request: FakeRequest): FakeAnswer {
  const attributes: Record<string, string> = {};
  for (const [name, value] of request.headers) {
    if (name.startsWith("job-attr-")) {
      attributes[name.slice(9)] = Buffer.from(value, "latin1").toString("utf8");
    }
  }
  const contentType = request.headers.get("content-type") ?? JSON_TYPE;
  const { wait: _wait, ...options } = Object.fromEntries(request.query);
  return published(store, queue, { bytes: request.body, contentType, attributes }, options);
}

function published(store: FakeStore, queue: string, content: FakeContent, options: JsonObject): FakeAnswer {
  const { job, outcome } = store.publish(queue, content, options);
  store.tick();
  const { id, key, state } = job;
  const json = { id, queue, key, outcome, state, run_at: iso(job.runAtMs), durability: "memory" };
  return { status: outcome === "created" ? 201 : 200, json };
}

/** The job has not ended yet; the fake waits for it. */
function call(store: FakeStore, queue: string, request: FakeRequest): FakeAnswer {
  return { ...publish(store, queue, request), status: 202 };
}

function publishBatch(store: FakeStore, queue: string, body: string): FakeAnswer {
  const jobs = elementsOf(body, (memberOf(body, 0, "jobs") as Span).start);
  const results = jobs.map(({ start, end }) => {
    const item = JSON.parse(body.slice(start, end)) as JsonObject;
    try {
      const { payload: _payload, payload_base64: _base64, content_type: _type, attributes, ...options } = item;
      const content = contentOf(body, start, item, "payload") as FakeBody;
      const full = { ...content, attributes: (attributes ?? {}) as Record<string, string> };
      return (published(store, queue, full, options) as { json: unknown }).json;
    } catch (error) {
      return { problem: problemOf(error) };
    }
  });
  return ok({ results });
}

/** The payload or result of an object, with its JSON as it was sent. */
function contentOf(text: string, start: number, item: JsonObject, name: string): FakeBody | undefined {
  const base64 = item[`${name}_base64`];
  if (typeof base64 === "string") {
    return { bytes: Buffer.from(base64, "base64"), contentType: String(item["content_type"]) };
  }
  const span = memberOf(text, start, name);
  return span && { bytes: Buffer.from(text.slice(span.start, span.end)), contentType: JSON_TYPE };
}

export function problemOf(error: unknown): JsonObject {
  if (!(error instanceof FakeProblem)) {
    throw error;
  }
  const { status, code, field } = error;
  return { type: `urn:tidegate:problem:${code}`, title: code, status, code, detail: error.message, field, instance: "fake", applied: "no" };
}

/** Leases the jobs that are ready now. `settled` has the outcomes of the ends that came with the request. */
export function reserve(store: FakeStore, request: FakeRequest, settled: JsonObject | undefined): FakeAnswer {
  const body = jsonBody(request);
  const queues = (body["queues"] as (string | { name: string })[]).map((it) => (typeof it === "string" ? it : it.name));
  const leaseMs = body["lease"] === undefined ? undefined : parseDuration(body["lease"]);
  const jobs = store.reserve(queues, Number(body["max_jobs"] ?? 1), leaseMs);
  // JSON text, so that payloads stay as they were sent.
  return { status: 200, body: { bytes: Buffer.from(reserveText(store, jobs, settled)), contentType: JSON_TYPE }, id: "" };
}

function settleFirst(store: FakeStore, text: string): JsonObject | undefined {
  const settle = memberOf(text, 0, "settle");
  if (settle === undefined) {
    return undefined;
  }
  const outcomes = (call: SettleCall): unknown => {
    const list = memberOf(text, settle.start, call);
    return list === undefined ? [] : elementsOf(text, list.start).map((span) => settleOne(store, text, span, call, {}));
  };
  return { ack: outcomes("ack"), fail: outcomes("fail") };
}

function reserveText(store: FakeStore, jobs: readonly FakeJob[], settled: JsonObject | undefined): string {
  const texts = jobs.map((job) => {
    const isJson = job.content.contentType.startsWith(JSON_TYPE);
    const payload = isJson
      ? `"payload":${job.content.bytes.toString()}`
      : `"payload_base64":"${job.content.bytes.toString("base64")}"`;
    return `{${JSON.stringify(leasedView(job)).slice(1, -1)},${payload}}`;
  });
  const now = JSON.stringify(iso(store.now()));
  return `{"now":${now},"jobs":[${texts.join(",")}]${settled === undefined ? "" : `,"settled":${JSON.stringify(settled)}`}}`;
}

function leasedView(job: FakeJob): JsonObject {
  return {
    id: job.id, queue: job.queue, lease: `${job.id}.${job.attempt}.${job.queue}`, lease_until: iso(job.leaseUntilMs),
    attempt: job.attempt, failures: job.failures, losses: 0, run_at: iso(job.runAtMs), created_at: iso(job.createdAtMs),
    key: job.key, group: job.options["group"], attributes: job.content.attributes, content_type: job.content.contentType,
  };
}

type SettleCall = "ack" | "fail" | "touch" | "release";

function settle(store: FakeStore, text: string, call: SettleCall): FakeAnswer {
  const body = JSON.parse(text) as JsonObject;
  const leases = elementsOf(text, (memberOf(text, 0, "leases") as Span).start);
  return ok({ results: leases.map((span) => settleOne(store, text, span, call, body)) });
}

function settleOne(store: FakeStore, text: string, { start, end }: Span, call: SettleCall, body: JsonObject): JsonObject {
  const item = JSON.parse(text.slice(start, end)) as string | (JsonObject & { lease: string });
  const held = store.held(typeof item === "string" ? item : item.lease);
  if (typeof held === "string") {
    return { outcome: held };
  }
  switch (call) {
    case "ack": return store.ack(held, typeof item === "string" ? undefined : contentOf(text, start, item, "result"));
    case "fail": return store.fail(held, item as unknown as { error: string });
    case "release": return store.release(held, parseDuration(body["delay"]) ?? 0);
    case "touch": return touch(store, held, parseDuration(body["lease"]));
  }
}

function touch(store: FakeStore, job: FakeJob, leaseMs = 60_000): JsonObject {
  job.leaseUntilMs = Math.max(job.leaseUntilMs, store.now() + leaseMs);
  const asked = job.isCancelRequested ? { cancel_requested: true } : {};
  return { outcome: "extended", lease_until: iso(job.leaseUntilMs), ...asked };
}

function change(store: FakeStore, job: FakeJob, fields: JsonObject): FakeAnswer {
  store.change(job, fields);
  return ok({ id: job.id, key: job.key, outcome: "changed", state: job.state, run_at: iso(job.runAtMs) });
}

function promote(store: FakeStore, job: FakeJob): FakeAnswer {
  store.change(job, { delay: "0s" });
  return ok({ id: job.id, key: job.key, outcome: "promoted", run_at: iso(job.runAtMs) });
}

function counts(store: FakeStore, queue: string): JsonObject {
  store.tick();
  const jobs: Record<string, number> = { delayed: 0, ready: 0, leased: 0, dead: 0, done: 0 };
  for (const job of store.jobs.filter((it) => it.queue === queue)) {
    jobs[job.state] = (jobs[job.state] ?? 0) + 1;
  }
  return { queue, jobs, paused: false, closed: false };
}

function list(store: FakeStore, queue: string, query: URLSearchParams): JsonObject[] {
  store.tick();
  const [state, prefix, group] = [query.get("state"), query.get("key_prefix"), query.get("group")];
  const matches = (job: FakeJob): boolean =>
    job.queue === queue && (state === null || job.state === state) &&
    (prefix === null || (job.key?.startsWith(prefix) ?? false)) && (group === null || job.options["group"] === group);
  return store.jobs.filter(matches).map(details);
}

function details(job: FakeJob): JsonObject {
  return {
    id: job.id, queue: job.queue, key: job.key, group: job.options["group"], state: job.state,
    created_at: iso(job.createdAtMs), run_at: iso(job.runAtMs), attempt: job.attempt, failures: job.failures, losses: 0,
    max_attempts: Number(job.options["max_attempts"] ?? 10), content_type: job.content.contentType,
    payload_bytes: job.content.bytes.length, attributes: job.content.attributes, history: job.history,
  };
}
