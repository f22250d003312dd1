import assert from "node:assert/strict";
import { createServer } from "node:net";
import { once } from "node:events";
import { test } from "node:test";

import { Client, ConflictError, ConnectionError, RateLimitedError, TidegateError, VERSION } from "../dist/index.js";
import { FAST, json, problem, published, serve } from "./support.js";

test("options are in the query, attributes and the idempotency key in headers", async () => {
  await using server = await serve((_request, response) => json(response, 201, published("A")));
  const runAt = new Date("2030-01-01T00:00:00Z");
  const job = await server.client().publish("q", { n: 1 }, {
    runAt, key: "a/b &c", ifExists: "replace", retainMs: 1_500.2, retry: { every: "5s" }, attributes: { tenant: "zürich ✓" },
  });
  assert.deepEqual(job.runAt, runAt);
  const [request] = server.requests;
  const url = new URL(request?.url ?? "", server.url);
  assert.equal(url.pathname, "/v1/shop/queues/q/jobs");
  assert.deepEqual(Object.fromEntries(url.searchParams), {
    run_at: String(runAt.getTime()), key: "a/b &c", if_exists: "replace", retain: "1501ms", retry: '{"every":"5s"}',
  });
  assert.equal(Buffer.from(String(request?.headers["job-attr-tenant"]), "latin1").toString(), "zürich ✓");
  assert.equal(request?.headers["user-agent"], `tidegate-typescript/${VERSION}`);
  assert.equal(request?.headers.authorization, "Bearer tg_A_B");
  assert.equal(request?.headers["content-type"], "application/json");
  assert.equal(request?.headers["idempotency-key"], undefined);
});

test("only a publish without a key, or with reject, gets an idempotency key", async () => {
  await using server = await serve((_request, response) => json(response, 201, published("A")));
  const client = server.client();
  await client.publish("q", 1);
  await client.publish("q", 1, { key: "k" });
  await client.publish("q", 1, { key: "k", ifExists: "reject" });
  await client.publish("q", 1, { idempotent: false });
  await client.publish("q", 1, { idempotent: false, idempotencyKey: "mine" });
  const keys = server.requests.map((request) => request.headers["idempotency-key"]);
  assert.match(String(keys[0]), /^[0-9a-f-]{36}$/);
  assert.match(String(keys[2]), /^[0-9a-f-]{36}$/);
  assert.deepEqual([keys[1], keys[3], keys[4]], [undefined, undefined, "mine"]);
});

test("keys are percent-encoded in paths, and keys with a slash are parameters", async () => {
  await using server = await serve((_request, response) => json(response, 200, { id: "A", outcome: "cancelled", was: "ready" }));
  const queue = server.client().queue("q");
  await queue.job({ key: "ü %?#&" }).cancel();
  await queue.job({ key: "a/b" }).cancel({ running: "ask" });
  await queue.job({ key: ".." }).cancel();
  await queue.job("01ABC").cancel();
  assert.deepEqual(server.requests.map((request) => request.url.slice("/v1/shop/queues/q/jobs/".length)), [
    "key:%C3%BC%20%25%3F%23%26", "-?key=a%2Fb&running=ask", "key:..", "01ABC",
  ]);
});

test("mistakes are found before something is sent", async () => {
  await using server = await serve((_request, response) => json(response, 201, published("A")));
  const client = server.client();
  const refused = { name: "InvalidRequestError", status: undefined, applied: "no" };
  await assert.rejects(client.publish("a/b", 1), { ...refused, field: "queue" });
  await assert.rejects(client.publish("..", 1), refused);
  await assert.rejects(client.publish("q", undefined), { ...refused, field: "payload" });
  await assert.rejects(client.publish("q", 1, { delayMs: -1 }), { ...refused, field: "delay" });
  await assert.rejects(client.publish("q", 1, { runAt: new Date(Number.NaN) }), { ...refused, field: "run_at" });
  await assert.rejects(client.publish("q", 1, { key: "\ud800" }), { ...refused, field: "key" });
  await assert.rejects(client.publish("q", 1, { attributes: { A: "b" } }), refused);
  await assert.rejects(client.publish("q", 1, { attributes: { a: " b" } }), refused);
  await assert.rejects(client.publish("q", 1, { idempotencyKey: "a\nb" }), refused);
  assert.throws(() => client.queue("q").job({ id: "../x" }), refused);
  assert.throws(() => new Client({ url: "ftp://a", key: "k", namespace: "n" }), /names no server/);
  assert.throws(() => new Client({ url: "http://a", namespace: "n", key: "" }), /TIDEGATE_KEY/);
  assert.equal(server.requests.length, 0);
});

test("a problem document becomes an error of its class", async () => {
  const answers = [[409, "key_taken"], [422, "idempotency_key_reused"], [422, "other"], [429, "queue_full"], [404, "job_not_found"],
    [401, "key_invalid"], [403, "scope_missing"], [412, "version_mismatch"], [413, "payload_too_large"], [500, "internal_error"], [507, "storage_full"]] as const;
  await using server = await serve((_request, response, index) => {
    const [status, code] = answers[index] as readonly [number, string];
    json(response, status, { ...problem(status, code, "no"), field: "delay", job: "01J" }, { "retry-after": "3" });
  });
  const client = server.client();
  const errors: TidegateError[] = [];
  for (const _ of answers) {
    errors.push(await client.publish("q", 1).then(() => assert.fail(), (error: TidegateError) => error));
  }
  assert.deepEqual(errors.map((error) => error.name), [
    "ConflictError", "ConflictError", "InvalidRequestError", "RateLimitedError", "NotFoundError", "AuthError", "AuthError",
    "ConflictError", "InvalidRequestError", "ServerError", "ServerError",
  ]);
  assert.ok(errors[0] instanceof ConflictError && errors[3] instanceof RateLimitedError);
  const { status, code, detail, applied, field, retryAfterMs, jobId, requestId } = errors[3] as TidegateError;
  assert.deepEqual({ status, code, detail, applied, field, retryAfterMs, jobId, requestId }, {
    status: 429, code: "queue_full", detail: "detail of queue_full", applied: "no", field: "delay", retryAfterMs: 3_000, jobId: "01J", requestId: "01X",
  });
});

test("an answer that is no problem document is of unknown effect", async () => {
  await using server = await serve((_request, response) => response.writeHead(502).end("<html>bad gateway"));
  const error = await server.client(FAST).publish("q", 1, { idempotent: false }).catch((it: unknown) => it as TidegateError);
  assert.ok(error instanceof TidegateError);
  assert.deepEqual([error.name, error.status, error.code, error.applied], ["ServerError", 502, undefined, "unknown"]);
  assert.equal(server.requests.length, 1);
});

test("a refused connection is repeated, and nothing was sent", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  const client = new Client({ url: `http://127.0.0.1:${port}`, key: "k", namespace: "n", repeat: { repetitions: 2, firstDelayMs: 1, longestDelayMs: 1 } });
  const error = await client.publish("q", 1, { idempotent: false }).catch((it: unknown) => it);
  assert.ok(error instanceof ConnectionError);
  assert.equal(error.applied, "no");
});

test("a broken connection and a late answer are of unknown effect", async () => {
  await using server = await serve((request, response) => {
    if (request.url.includes("broken")) {
      response.socket?.destroy();
    }
  });
  const client = server.client({ timeLimitMs: 50, ...FAST });
  for (const queue of ["broken", "silent"]) {
    const error = await client.publish(queue, 1, { idempotent: false }).catch((it: unknown) => it);
    assert.ok(error instanceof ConnectionError, String(error));
    assert.equal(error.applied, "unknown");
  }
  assert.equal(server.requests.length, 2);
  await assert.rejects(client.publish("broken", 1), ConnectionError);
  assert.equal(server.requests.length, 10);
});

test("a signal ends a reserve that waits", async () => {
  await using server = await serve(() => undefined);
  const reserve = server.client().reserve(["q"], { waitMs: 10_000, signal: AbortSignal.timeout(30) });
  await assert.rejects(reserve, { name: "TimeoutError" });
});

test("lists are read page by page", async () => {
  await using server = await serve((request, response) => {
    const cursor = new URL(request.url, "http://x").searchParams.get("cursor");
    json(response, 200, { items: [{ queue: cursor ?? "first" }], next: cursor === null ? "a b" : null });
  });
  const names: string[] = [];
  for await (const queue of server.client().queues({ pageSize: 1 })) {
    names.push(queue.queue);
  }
  assert.deepEqual(names, ["first", "a b"]);
});

test("a missing version of the policy is a mistake of the caller", async () => {
  await using server = await serve((_request, response) => json(response, 412, problem(412, "version_mismatch", "no")));
  const change = server.client().queue("q").setPolicy({ paused: true, lease: "90s", maxJobs: null }, { ifMatch: '"0"' });
  await assert.rejects(change, ConflictError);
  const [request] = server.requests;
  assert.equal(request?.headers["if-match"], '"0"');
  assert.deepEqual(JSON.parse(request?.body ?? ""), { paused: true, lease: "90s", max_jobs: null });
});

test("changes are repeated as the documentation allows", async () => {
  const attempts = new Map<string, number>();
  await using server = await serve((request, response) => {
    const name = `${request.method} ${request.url.replace("/v1/shop/", "")}`;
    attempts.set(name, (attempts.get(name) ?? 0) + 1);
    json(response, 503, problem(503, "storage_unavailable", "unknown"));
  });
  const client = server.client({ repeat: { ...FAST.repeat, repetitions: 1 } });
  const queue = client.queue("q");
  const job = queue.job("01A");
  const calls = [
    job.change({ priority: 1 }), job.promote(), job.cancel(), queue.act({ action: "promote" }), queue.delete(),
    queue.setPolicy({}, { ifMatch: '"0"' }), client.keys.revoke("A"), client.schedule("s").delete(),
    queue.purge("ready"), queue.respawn(), client.keys.create({ scopes: ["read"], description: "x" }),
  ];
  await Promise.allSettled(calls);
  const once = [...attempts].filter(([, count]) => count === 1).map(([name]) => name);
  assert.deepEqual(once.sort(), ["POST keys", "POST queues/q/purge", "POST queues/q/respawn"]);
  assert.equal(attempts.size, calls.length);
});

test("an error of a gateway does not say that nothing was changed", async () => {
  await using server = await serve((_request, response) => json(response, 504, { code: "UPSTREAM_TIMEOUT" }));
  await assert.rejects(server.client(FAST).publish("q", 1, { idempotent: false }), { name: "ServerError", applied: "unknown" });
  assert.equal(server.requests.length, 1);
});

test("a wait for a job or a result goes on if a server that stops answers early", async () => {
  await using server = await serve((request, response, index) => {
    const isLast = index % 3 === 2;
    if (request.url.endsWith("/reserve")) {
      json(response, 200, { jobs: isLast ? [{ id: "A" }] : [] });
    } else {
      json(response, isLast ? 200 : 202, isLast ? { sum: 7 } : { id: "A" });
    }
  });
  const client = server.client();
  const begin = performance.now();
  const jobs = await client.reserve(["q"], { waitMs: 30_000 });
  const result = await client.queue("q").job("A").result({ waitMs: 30_000 });
  const tookMs = performance.now() - begin;
  assert.ok(jobs[0]?.id === "A" && result.status === "done");
  assert.ok(tookMs >= 190 && tookMs < 2_000, String(tookMs));
  assert.match(server.requests[0]?.body ?? "", /"wait":"20000ms"/);
});
