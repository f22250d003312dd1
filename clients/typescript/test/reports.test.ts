import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { test } from "node:test";

import { Worker } from "../dist/index.js";
import { at, jobView, pathOf, reportsOf, type Script, serveJobs, work } from "./jobs.js";
import { json, serve } from "./support.js";

test("a report is repeated after every error but a refusal", async () => {
  const answers = [507, 404, 200, 429];
  const settle: Script["settle"] = (path, _body, response) => {
    const status = path === "ack" ? answers.shift() : undefined;
    if (status === undefined) {
      return false;
    }
    response.writeHead(status).end("no JSON");
    return true;
  };
  await using server = await serveJobs({ payloads: [[1]], settle });
  await work(server, 1, () => undefined);
  assert.deepEqual(reportsOf(server, "ack"), ["1.1.q", "1.1.q", "1.1.q", "1.1.q", "1.1.q"]);
});

test("ends of jobs whose outcomes are missing are sent again, not with a reserve", async () => {
  let reserves = 0;
  await using server = await serve((request, response) => {
    const { leases } = JSON.parse(request.body) as { leases?: unknown[] };
    if (leases !== undefined) {
      json(response, 200, { results: leases.map(() => ({ outcome: "done" })) });
    } else if (++reserves <= 2) {
      json(response, 200, { now: at(0), jobs: reserves === 1 ? [jobView("1", 1)] : [] });
    }
  });
  await work(server, 1, () => undefined);
  assert.deepEqual(server.requests.map(pathOf).sort(), ["ack", "reserve", "reserve", "reserve"]);
  assert.equal(server.requests.filter((request) => request.body.includes("settle")).length, 1);
  assert.deepEqual(reportsOf(server, "ack"), ["1.1.q"]);
});

test("jobs of an answer that ends during a stop are given back before the handlers have ended", async () => {
  let reserves = 0;
  await using server = await serve((request, response) => {
    reserves += pathOf(request) === "reserve" ? 1 : 0;
    if (pathOf(request) !== "reserve") {
      const { leases } = JSON.parse(request.body) as { leases: unknown[] };
      json(response, 200, { results: leases.map(() => ({ outcome: "done" })) });
    } else if (reserves === 1) {
      json(response, 200, { now: at(0), jobs: [jobView("1", 1)] });
    } else if (reserves === 2) {
      // Its end comes when the stop does not wait for answers any more.
      const text = JSON.stringify({ now: at(0), jobs: [jobView("2", 2)] });
      response.write(text.slice(0, 10));
      setTimeout(() => response.end(text.slice(10)), 1_200);
    }
  });
  const started: string[] = [];
  const worker = new Worker(server.client(), { signals: false, slots: 2 });
  worker.handle("q", async (job) => {
    started.push(job.id);
    await delay(1_500);
  });
  const running = worker.run();
  await delay(100);
  await worker.stop();
  await running;
  assert.deepEqual(started, ["1"]);
  assert.deepEqual(server.requests.slice(-2).map(pathOf), ["release", "ack"]);
  assert.deepEqual(reportsOf(server, "release"), ["2.1.q"]);
});

test("a job that is cancelled while it waits for a slot does not start", async () => {
  const settle: Script["settle"] = (path, body, response) => {
    if (path === "touch") {
      json(response, 200, { results: body.leases.map((lease) => ({ outcome: "extended", cancel_requested: lease === "2.1.q" })) });
    }
    return path === "touch";
  };
  await using server = await serveJobs({ payloads: [[1, 2]], leaseMs: 300, settle });
  const ends = await work(server, 1, () => delay(250), { slots: 1, prefetch: 1 });
  assert.deepEqual(ends.map((event) => event.job.id), ["1"]);
  assert.deepEqual(reportsOf(server, "release"), ["2.1.q"]);
});

test("what handlers and hooks throw does not end the process", async () => {
  await using server = await serveJobs({ payloads: [["no text", "number"]] });
  const hooks = { started: async () => Promise.reject(new Error("a hook that fails")) };
  await work(server, 2, (payload: string) => {
    throw payload === "number" ? Object.assign(new Error(), { message: 7 }) : Object.create(null);
  }, { hooks });
  assert.deepEqual(reportsOf(server, "fail"), [
    { lease: "1.1.q", error: "an error that has no text" }, { lease: "2.1.q", error: "7" },
  ]);
});

test("limits that are longer than a timer can be do not end at once", async () => {
  await using server = await serveJobs({ payloads: [[1]] });
  const [ended] = await work(server, 1, () => delay(50), { maxRunMs: Infinity, graceMs: Infinity });
  assert.equal(ended?.end, "done");
  assert.throws(() => new Worker(server.client(), { graceMs: Number.NaN }), /graceMs/);
  assert.throws(() => new Worker(server.client(), { waitMs: -1 }), /waitMs/);
});
