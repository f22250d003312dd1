import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { test } from "node:test";

import { AuthError, Dead, type JobEnded, RetryIn, Snooze, Worker } from "../dist/index.js";
import { at, jobView, pathOf, reportsOf, type Script, serveJobs, work } from "./jobs.js";
import { json, problem, serve } from "./support.js";

test("the end of a handler is reported as it says", async () => {
  await using server = await serveJobs({ payloads: [["done", "result", "fail", "retry", "dead", "snooze", "returned"]] });
  const ends = await work(server, 7, (payload: string) => {
    switch (payload) {
      case "result": return { n: 9007199254740993n };
      case "fail": throw new Error("boom");
      case "retry": throw new RetryIn(new Error("later"), { delayMs: 1_500 });
      case "dead": throw new Dead("never");
      case "snooze": throw new Snooze({ delayMs: 5_000 });
      case "returned": return new Dead("returned");
      default: return undefined;
    }
  });
  assert.deepEqual(ends.map((event) => event.end).sort(), ["dead", "dead", "done", "done", "failed", "failed", "released"]);
  const ack = server.requests.find((request) => pathOf(request) === "ack");
  assert.equal(ack?.body, '{"leases":["1.1.q",{"lease":"2.1.q","result":{"n":9007199254740993}}]}');
  assert.deepEqual(reportsOf(server, "fail"), [
    { lease: "3.1.q", error: "boom" }, { lease: "4.1.q", error: "later", retry_in: "1500ms" },
    { lease: "5.1.q", error: "never", dead: true }, { lease: "7.1.q", error: "returned", dead: true },
  ]);
  const release = server.requests.find((request) => pathOf(request) === "release");
  assert.deepEqual(JSON.parse(release?.body ?? ""), { leases: ["6.1.q"], delay: "5000ms" });
});

test("a worker reserves only as many jobs as it has free slots, plus prefetch", async () => {
  await using server = await serveJobs({ payloads: [[1, 2, 3]] });
  await work(server, 3, () => delay(20), { slots: 2, prefetch: 1, name: "me" });
  const [first] = server.requests;
  assert.deepEqual(JSON.parse(first?.body ?? ""), { queues: ["q"], max_jobs: 3, wait: "20000ms", worker: "me", order: "weighted" });
});

test("a report that cannot be sent is repeated until its lease has ended", async () => {
  let failures = 0;
  const settle: Script["settle"] = (path, _body, response) => {
    if (path !== "ack" || failures++ >= 2) {
      return false;
    }
    json(response, 503, problem(503, "storage_unavailable", "unknown"));
    return true;
  };
  await using server = await serveJobs({ payloads: [[1]], settle });
  await work(server, 1, () => undefined);
  assert.deepEqual(reportsOf(server, "ack"), ["1.1.q", "1.1.q", "1.1.q"]);
});

test("a report is given up when its lease has ended", async () => {
  const settle: Script["settle"] = (_path, _body, response) => {
    json(response, 503, problem(503, "storage_unavailable", "unknown"));
    return true;
  };
  await using server = await serveJobs({ payloads: [[1]], leaseMs: 300, settle });
  const warnings: string[] = [];
  await work(server, 1, () => undefined, { hooks: { warning: (text) => warnings.push(text) } });
  assert.ok(warnings.some((text) => text.includes("failed to report 1 jobs")), warnings.join());
});

test("a result that is not accepted makes its job dead, and no other one", async () => {
  const isBad = (lease: unknown): boolean => typeof lease === "object" && (lease as { result?: unknown }).result === "bad";
  const settle: Script["settle"] = (path, body, response) => {
    if (path !== "ack" || !body.leases.some(isBad)) {
      return false;
    }
    json(response, 413, problem(413, "payload_too_large", "no"));
    return true;
  };
  await using server = await serveJobs({ payloads: [["good", "bad", "good"]], settle });
  await work(server, 3, (payload) => payload);
  const accepted = server.requests.filter((request) => pathOf(request) === "ack" && !request.body.includes("bad"));
  const leases = accepted.flatMap((request) => (JSON.parse(request.body) as { leases: { lease: string }[] }).leases.map((it) => it.lease));
  assert.deepEqual(leases.sort(), ["1.1.q", "3.1.q"]);
  const [failed] = reportsOf(server, "fail") as { lease: string; dead: boolean; error: string }[];
  assert.equal(failed?.lease, "2.1.q");
  assert.equal(failed?.dead, true);
  assert.match(failed?.error ?? "", /the result was not accepted/);
});

test("ends of jobs travel with the next reserve, and are not sent again once they are confirmed", async () => {
  let reserves = 0;
  await using server = await serve((request, response) => {
    const { settle } = JSON.parse(request.body) as { settle?: { ack: unknown[]; fail: unknown[] } };
    reserves += 1;
    const jobs = reserves === 1 ? [jobView("1", "ok"), jobView("2", "bad")] : reserves === 2 ? [jobView("3", "ok")] : undefined;
    const settled = settle && { ack: settle.ack.map(() => ({ outcome: "done" })), fail: settle.fail.map(() => ({ outcome: "retry", run_at: at(5) })) };
    if (jobs !== undefined || pathOf(request) !== "reserve") {
      json(response, 200, { now: at(0), jobs, settled, results: [{ outcome: "done" }] });
    }
  });
  const reported: string[] = [];
  const worker = new Worker(server.client(), {
    signals: false,
    hooks: { reported: (id, { outcome, runAt }) => reported.push(`${id} ${outcome} ${runAt?.getTime() ?? ""}`.trim()) },
  });
  worker.handle("q", (job) => {
    if (job.id === "3") {
      setTimeout(() => void worker.stop(), 50);
    }
    if (job.payload === "bad") {
      throw new Error("boom");
    }
  });
  await worker.run();
  const bodies = server.requests.map((request) => JSON.parse(request.body) as { settle?: unknown; wait?: string });
  assert.deepEqual(bodies[1]?.settle, { ack: ["1.1.q"], fail: [{ lease: "2.1.q", error: "boom" }] });
  // A reserve that reports does not wait, so that its answer has the outcomes at once.
  assert.deepEqual(bodies.map((body) => body.wait), ["20000ms", "0ms", "0ms", undefined]);
  assert.deepEqual(reported, ["1 done", "2 retry 5", "3 done"]);
  assert.deepEqual(server.requests.map(pathOf), ["reserve", "reserve", "reserve", "ack"]);
});

test("a reserve that is refused with its ends is sent without them", async () => {
  await using server = await serveJobs({ payloads: [["good"]], refusesSettle: true });
  await work(server, 1, () => undefined);
  assert.deepEqual(reportsOf(server, "ack"), ["1.1.q"]);
  const refused = server.requests.filter((request) => request.body.includes("settle"));
  assert.equal(refused.length, 1);
});

test("a schema checks payloads, and middleware wraps handlers", async () => {
  await using server = await serveJobs({ payloads: [[{ n: "1" }, { n: 2 }]] });
  const seen: string[] = [];
  const schema = {
    parse(payload: unknown): { n: number } {
      const { n } = payload as { n: unknown };
      if (typeof n !== "number") {
        throw new Error("n is no number");
      }
      return { n: n + 40 };
    },
  };
  const ended = (event: JobEnded): void => {
    seen.push(`${event.job.id} ${event.end}`);
    if (event.job.id === "2") {
      setTimeout(() => void worker.stop(), 30);
    }
  };
  const middleware = ["outer", "inner"].map((name) => async (_job: unknown, next: () => Promise<unknown>) => {
    seen.push(name);
    return next();
  });
  const worker = new Worker(server.client(), { signals: false, slots: 1, prefetch: 1, middleware, hooks: { ended } });
  worker.handle("q", schema, (job) => job.payload.n);
  await worker.run();
  assert.deepEqual(seen, ["outer", "inner", "1 dead", "outer", "inner", "2 done"]);
  assert.deepEqual(reportsOf(server, "ack"), [{ lease: "2.1.q", result: 42 }]);
});

test("leases are extended in one request, and a job that is cancelled is aborted", async () => {
  const settle: Script["settle"] = (path, body, response) => {
    if (path !== "touch") {
      return false;
    }
    json(response, 200, { results: body.leases.map((lease) => (lease === "2.1.q" ? { outcome: "gone" } : { outcome: "extended", cancel_requested: lease === "1.1.q" })) });
    return true;
  };
  await using server = await serveJobs({ payloads: [[1, 2, 3]], leaseMs: 300, settle });
  const reasons: string[] = [];
  const aborted = (job: { id: string }, reason: string): void => void reasons.push(`${job.id} ${reason}`);
  const worker = new Worker(server.client(), { signals: false, hooks: { aborted } });
  worker.handle("q", async (job) => {
    if (job.id !== "3") {
      await delay(5_000, undefined, { signal: job.signal });
    }
    await delay(350);
    void worker.stop();
  });
  await worker.run();
  assert.deepEqual(reasons.sort(), ["1 cancel_requested", "2 lease_lost"]);
  const touches = server.requests.filter((request) => pathOf(request) === "touch").map((request) => JSON.parse(request.body) as { leases: string[]; lease: string });
  assert.deepEqual(touches[0], { leases: ["1.1.q", "2.1.q", "3.1.q"], lease: "300ms" });
  assert.deepEqual(reportsOf(server, "fail").map((it) => (it as { lease: string }).lease), ["1.1.q"]);
});

test("a stop gives jobs back that are not done in time", async () => {
  await using server = await serveJobs({ payloads: [["quick", "slow", "deaf"]] });
  const worker = new Worker(server.client(), { signals: false, hooks: { warning: () => undefined } });
  worker.handle("q", async (job) => {
    if (job.payload === "quick") {
      await delay(50);
    } else {
      await delay(2_000, undefined, job.payload === "slow" ? { signal: job.signal } : {});
    }
  });
  const running = worker.run();
  await delay(100);
  const begin = performance.now();
  await worker.stop({ graceMs: 100 });
  await running;
  assert.ok(performance.now() - begin < 1_500);
  assert.deepEqual(reportsOf(server, "ack"), ["1.1.q"]);
  assert.deepEqual(reportsOf(server, "release"), ["2.1.q", "3.1.q"]);
});

test("401 ends a worker, and other errors of a reserve are repeated", async () => {
  let reserves = 0;
  await using server = await serve((_request, response) => {
    reserves += 1;
    const [status, code] = reserves < 3 ? [429, "too_many_waiting"] : [401, "key_invalid"];
    json(response, status as number, problem(status as number, code as string, "no"));
  });
  const retries: (number | undefined)[] = [];
  const hooks = { warning: () => undefined, requestFailed: (event: { retryInMs: number | undefined }) => retries.push(event.retryInMs) };
  const worker = new Worker(server.client(), { signals: false, hooks });
  worker.handle("q", () => undefined);
  await assert.rejects(worker.run(), AuthError);
  assert.equal(retries.length, 2);
  assert.ok((retries[0] ?? 0) >= 100 && (retries[0] ?? 0) <= 200);
});

test("a worker needs 1 to 16 queues, and weights of its queues", async () => {
  const server = { url: "http://127.0.0.1:9", key: "k", namespace: "n" };
  const { Client } = await import("../dist/index.js");
  const client = new Client(server);
  await assert.rejects(new Worker(client).run(), /1 to 16 queues/);
  await assert.rejects(new Worker(client, { weights: { other: 2 } }).handle("q", () => undefined).run(), /no handler for the queue other/);
  assert.throws(() => new Worker(client, { slots: 0 }), /slots/);
});
