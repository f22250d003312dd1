import assert from "node:assert/strict";
import { test } from "node:test";

import { ConnectionError, TidegateError } from "../dist/index.js";
import { FAST, json, problem, published, type Recorded, type Responder, serve } from "./support.js";

interface Item {
  readonly payload?: { readonly n?: number; readonly bad?: boolean };
  readonly key?: string;
}

const itemsOf = (request: Recorded): Item[] =>
  request.url.includes("/batch") ? (JSON.parse(request.body) as { jobs: Item[] }).jobs : [{ payload: JSON.parse(request.body) as Item["payload"] }];

/** Answers publishes with the number of the payload as the id. */
const answer: Responder = (request, response) => {
  const items = itemsOf(request);
  const isBatch = request.url.includes("/batch");
  if (items.some((item) => item.payload?.bad === true)) {
    json(response, 400, problem(400, "invalid_body", "no"));
  } else if (isBatch) {
    json(response, 200, { results: items.map((item) => published(String(item.payload?.n))) });
  } else {
    json(response, 201, published(String(items[0]?.payload?.n)));
  }
};

test("publishes that meet are sent together, and a publish that meets none is sent at once", async () => {
  await using server = await serve(answer);
  const client = server.client();
  const jobs = await Promise.all(Array.from({ length: 250 }, (_, n) => client.publish("q", { n })));
  assert.deepEqual(jobs.map((job) => job.id), Array.from({ length: 250 }, (_, n) => String(n)));
  assert.deepEqual(server.requests.map((request) => itemsOf(request).length), [1, 100, 100, 49]);
  await client.publish("q", { n: 1 });
  assert.equal(server.requests.length, 5);
});

test("publishes to different queues do not wait for each other", async () => {
  await using server = await serve(answer);
  const client = server.client();
  await Promise.all(["a", "b", "c"].map((queue) => client.publish(queue, { n: 1 })));
  assert.equal(server.requests.filter((request) => request.url.includes("/batch")).length, 0);
});

test("a batch has at most 1 MiB, and a larger job is sent alone", async () => {
  await using server = await serve(answer);
  const client = server.client();
  const text = "x".repeat(400_000);
  await Promise.all(Array.from({ length: 6 }, (_, n) => client.publish("q", { n, text })));
  assert.deepEqual(server.requests.map((request) => itemsOf(request).length), [1, 2, 2, 1]);
});

test("a job that is not valid gets its own error, and the others are stored", async () => {
  await using server = await serve(answer);
  const client = server.client();
  const results = await Promise.allSettled(Array.from({ length: 20 }, (_, n) => client.publish("q", { n, bad: n === 13 })));
  results.forEach((result, n) => assert.equal(result.status, n === 13 ? "rejected" : "fulfilled", String(n)));
});

test("each job of a batch has its own error, and is repeated by itself", async () => {
  let failures = 0;
  await using server = await serve((request, response) => {
    const items = itemsOf(request);
    if (!request.url.includes("/batch")) {
      json(response, 201, published(String(items[0]?.payload?.n)));
      return;
    }
    const results = items.map((item) => {
      if (item.key === "taken") {
        return { problem: problem(409, "key_taken", "no") };
      }
      if (item.payload?.n === 3 && failures++ < 2) {
        return { problem: problem(503, "storage_unavailable", "unknown") };
      }
      return published(String(item.payload?.n));
    });
    json(response, 200, { results });
  });
  const client = server.client(FAST);
  const options = (n: number): object => (n === 2 ? { key: "taken", ifExists: "reject" } : {});
  const results = await Promise.allSettled(Array.from({ length: 5 }, (_, n) => client.publish("q", { n }, options(n))));
  assert.deepEqual(results.map((result) => result.status), ["fulfilled", "fulfilled", "rejected", "fulfilled", "fulfilled"]);
  const refused = results[2] as PromiseRejectedResult;
  assert.ok(refused.reason instanceof TidegateError && refused.reason.code === "key_taken");
});

test("an error of a batch is the error of each of its publishes", async () => {
  await using server = await serve((request, response) =>
    request.url.includes("/batch") ? json(response, 429, problem(429, "rate_limited", "no")) : answer(request, response, 0),
  );
  const client = server.client();
  const results = await Promise.allSettled([0, 1, 2].map((n) => client.publish("q", { n })));
  assert.deepEqual(results.map((result) => result.status), ["fulfilled", "rejected", "rejected"]);
  assert.equal(server.requests.length, 2);
});

test("a batch has at most 1 MiB also if its characters have several bytes", async () => {
  await using server = await serve(answer);
  const client = server.client();
  const text = "ä".repeat(200_000);
  await Promise.all(Array.from({ length: 6 }, (_, n) => client.publish("q", { n, text })));
  assert.deepEqual(server.requests.map((request) => itemsOf(request).length), [1, 2, 2, 1]);
});

test("a publish does not wait without end for others that are not answered", async () => {
  await using server = await serve(() => undefined);
  const client = server.client({ timeLimitMs: 100, repeat: { repetitions: 0 } });
  const begin = performance.now();
  const results = await Promise.allSettled(Array.from({ length: 250 }, (_, n) => client.publish("q", { n })));
  assert.ok(performance.now() - begin < 1_000);
  const applied = results.map((result) => (result.status === "rejected" && result.reason instanceof ConnectionError ? result.reason.applied : result.status));
  assert.equal(applied[0], "unknown");
  assert.ok(applied.every((it) => it === "unknown" || it === "no"), applied.join());
});

test("a bigint among the options does not stop later publishes", async () => {
  await using server = await serve(answer);
  const client = server.client();
  const options = { priority: 3n as unknown as number };
  const jobs = await Promise.all([0, 1, 2].map((n) => client.publish("q", { n }, options)));
  assert.equal(jobs.length, 3);
  assert.ok(server.requests[1]?.body.includes('"priority":3'));
});
