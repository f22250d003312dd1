/**
 * A server that delivers jobs to a worker, and what the worker has reported to it.
 */

import { type ServerResponse } from "node:http";

import { type JobEnded, Worker, type WorkerOptions } from "../dist/index.js";
import { json, problem, type Recorded, serve, type TestServer } from "./support.js";

export interface Script {
  /** The payloads of the jobs of the first answers to reserves. */
  readonly payloads: unknown[][];
  /** Answers an ack or a fail; by default with `done`. */
  readonly settle?: (path: string, body: { leases: unknown[] }, response: ServerResponse) => boolean;
  readonly leaseMs?: number;
  /** Whether reserves with ends of jobs are refused. */
  readonly refusesSettle?: boolean;
}

export const pathOf = (request: Recorded): string => request.url.replace("/v1/shop/", "");

/** A server that delivers jobs, and keeps further reserves waiting. */
export function serveJobs(script: Script): Promise<TestServer> {
  let answers = 0;
  let jobs = 0;
  return serve((request, response) => {
    const path = pathOf(request);
    const body = JSON.parse(request.body) as { leases: unknown[] };
    if (script.refusesSettle === true && request.body.includes("settle")) {
      json(response, 400, problem(400, "invalid_body", "no"));
    } else if (path === "reserve") {
      const payloads = script.payloads[answers++];
      if (payloads !== undefined) {
        json(response, 200, { now: at(0), jobs: payloads.map((payload) => jobView(String(++jobs), payload, script.leaseMs)) });
      }
    } else if (script.settle?.(path, body, response) !== true) {
      json(response, 200, { results: body.leases.map(() => ({ outcome: path === "touch" ? "extended" : "done" })) });
    }
  });
}

export const at = (ms: number): string => new Date(ms).toISOString();

export function jobView(id: string, payload: unknown, leaseMs = 60_000): object {
  return {
    id, queue: "q", lease: `${id}.1.q`, lease_until: at(leaseMs), attempt: 1, failures: 0, losses: 0,
    run_at: at(0), created_at: at(0), content_type: "application/json", payload,
  };
}

/** Runs a worker until so many jobs have ended. */
export async function work(server: TestServer, count: number, handler: (payload: never) => unknown, options: WorkerOptions = {}): Promise<JobEnded[]> {
  const ends: JobEnded[] = [];
  const ended = (event: JobEnded): void => {
    if (ends.push(event) === count) {
      setTimeout(() => void worker.stop(), 30);
    }
  };
  const hooks = { warning: () => undefined, ended, ...options.hooks };
  const worker = new Worker(server.client(), { signals: false, graceMs: 1_000, ...options, hooks });
  worker.handle("q", (job) => handler(job.payload as never));
  await worker.run();
  return ends;
}

export const reportsOf = (server: TestServer, path: string): unknown[] =>
  server.requests.filter((request) => pathOf(request) === path).flatMap((request) => (JSON.parse(request.body) as { leases: unknown[] }).leases);
