/**
 * Requests of consumers: reserve jobs, and report their ends. A `Worker` does this by itself.
 */

import { encodeContent, membersOf } from "./content.js";
import { ServerError } from "./errors.js";
import { checkedName } from "./http/paths.js";
import { jsonCall, jsonTextCall, type Reply, type Transport } from "./http/transport.js";
import { LeasedJob, type LeasedJobView, ReserveText } from "./leased-job.js";
import { Patience } from "./patience.js";
import { type LeaseOutcome } from "./wire/answers.js";
import { fromWire } from "./wire/names.js";
import { durationText, optionalDuration } from "./wire/values.js";

/** A queue of a reserve: its name, or its name with a weight of 1 to 100. */
export type QueueChoice = string | { readonly name: string; readonly weight: number };

export interface ReserveOptions {
  /** The most jobs: 1 to 256. Default: 1. */
  readonly maxJobs?: number;
  /** How long to wait for a job. A wait of more than 20 s takes several requests. Default: 0. */
  readonly waitMs?: number;
  /** The length of the leases. Default: by the job, or else the policy of its queue. */
  readonly leaseMs?: number;
  /** The name of the worker, 1 to 128 bytes, for the list of workers. */
  readonly worker?: string;
  /** `strict`: a queue is looked into only if all before it are empty. Default: `weighted` if a queue has a weight. */
  readonly order?: "strict" | "weighted";
  /** Ends the wait. The server gives the jobs back that it could not deliver. */
  readonly signal?: AbortSignal;
}

/** A failed attempt. */
export interface FailedLease {
  readonly lease: string;
  /** The reason, of which 1,024 bytes are kept. */
  readonly error: string;
  /** The time to the next attempt, instead of the retry policy. */
  readonly retryInMs?: number;
  /** No attempt can succeed: the job goes to the dead letter. */
  readonly dead?: boolean;
}

/** A lease of a job that is done, with its result. */
export interface DoneLease {
  readonly lease: string;
  /** A value of JSON; or bytes, a `Content` or a `JsonText`. Up to 256 KiB. */
  readonly result?: unknown;
}

/** @internal The fields of a reserve, without `settle`. */
export function reserveBody(queues: readonly QueueChoice[], options: ReserveOptions): Record<string, unknown> {
  return {
    queues: queues.map((queue) => {
      checkedName("queues", typeof queue === "string" ? queue : queue.name);
      return queue;
    }),
    max_jobs: options.maxJobs,
    wait: optionalDuration("wait", options.waitMs),
    lease: optionalDuration("lease", options.leaseMs),
    worker: options.worker,
    order: options.order,
  };
}

/** @internal */
export interface ReserveAnswer {
  readonly now?: string;
  readonly jobs: readonly LeasedJobView[];
  readonly settled?: { readonly ack: readonly LeaseOutcome[]; readonly fail: readonly LeaseOutcome[] };
}

/** @internal Writes an element of an ack. */
export function ackItem(done: string | DoneLease): string {
  const { lease, result } = typeof done === "string" ? { lease: done, result: undefined } : done;
  return result === undefined
    ? JSON.stringify(lease)
    : `{"lease":${JSON.stringify(lease)},${membersOf("result", encodeContent("result", result))}}`;
}

/** @internal Writes an element of a fail. */
export function failItem(failed: FailedLease): string {
  const { lease, error, dead } = failed;
  const retryIn = optionalDuration("retry_in", failed.retryInMs);
  return JSON.stringify({ lease, error: error.toWellFormed(), retry_in: retryIn, dead });
}

/** @internal */
export class Consumer {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  async reserve(queues: readonly QueueChoice[], options: ReserveOptions): Promise<LeasedJob[]> {
    const { signal } = options;
    const patience = new Patience(options.waitMs ?? 0);
    const attempt = (): Promise<Reply> => {
      const waitMs = options.waitMs === undefined ? undefined : patience.nextWait();
      const body = reserveBody(queues, { ...options, waitMs });
      return this.#transport.send(jsonCall("POST", "/reserve", body, { waitMs, signal }));
    };
    for (;;) {
      const reply = await this.#transport.repeated("safe", false, attempt);
      const text = new ReserveText(reply.text(), this.#transport.integers);
      const { jobs } = text.read<ReserveAnswer>();
      if (jobs.length > 0 || patience.isOver) {
        return jobs.map((view, index) => new LeasedJob(view, text, index));
      }
      await patience.pace(signal);
    }
  }

  async ack(done: readonly (string | DoneLease)[]): Promise<LeaseOutcome[]> {
    return this.#settle("/ack", `{"leases":[${done.map(ackItem).join(",")}]}`);
  }

  async fail(failed: readonly FailedLease[]): Promise<LeaseOutcome[]> {
    return this.#settle("/fail", `{"leases":[${failed.map(failItem).join(",")}]}`);
  }

  async touch(leases: readonly string[], leaseMs?: number): Promise<LeaseOutcome[]> {
    return this.#settle("/touch", JSON.stringify({ leases, lease: optionalDuration("lease", leaseMs) }));
  }

  async release(leases: readonly string[], delayMs?: number): Promise<LeaseOutcome[]> {
    return this.#settle("/release", releaseBody(leases, delayMs));
  }

  async #settle(path: string, body: string): Promise<LeaseOutcome[]> {
    const reply = await this.#transport.sendRepeated(jsonTextCall("POST", path, body), "safe");
    return outcomesOf(reply.json());
  }
}

/** @internal */
export function releaseBody(leases: readonly string[], delayMs: number | undefined): string {
  return JSON.stringify({ leases, delay: delayMs === undefined ? undefined : durationText("delay", delayMs) });
}

/** @internal */
export function outcomesOf(answer: unknown): LeaseOutcome[] {
  const { results } = (answer ?? {}) as { results?: unknown };
  if (!Array.isArray(results)) {
    throw new ServerError({ detail: "the answer has no results", applied: "unknown" });
  }
  return fromWire(results);
}
