/**
 * The events of a worker, for logs and metrics.
 */

import { type LeaseOutcome } from "../wire/answers.js";
import { type Job } from "./job.js";
import { type AbortReason } from "./outcomes.js";

/** How a run ended. */
export interface JobEnded {
  readonly job: Job;
  /** `done`, `failed` (which may be retried), `dead`, or `released`: snoozed, or given back by a stop. */
  readonly end: "done" | "failed" | "dead" | "released";
  /** The reason of `failed` and `dead`. */
  readonly error: string | undefined;
  /** How long the handler ran. */
  readonly durationMs: number;
  /** Whether the end has no effect, since the lease was lost. */
  readonly isLost: boolean;
}

/** An error of a request of the worker. */
export interface RequestFailed {
  readonly request: "reserve" | "touch" | "ack" | "fail" | "release";
  readonly error: unknown;
  /** When it is repeated; `undefined` if it is not. */
  readonly retryInMs: number | undefined;
}

/**
 * Functions that a worker calls. They must be short, and what they throw is ignored.
 */
export interface WorkerHooks {
  /** A handler begins. */
  readonly started?: (job: Job) => void;
  /** A handler has ended. */
  readonly ended?: (event: JobEnded) => void;
  /** A handler was aborted, and has not ended yet. */
  readonly aborted?: (job: Job, reason: AbortReason) => void;
  /** The server has the end of a job. `jobId` is its id. */
  readonly reported?: (jobId: string, outcome: LeaseOutcome) => void;
  /** A request failed. */
  readonly requestFailed?: (event: RequestFailed) => void;
  /** The worker begins to stop. */
  readonly stopping?: (cause: { readonly signal?: NodeJS.Signals; readonly error?: unknown }) => void;
  /** Something is wrong that people should see. Default: `console.warn`, at most every 30 s for failing requests. */
  readonly warning?: (text: string) => void;
}

const WARNING_INTERVAL_MS = 30_000;

/** @internal Calls hooks, and never throws. */
export class HookCalls {
  readonly #hooks: WorkerHooks;
  #warnedAt = -Infinity;

  constructor(hooks: WorkerHooks) {
    this.#hooks = { warning: (text) => console.warn(`tidegate: ${text}`), ...hooks };
  }

  started(job: Job): void {
    this.#call("started", job);
  }

  ended(event: JobEnded): void {
    this.#call("ended", event);
  }

  aborted(job: Job, reason: AbortReason): void {
    this.#call("aborted", job, reason);
  }

  get wantsReports(): boolean {
    return this.#hooks.reported !== undefined;
  }

  reported(jobId: string, outcome: LeaseOutcome): void {
    this.#call("reported", jobId, outcome);
  }

  stopping(cause: { signal?: NodeJS.Signals; error?: unknown }): void {
    this.#call("stopping", cause);
  }

  warning(text: string): void {
    this.#call("warning", text);
  }

  /** Warns seldom: an outage lets many requests fail. */
  requestFailed(event: RequestFailed): void {
    this.#call("requestFailed", event);
    const now = performance.now();
    if (now - this.#warnedAt >= WARNING_INTERVAL_MS) {
      this.#warnedAt = now;
      const next = event.retryInMs === undefined ? "" : "; it is repeated";
      this.warning(`/${event.request} failed: ${String(event.error)}${next}`);
    }
  }

  #call<K extends keyof WorkerHooks>(name: K, ...values: Parameters<NonNullable<WorkerHooks[K]>>): void {
    try {
      const returned = (this.#hooks[name] as ((...values: unknown[]) => unknown) | undefined)?.(...values);
      // A hook may be an async function; an error that nobody handles would end the process.
      if (returned instanceof Promise) {
        returned.catch(() => undefined);
      }
    } catch {
      // A hook that fails must not keep a job from being reported.
    }
  }
}
