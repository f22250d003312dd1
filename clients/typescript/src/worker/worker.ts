/**
 * A worker: reserves jobs, runs their handlers, and reports their ends.
 */

import { hostname } from "node:os";

import { type Client, coreOf } from "../client.js";
import { type QueueChoice } from "../consume.js";
import { invalid } from "../errors.js";
import { checkedName } from "../http/paths.js";
import { type Handler, type Middleware, type Schema, withSchema, wrap, type WrappedHandler } from "./handlers.js";
import { HookCalls, type WorkerHooks } from "./hooks.js";
import { WorkerRun } from "./run.js";
import { onStopSignals } from "./signals.js";

export interface WorkerOptions {
  /** How many handlers run at a time. Default: 64. */
  readonly slots?: number;
  /** How many jobs more are reserved and wait in the process for a slot. Default: 0. */
  readonly prefetch?: number;
  /** The name in the list of workers, 1 to 128 bytes. Default: `HOST:PID`. */
  readonly name?: string;
  /** Weights of queues, 1 to 100: a queue of weight 3 comes first three times as often as a queue of weight 1. */
  readonly weights?: Readonly<Record<string, number>>;
  /** Serves a queue only if all queues whose handlers were set before are empty. Default: false. */
  readonly strict?: boolean;
  /** The length of leases, 100 to 86,400,000. Default: by the job, or else the policy of its queue. */
  readonly leaseMs?: number;
  /** How long a request waits for jobs; more than 240,000 counts as 240,000. Default: 20,000. */
  readonly waitMs?: number;
  /** How long a handler may run before it is aborted. Default: no limit. */
  readonly maxRunMs?: number;
  /** How long handlers may run after a stop. Default: 25,000. */
  readonly graceMs?: number;
  /** Whether SIGTERM and SIGINT stop the worker. Default: true. */
  readonly signals?: boolean;
  /** Wraps all handlers; the first one is the outermost. */
  readonly middleware?: readonly Middleware[];
  /** Functions for logs and metrics. */
  readonly hooks?: WorkerHooks;
}

const SLOTS = 64;
const WAIT_MS = 20_000;
/** `fetch` gives a request up that is silent for 300 s. */
const WAIT_MAX_MS = 240_000;
const GRACE_MS = 25_000;
const QUEUES_MAX = 16;

/**
 * A worker for up to 16 queues.
 *
 * A job runs at least once: it runs again if its worker dies, or if its end does not reach the server before its lease
 * ends. Make effects harmless to repeat: `job.id` and `job.attempt` together name a delivery.
 */
export class Worker {
  readonly #client: Client;
  readonly #options: WorkerOptions;
  readonly #handlers = new Map<string, Handler>();
  #run: WorkerRun | undefined;

  constructor(client: Client, options: WorkerOptions = {}) {
    checkCount("slots", options.slots ?? SLOTS, 1);
    checkCount("prefetch", options.prefetch ?? 0, 0);
    checkLimit("maxRunMs", options.maxRunMs ?? Infinity);
    checkLimit("graceMs", options.graceMs ?? GRACE_MS);
    checkLimit("waitMs", options.waitMs ?? WAIT_MS);
    this.#client = client;
    this.#options = options;
  }

  /** Sets the handler of a queue. */
  handle<T = unknown>(queue: string, handler: Handler<T>): this;
  /** Sets the handler of a queue, with a schema that checks its payloads. A payload that is refused makes a job dead. */
  handle<T>(queue: string, schema: Schema<T>, handler: Handler<T>): this;
  handle<T>(queue: string, first: Schema<T> | Handler<T>, second?: Handler<T>): this {
    checkedName("queue", queue);
    const handler = typeof first === "function" ? first : withSchema(first, second as Handler<T>);
    this.#handlers.set(queue, handler as Handler);
    return this;
  }

  /**
   * Runs until a signal or {@link stop} stops it, and all ends of jobs are reported.
   *
   * @throws AuthError if the server refuses the key
   */
  async run(): Promise<void> {
    if (this.#run !== undefined) {
      throw invalid("worker", "runs already");
    }
    const run = this.#newRun();
    this.#run = run;
    const graceMs = this.#options.graceMs ?? GRACE_MS;
    const isStopped = this.#options.signals ?? true;
    const forget = isStopped ? onStopSignals((signal) => void run.stop({ graceMs, signal })) : undefined;
    run.start();
    try {
      await run.ended;
    } finally {
      forget?.();
      this.#run = undefined;
    }
  }

  /**
   * Stops: no further jobs are reserved, handlers have the grace period to end, the others are aborted and their jobs
   * given back, and all ends are reported, for up to 10 s. Returns when the worker has ended.
   */
  async stop(options: { readonly graceMs?: number } = {}): Promise<void> {
    const graceMs = options.graceMs ?? this.#options.graceMs ?? GRACE_MS;
    await this.#run?.stop({ graceMs });
  }

  /** @internal The handlers with the middleware around them, for the fake. */
  wrappedHandlers(): ReadonlyMap<string, WrappedHandler> {
    const middleware = this.#options.middleware ?? [];
    return new Map([...this.#handlers].map(([queue, handler]) => [queue, wrap(handler, middleware)]));
  }

  #newRun(): WorkerRun {
    const options = this.#options;
    const graceMs = options.graceMs ?? GRACE_MS;
    const settings = {
      queues: this.#queues(),
      order: options.strict === true ? ("strict" as const) : ("weighted" as const),
      waitMs: Math.min(options.waitMs ?? WAIT_MS, WAIT_MAX_MS),
      leaseMs: options.leaseMs,
      name: options.name ?? `${hostname()}:${process.pid}`,
      slots: options.slots ?? SLOTS,
      prefetch: options.prefetch ?? 0,
      handlers: this.wrappedHandlers(),
      maxRunMs: options.maxRunMs,
    };
    return new WorkerRun(coreOf(this.#client).transport, settings, new HookCalls(options.hooks ?? {}), graceMs);
  }

  #queues(): QueueChoice[] {
    const names = [...this.#handlers.keys()];
    if (names.length === 0 || names.length > QUEUES_MAX) {
      throw invalid("queues", `a worker has handlers for 1 to ${QUEUES_MAX} queues, not ${names.length}`);
    }
    const weights = this.#options.weights ?? {};
    const unknown = Object.keys(weights).find((name) => !this.#handlers.has(name));
    if (unknown !== undefined) {
      throw invalid("weights", `there is no handler for the queue ${unknown}`);
    }
    return names.map((name) => {
      const weight = weights[name];
      return weight === undefined ? name : { name, weight };
    });
  }
}

/** A time limit, which may be `Infinity`. */
function checkLimit(name: string, ms: number): void {
  if (!(ms >= 0)) {
    throw invalid(name, `is a number of milliseconds of 0 or more, not ${String(ms)}`);
  }
}

function checkCount(name: string, value: number, least: number): void {
  if (!Number.isSafeInteger(value) || value < least) {
    throw invalid(name, `is a whole number of ${least} or more, not ${value}`);
  }
}
