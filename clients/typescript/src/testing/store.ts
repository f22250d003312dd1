/**
 * The jobs of the fake, and the rules of the server for them.
 */

import { parseDuration } from "./durations.js";
import { type FakeClock } from "./clock.js";
import { type JobState } from "../wire/answers.js";
import { type JsonObject } from "../wire/names.js";

/** A job of the fake. Instants are ms since 1970. */
export interface FakeJob {
  readonly id: string;
  readonly queue: string;
  readonly createdAtMs: number;
  key: string | undefined;
  content: FakeContent;
  options: JsonObject;
  state: JobState;
  runAtMs: number;
  attempt: number;
  failures: number;
  leaseUntilMs: number;
  doneAtMs: number;
  result: FakeBody | undefined;
  isCancelRequested: boolean;
  /** A client waits for its result: it is kept for a while after it is done. */
  isAwaited: boolean;
  /** The newest version of a job that was replaced while it ran. */
  next: { content: FakeContent; options: JsonObject; runAtMs: number } | undefined;
  history: { attempt: number; ended_at: string; error: string }[];
}

export interface FakeBody {
  readonly bytes: Buffer;
  readonly contentType: string;
}

export interface FakeContent extends FakeBody {
  readonly attributes: Readonly<Record<string, string>>;
}

/** An error of the server. */
export class FakeProblem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly field?: string,
  ) {
    super(detail);
  }
}

/** So long a job is kept whose result a client waits for. */
const AWAITED_MS = 10_000;
const LEASE_MS = 60_000;
const MAX_ATTEMPTS = 10;
const RETRY_MAX_MS = 3_600_000;

export type PublishOutcome = "created" | "exists" | "replaced" | "rerun" | "revived";

export class FakeStore {
  readonly jobs: FakeJob[] = [];
  /** How many jobs were ever stored. */
  #stored = 0;
  readonly #clock: FakeClock;

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  /** Publishes a job as the server does. */
  publish(queue: string, content: FakeContent, options: JsonObject): { job: FakeJob; outcome: PublishOutcome } {
    const runAtMs = this.#dueTime(options);
    const key = options["key"] as string | undefined;
    const found = key === undefined ? undefined : this.find(queue, { key });
    if (found === undefined) {
      return { job: this.#insert(queue, key, content, options, runAtMs), outcome: "created" };
    }
    return { job: found, ...this.#meet(found, content, options, runAtMs) };
  }

  /** Publishes with a key that a job has. */
  #meet(job: FakeJob, content: FakeContent, options: JsonObject, runAtMs: number): { job?: FakeJob; outcome: PublishOutcome } {
    const rule = (options["if_exists"] as string | undefined) ?? "keep";
    if (job.state === "dead") {
      Object.assign(job, { content, options, runAtMs, state: "delayed", failures: 0, history: [] });
      return { outcome: "revived" };
    }
    if (rule === "reject") {
      throw new FakeProblem(409, "key_taken", "A job has this key, and `if_exists` is `reject`.");
    }
    if (job.state === "leased" && (rule === "replace" || job.isCancelRequested)) {
      job.next = { content, options, runAtMs };
      job.isCancelRequested = false;
      return { outcome: "rerun" };
    }
    if (rule === "keep") {
      return { outcome: "exists" };
    }
    if (job.state === "done") {
      this.remove(job);
      return { job: this.#insert(job.queue, job.key, content, options, runAtMs), outcome: "created" };
    }
    Object.assign(job, { content, options, runAtMs });
    return { outcome: "replaced" };
  }

  #insert(queue: string, key: string | undefined, content: FakeContent, options: JsonObject, runAtMs: number): FakeJob {
    this.#stored += 1;
    const job: FakeJob = {
      id: this.#stored.toString(36).toUpperCase().padStart(26, "0"), queue, key, content, options, runAtMs,
      createdAtMs: this.#clock.now(), state: "delayed", attempt: 0, failures: 0, leaseUntilMs: 0, doneAtMs: 0,
      result: undefined, isCancelRequested: false, isAwaited: false, next: undefined, history: [],
    };
    this.jobs.push(job);
    return job;
  }

  /** The time in ms since 1970. */
  now(): number {
    return this.#clock.now();
  }

  /** Changes a job that waits. */
  change(job: FakeJob, fields: JsonObject): void {
    if (job.state === "leased") {
      throw new FakeProblem(409, "job_running", "A worker holds the job.");
    }
    if (job.state === "dead") {
      throw new FakeProblem(409, "job_dead", "The job is in the dead letter.");
    }
    if (fields["delay"] !== undefined || fields["run_at"] !== undefined) {
      Object.assign(job, { runAtMs: this.#dueTime(fields), state: "delayed" });
    }
    const { priority, start_within: startWithin } = fields;
    job.options = { ...job.options, ...(priority !== undefined && { priority }), ...(startWithin !== undefined && { start_within: startWithin }) };
    this.tick();
  }

  find(queue: string, by: { id?: string; key?: string }): FakeJob | undefined {
    this.tick();
    return this.jobs.find((job) => job.queue === queue && (by.id === undefined ? job.key === by.key : job.id === by.id));
  }

  /** The job, or the error of the server. */
  get(queue: string, by: { id?: string; key?: string }): FakeJob {
    const job = this.find(queue, by);
    if (job === undefined) {
      throw new FakeProblem(404, "job_not_found", "The queue has no job with this id or key.");
    }
    return job;
  }

  remove(job: FakeJob): void {
    this.jobs.splice(this.jobs.indexOf(job), 1);
  }

  /** Does what is due: leases end, jobs that are kept are forgotten, jobs that come too late are dropped. */
  tick(): void {
    const now = this.#clock.now();
    for (const job of [...this.jobs]) {
      if (job.state === "leased" && job.leaseUntilMs <= now) {
        this.#endAttempt(job, now);
      }
      if (job.state === "delayed" && job.runAtMs <= now) {
        job.state = "ready";
      }
      const startWithin = parseDuration(job.options["start_within"]);
      const isLate = startWithin !== undefined && job.attempt === 0 && job.state === "ready" && job.runAtMs + startWithin < now;
      if (isLate || (job.state === "done" && job.doneAtMs + this.#kept(job) <= now)) {
        this.remove(job);
      }
    }
  }

  /** Leases ready jobs of these queues, by priority and due time. */
  reserve(queues: readonly string[], most: number, leaseMs: number | undefined): FakeJob[] {
    this.tick();
    const priority = (job: FakeJob): number => Number(job.options["priority"] ?? 0);
    const ready = this.jobs.filter((job) => job.state === "ready" && queues.includes(job.queue));
    ready.sort((one, other) => priority(other) - priority(one) || one.runAtMs - other.runAtMs);
    const taken = ready.slice(0, most);
    for (const job of taken) {
      job.state = "leased";
      job.attempt += 1;
      job.leaseUntilMs = this.#clock.now() + (leaseMs ?? parseDuration(job.options["lease"]) ?? LEASE_MS);
    }
    return taken;
  }

  /** The job that is held by this lease, or why it is not. */
  held(lease: string): FakeJob | "lost" | "gone" {
    this.tick();
    const [id, attempt] = lease.split(".");
    const job = this.jobs.find((it) => it.id === id);
    if (job === undefined || job.state === "done") {
      return "gone";
    }
    return job.state === "leased" && String(job.attempt) === attempt ? job : "lost";
  }

  ack(job: FakeJob, result: FakeBody | undefined): JsonObject {
    if (this.#rerun(job)) {
      return { outcome: "rerun" };
    }
    Object.assign(job, { state: "done", doneAtMs: this.#clock.now(), result });
    return { outcome: "done" };
  }

  fail(job: FakeJob, failure: { error: string; retry_in?: string; dead?: boolean }): JsonObject {
    const ended = this.#endUnlessAsked(job);
    if (ended !== undefined) {
      return ended;
    }
    const now = this.#clock.now();
    job.failures += 1;
    job.history = [...job.history, { attempt: job.attempt, ended_at: iso(now), error: failure.error }].slice(-10);
    const maxAttempts = Number(job.options["max_attempts"] ?? retryOf(job)["max_attempts"] ?? MAX_ATTEMPTS);
    if (failure.dead === true || job.failures >= maxAttempts) {
      job.state = "dead";
      return { outcome: "dead" };
    }
    job.runAtMs = now + (parseDuration(failure.retry_in) ?? retryDelay(job));
    job.state = "delayed";
    return { outcome: "retry", run_at: iso(job.runAtMs) };
  }

  release(job: FakeJob, delayMs: number): JsonObject {
    const ended = this.#endUnlessAsked(job);
    if (ended === undefined) {
      Object.assign(job, { state: "delayed", runAtMs: this.#clock.now() + delayMs });
    }
    return ended ?? { outcome: "released" };
  }

  cancel(job: FakeJob, running: string): JsonObject {
    if (job.state === "done") {
      return { outcome: "already_done", id: job.id };
    }
    if (job.state === "dead") {
      throw new FakeProblem(409, "job_dead", "The job is in the dead letter.");
    }
    if (job.state === "leased" && running === "refuse") {
      throw new FakeProblem(409, "job_running", "A worker holds the job.");
    }
    if (job.state === "leased" && running === "ask") {
      job.isCancelRequested = true;
      return { outcome: "cancel_requested", id: job.id };
    }
    this.remove(job);
    return job.state === "leased" ? { outcome: "revoked", id: job.id } : { outcome: "cancelled", id: job.id, was: job.state };
  }

  #endUnlessAsked(job: FakeJob): JsonObject | undefined {
    if (job.isCancelRequested) {
      this.remove(job);
      return { outcome: "cancelled" };
    }
    return this.#rerun(job) ? { outcome: "rerun" } : undefined;
  }

  #endAttempt(job: FakeJob, now: number): void {
    if (this.#endUnlessAsked(job) === undefined) {
      Object.assign(job, { state: "ready", runAtMs: now });
    }
  }

  #rerun(job: FakeJob): boolean {
    if (job.next === undefined) {
      return false;
    }
    Object.assign(job, job.next, { state: "delayed", next: undefined, failures: 0 });
    return true;
  }

  #kept(job: FakeJob): number {
    return Math.max(parseDuration(job.options["retain"]) ?? 0, job.isAwaited ? AWAITED_MS : 0);
  }

  #dueTime(options: JsonObject): number {
    const now = this.#clock.now();
    const { delay, run_at: runAt } = options;
    if (delay !== undefined && runAt !== undefined) {
      throw new FakeProblem(400, "delay_and_run_at", "`delay` and `run_at` were both given.");
    }
    const delayMs = delay === undefined ? 0 : parseDuration(delay);
    if (delayMs === undefined) {
      throw new FakeProblem(400, "invalid_parameter", `${JSON.stringify(delay)} is not a duration`, "delay");
    }
    const text = String(runAt);
    const atMs = /^\d+$/.test(text) ? Number(text) : Date.parse(text);
    return runAt === undefined ? now + delayMs : Math.max(atMs, now);
  }
}

export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

function retryOf(job: FakeJob): JsonObject {
  const retry = job.options["retry"];
  return (typeof retry === "string" ? JSON.parse(retry) : (retry ?? {})) as JsonObject;
}

/** The delay after the last failure, without its random part. */
function retryDelay(job: FakeJob): number {
  const retry = retryOf(job);
  const delays = retry["delays"] as string[] | undefined;
  const listed = delays?.[Math.min(job.failures, delays.length) - 1] ?? retry["every"];
  const first = parseDuration(retry["first"]) ?? 1_000;
  const grown = first * Number(retry["factor"] ?? 2) ** (job.failures - 1);
  return parseDuration(listed) ?? Math.min(grown, parseDuration(retry["max"]) ?? RETRY_MAX_MS);
}
