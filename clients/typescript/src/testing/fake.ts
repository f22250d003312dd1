/**
 * A Tidegate in memory, with a clock that is moved by hand.
 */

import { Client } from "../client.js";
import { type ClientOptions } from "../config.js";
import { readJson } from "../json/exact.js";
import { ReserveText } from "../leased-job.js";
import { type JobState } from "../wire/answers.js";
import { runHandler } from "../worker/execution.js";
import { HookCalls } from "../worker/hooks.js";
import { Job } from "../worker/job.js";
import { type Worker } from "../worker/worker.js";
import { FakeClock } from "./clock.js";
import { answer, type FakeAnswer, type FakeRequest, problemOf, reserve, resultOf } from "./routes.js";
import { type FakeJob, FakeStore } from "./store.js";

/** A job of the fake, as tests see it. */
export interface StoredJob {
  readonly id: string;
  readonly queue: string;
  readonly key: string | undefined;
  readonly state: JobState;
  readonly runAt: Date;
  readonly attempt: number;
  readonly failures: number;
  readonly attributes: Readonly<Record<string, string>>;
  /** The value of its JSON, or its bytes. */
  readonly payload: unknown;
  /** The error of the last failure. */
  readonly lastError: string | undefined;
}

/** A publish that the fake has answered. */
export interface RecordedPublish {
  readonly queue: string;
  readonly key: string | undefined;
  readonly payload: unknown;
  readonly runAt: Date;
}

export interface FakeOptions {
  /** The time at the begin. Default: 2030-01-01T00:00:00Z. */
  readonly now?: Date;
}

/** The most rounds of {@link FakeTidegate.runDue}: handlers that publish jobs for each other would never end. */
const ROUNDS_MAX = 10_000;

/**
 * A Tidegate in memory: publishes, keys, delays, retries, results, cancels and dead letters of one namespace. Its
 * clients are real clients. It has no policies, schedules, groups in turn, or rates; a request for these throws a
 * `ServerError` with the code `not_in_fake`.
 */
export class FakeTidegate {
  readonly #clock: FakeClock;
  readonly #store: FakeStore;
  readonly #published: RecordedPublish[] = [];
  /** Requests that wait: each is asked again after every change. */
  readonly #waiting = new Set<() => void>();

  constructor(options: FakeOptions = {}) {
    this.#clock = new FakeClock(options.now ?? new Date("2030-01-01T00:00:00Z"));
    this.#store = new FakeStore(this.#clock);
  }

  /** A client of the fake. It sends nothing over the network. */
  client(options: Omit<ClientOptions, "fetch"> = {}): Client {
    const defaults = { url: "http://fake.invalid", key: "tg_fake", namespace: "fake" };
    return new Client({ ...defaults, ...options, fetch: (url, init) => this.#fetch(url, init) });
  }

  /** The time of the fake. */
  get now(): Date {
    return new Date(this.#clock.now());
  }

  /** Moves the clock forward. Jobs become due, but no handler runs before {@link runDue}. */
  advance(ms: number): void {
    this.#clock.advance(ms);
    this.#store.tick();
    this.#changed();
  }

  /** All publishes so far, also of jobs that are done. */
  get published(): readonly RecordedPublish[] {
    return this.#published;
  }

  /** The jobs that the fake has now, of all queues or of one. */
  jobs(queue?: string): StoredJob[] {
    this.#store.tick();
    return this.#store.jobs.filter((job) => queue === undefined || job.queue === queue).map(storedJob);
  }

  /**
   * Runs the jobs that are due, with the handlers and the middleware of a worker, one after the other, until none is
   * due. Retries that are due later wait for {@link advance}. Returns how many handlers have run.
   */
  async runDue(worker: Worker): Promise<number> {
    const handlers = worker.wrappedHandlers();
    const hooks = new HookCalls({});
    for (let runs = 0; runs < ROUNDS_MAX; runs += 1) {
      const [job] = this.#store.reserve([...handlers.keys()], 1, undefined);
      if (job === undefined) {
        return runs;
      }
      const context = { handlers, hooks, maxRunMs: undefined, abort: () => undefined };
      const end = await runHandler(context, this.#leased(job));
      await this.#report(job, end);
    }
    throw new Error(`after ${ROUNDS_MAX} runs there are still jobs that are due`);
  }

  /** The job as a worker would get it from the server. */
  #leased(job: FakeJob): Job {
    const request = requestOf("GET", ["queues", job.queue, "jobs", job.id]);
    const details = (answer(this.#store, request) as { json: object }).json;
    const isJson = job.content.contentType.startsWith("application/json");
    const payload = isJson ? `"payload":${job.content.bytes.toString()}` : `"payload_base64":"${job.content.bytes.toString("base64")}"`;
    const lease = JSON.stringify(leaseOf(job));
    const text = `{"jobs":[{${JSON.stringify(details).slice(1, -1)},"lease":${lease},${payload}}]}`;
    const shared = new ReserveText(text, "number");
    const view = shared.read<{ jobs: ConstructorParameters<typeof Job>[0][] }>().jobs[0];
    return new Job(view as ConstructorParameters<typeof Job>[0], shared, 0);
  }

  /** Reports by the requests of a worker, so that results are written as they are on the wire. */
  async #report(job: FakeJob, end: Awaited<ReturnType<typeof runHandler>>): Promise<void> {
    const client = this.client();
    const lease = leaseOf(job);
    if (end.kind === "done") {
      await client.ack([{ lease, result: end.result }]);
    } else if (end.kind === "fail") {
      await client.fail([{ ...end, lease }]);
    } else {
      await client.release([lease], end.delayMs === undefined ? {} : { delayMs: end.delayMs });
    }
  }

  async #fetch(url: string | URL | Request, init: RequestInit | undefined): Promise<Response> {
    const { pathname, searchParams } = new URL(String(url));
    const parts = pathname.split("/").slice(3).map(decodeURIComponent);
    const body = typeof init?.body === "string" ? Buffer.from(init.body) : Buffer.from((init?.body as Uint8Array | null) ?? []);
    const request = { method: init?.method ?? "GET", parts, query: searchParams, headers: new Headers(init?.headers), body };
    try {
      return responseOf(await this.#answer(request, init?.signal ?? undefined));
    } catch (error) {
      const problem = problemOf(error);
      return Response.json(problem, { status: problem["status"] as number });
    } finally {
      this.#changed();
    }
  }

  async #answer(request: FakeRequest, signal: AbortSignal | undefined): Promise<FakeAnswer> {
    const first = answer(this.#store, request);
    this.#record(request, first);
    // A reserve that waits may have reported the ends of jobs.
    this.#changed();
    const waitMs = waitOf(request);
    const again = waitMs === 0 ? undefined : this.#repeatable(request, first);
    return again === undefined ? first : this.#wait(again, first, waitMs, signal);
  }

  /** How to ask again, if the request may wait for something. */
  #repeatable(request: FakeRequest, first: FakeAnswer): (() => FakeAnswer | undefined) | undefined {
    if (request.parts[0] === "reserve") {
      return hasJobs(first) ? undefined : this.#reserveAgain(request, first);
    }
    if (!("json" in first)) {
      return undefined;
    }
    const { id } = first.json as { id: string };
    const queue = request.parts[1] as string;
    this.#store.get(queue, { id }).isAwaited = true;
    return () => {
      const found = resultOf(this.#store.get(queue, { id }));
      return found.status === 202 ? undefined : found;
    };
  }

  #reserveAgain(request: FakeRequest, first: FakeAnswer): () => FakeAnswer | undefined {
    const text = "body" in first ? first.body.bytes.toString() : "{}";
    const { settled } = JSON.parse(text) as { settled?: Record<string, unknown> };
    return () => {
      const found = reserve(this.#store, request, settled);
      return hasJobs(found) ? found : undefined;
    };
  }

  /** Asks after each change, for up to so long in real time. */
  #wait(ask: () => FakeAnswer | undefined, last: FakeAnswer, waitMs: number, signal?: AbortSignal): Promise<FakeAnswer> {
    return new Promise((resolve, reject) => {
      const end = (settle: () => void): void => {
        this.#waiting.delete(check);
        clearTimeout(timer);
        settle();
      };
      const check = (): void => {
        try {
          const found = ask();
          if (found !== undefined) {
            end(() => resolve(found));
          }
        } catch (error) {
          end(() => reject(error));
        }
      };
      const timer = setTimeout(() => end(() => resolve(last)), waitMs);
      signal?.addEventListener("abort", () => end(() => reject(signal.reason as Error)), { once: true });
      this.#waiting.add(check);
      check();
    });
  }

  #changed(): void {
    for (const check of [...this.#waiting]) {
      check();
    }
  }

  #record(request: FakeRequest, answered: FakeAnswer): void {
    if (!isPublish(request) || !("json" in answered)) {
      return;
    }
    const { results = [answered.json] } = answered.json as { results?: unknown[] };
    for (const { id } of results as { id?: string }[]) {
      const job = this.#store.jobs.find((it) => it.id === id);
      if (job !== undefined) {
        const { queue, key, payload, runAt } = storedJob(job);
        this.#published.push({ queue, key, payload, runAt });
      }
    }
  }
}

function hasJobs(reserved: FakeAnswer): boolean {
  return "body" in reserved && !reserved.body.bytes.includes('"jobs":[]');
}

function isPublish({ method, parts }: FakeRequest): boolean {
  return method === "POST" && parts[2] === "jobs" && (parts.length === 3 || (parts.length === 4 && ["batch", "call"].includes(parts[3] ?? "")));
}

function requestOf(method: string, parts: string[]): FakeRequest {
  return { method, parts, query: new URLSearchParams(), headers: new Headers(), body: Buffer.alloc(0) };
}

function leaseOf(job: FakeJob): string {
  return `${job.id}.${job.attempt}.${job.queue}`;
}

function waitOf(request: FakeRequest): number {
  const inBody = request.parts[0] === "reserve" ? (JSON.parse(request.body.toString()) as { wait?: string }).wait : undefined;
  const text = request.query.get("wait") ?? inBody;
  return text === undefined || text === null ? 0 : Number.parseInt(text, 10);
}

function responseOf(answered: FakeAnswer): Response {
  if ("json" in answered) {
    return answered.status === 204 ? new Response(null, { status: 204 }) : Response.json(answered.json, { status: answered.status });
  }
  const headers = { "content-type": answered.body.contentType, "tidegate-job-id": answered.id };
  return new Response(new Uint8Array(answered.body.bytes), { status: answered.status, headers });
}

function storedJob(job: FakeJob): StoredJob {
  const { id, queue, key, state, attempt, failures, content } = job;
  const isJson = content.contentType.startsWith("application/json");
  return {
    id, queue, key, state, attempt, failures,
    runAt: new Date(job.runAtMs),
    attributes: content.attributes,
    payload: isJson ? readJson(content.bytes.toString(), "bigint") : new Uint8Array(content.bytes),
    lastError: job.history.at(-1)?.error,
  };
}

