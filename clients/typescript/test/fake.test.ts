import assert from "node:assert/strict";
import { test } from "node:test";

import { ConflictError, Content, Dead, NotFoundError, RetryIn, ServerError, Snooze, Worker } from "../dist/index.js";
import { FakeTidegate } from "../dist/testing/index.js";

const MINUTE = 60_000;

test("a job runs when it is due, and not when it was cancelled", async () => {
  const fake = new FakeTidegate({ now: new Date("2030-01-01T00:00:00Z") });
  const client = fake.client();
  const closed: unknown[] = [];
  const worker = new Worker(client).handle("close-unpaid", (job) => void closed.push(job.payload));
  await client.publish("close-unpaid", { order: 17 }, { key: "order-17", delayMs: 30 * MINUTE });
  await client.publish("close-unpaid", { order: 18 }, { key: "order-18", delayMs: 30 * MINUTE });
  assert.equal(await fake.runDue(worker), 0);
  assert.equal((await client.queue("close-unpaid").job({ key: "order-18" }).cancel()).was, "delayed");
  fake.advance(30 * MINUTE);
  assert.equal(await fake.runDue(worker), 1);
  assert.deepEqual(closed, [{ order: 17 }]);
  await assert.rejects(client.queue("close-unpaid").job({ key: "order-17" }).show(), NotFoundError);
  assert.deepEqual(fake.published.map(({ queue, key, runAt }) => `${queue} ${key} ${runAt.toISOString()}`), [
    "close-unpaid order-17 2030-01-01T00:30:00.000Z", "close-unpaid order-18 2030-01-01T00:30:00.000Z",
  ]);
});

test("failures are retried as the handler says", async () => {
  const fake = new FakeTidegate();
  const client = fake.client();
  const worker = new Worker(client).handle<string>("q", (job) => {
    switch (job.payload) {
      case "retry": throw new RetryIn("later", { delayMs: 5_000 });
      case "dead": throw new Dead("never");
      case "snooze": throw new Snooze({ delayMs: 7_000 });
      default: throw new Error("boom");
    }
  });
  for (const payload of ["retry", "dead", "snooze", "fail"]) {
    await client.publish("q", payload, { maxAttempts: 2 });
  }
  await fake.runDue(worker);
  const states = fake.jobs("q").map(({ state, failures, runAt }) => [state, failures, runAt.getTime() - fake.now.getTime()]);
  assert.deepEqual(states, [["delayed", 1, 5_000], ["dead", 1, 0], ["delayed", 0, 7_000], ["delayed", 1, 1_000]]);
  fake.advance(1_000);
  await fake.runDue(worker);
  assert.deepEqual(fake.jobs("q").map((job) => job.state), ["delayed", "dead", "delayed", "dead"]);
  assert.equal(fake.jobs("q")[3]?.lastError, "boom");
});

test("keys meet as on the server", async () => {
  const fake = new FakeTidegate();
  const client = fake.client();
  const first = await client.publish("q", 1, { key: "k", delayMs: MINUTE });
  assert.equal((await client.publish("q", 2, { key: "k" })).outcome, "exists");
  await assert.rejects(client.publish("q", 2, { key: "k", ifExists: "reject" }), ConflictError);
  const replaced = await client.publish("q", 3, { key: "k", ifExists: "replace" });
  assert.deepEqual([replaced.id, replaced.outcome, replaced.state], [first.id, "replaced", "ready"]);
  assert.deepEqual(fake.jobs().map((job) => job.payload), [3]);
});

test("a call has the result of the worker, and a running worker gets jobs of the fake", async () => {
  const fake = new FakeTidegate();
  const client = fake.client({ integers: "bigint" });
  const worker = new Worker(client, { signals: false }).handle("double", (job) => ({ twice: (job.payload as { n: bigint }).n * 2n }));
  const running = worker.run();
  const end = await client.call("double", { n: 9007199254740993n }, { waitMs: 2_000 });
  await worker.stop();
  await running;
  assert.ok(end.status === "done" && end.result instanceof Content);
  assert.equal(end.result.text(), '{"twice":18014398509481986}');
});

test("a call without an answer is pending, and a batch gives a result for each job", async () => {
  const fake = new FakeTidegate();
  const client = fake.client();
  assert.equal((await client.call("q", 1, { waitMs: 10 })).status, "pending");
  const results = await client.publishBatch("b", [{ payload: new Uint8Array([1, 2]), contentType: "image/png" }, { payload: { a: 1 }, key: "x" }, { payload: 1, key: "x", ifExists: "reject" }]);
  assert.ok(results[2] instanceof ConflictError);
  assert.deepEqual(fake.jobs("b").map((job) => job.payload), [new Uint8Array([1, 2]), { a: 1 }]);
  const details = [];
  for await (const job of client.queue("b").jobs({ keyPrefix: "x" })) {
    details.push(job.key);
  }
  assert.deepEqual(details, ["x"]);
});

test("the fake says what it does not have", async () => {
  const client = new FakeTidegate().client();
  await assert.rejects(client.queue("q").policy(), (error) => error instanceof ServerError && error.code === "not_in_fake");
});
